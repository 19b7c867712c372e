# Two commands: `make demo` and `make test`. Both do all the set-up on a machine with Python 3.11, a C++ compiler and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export QUBOLEARN_DATA ?= $(realpath ../shared/data)
# Two processes, each with whole files, so that module fixtures are made once. The last files are short, so both end at
# about the same time.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test docs kernels sanitize wheels lint types pytest format soak explorer benchmark tables constraints audit licenses release-check pretrained newcomer notebooks clean

demo: kernels
	$(BIN)/qubolearn demo

test: lint types pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports

types: .venv/ready
	$(BIN)/mypy

pytest: kernels
	$(BIN)/python -m pytest $(PARALLEL)

# The site in build/site: pages, reference, and the gallery, whose examples are run. Warnings are errors.
docs: kernels
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	$(BIN)/python tools/site_check.py build/site
	$(BIN)/python tools/newcomer.py --quick

# The compiled kernels in place, src/qubolearn/_kernels*.so: only what has changed is compiled.
kernels: .venv/ready
	$(BIN)/python tools/build_kernels.py

# The kernels' tests with AddressSanitizer and UndefinedBehaviorSanitizer; they use NumPy only.
sanitize: .venv/ready
	$(BIN)/python tools/build_kernels.py --sanitize
	ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
	QUBOLEARN_KERNELS_FOLDER=build/sanitize/qubolearn $(BIN)/python -m pytest --confcutdir=tests/kernels/native -p no:cacheprovider tests/kernels/native

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Faults, kills, fuzzing and classic QUBOs at length (docs/guarantees.md): about 10 minutes, counts in benchmarks/results/soak.json.
soak: kernels
	$(BIN)/python tools/soak.py
	$(BIN)/python tools/tables.py docs/guarantees.md

# The explorer's tests in Chromium, and its picture in the documentation.
explorer: kernels
	QUBOLEARN_SCREENSHOTS=$(CURDIR)/docs $(BIN)/python -m pytest tests/explore

# One benchmark, into benchmarks/results; `python -m benchmarks --help` lists the names.
benchmark: kernels
	$(BIN)/python -m benchmarks $(NAME)

# The tables of all pages, from benchmarks/results and reproduction/results.
tables: .venv/ready
	$(BIN)/python tools/tables.py README.md docs/*.md reproduction/docs/*.md

# Regenerate pinned versions and hashes; UPGRADE=--upgrade takes the newest versions.
constraints: .venv/ready
	$(BIN)/python tools/supply_chain.py constraints $(UPGRADE)

audit: .venv/ready
	$(BIN)/python tools/supply_chain.py audit

licenses: .venv/ready
	$(BIN)/python tools/supply_chain.py licenses

# The sdist and a wheel for this Python, in dist.
wheels: .venv/ready
	$(BIN)/python -c "import scikit_build_core.build as b; b.build_sdist('dist'); b.build_wheel('dist')"

# Build sdist and wheel, and use the wheel in a fresh environment (docs/release.md).
release-check: .venv/ready
	$(BIN)/python tools/release_check.py $(ARGUMENTS)

# Follow docs/start.md in a fresh environment with the wheel; writes docs/newcomer.md.
newcomer: kernels
	$(BIN)/python tools/newcomer.py $(ARGUMENTS)

# Execute the gallery's notebooks: some minutes, results in benchmarks/results/notebooks.json.
notebooks: kernels
	$(BIN)/python tools/notebooks.py

# Retrain the models of the package, from a clean commit: some minutes.
pretrained: kernels
	$(BIN)/python tools/pretrained.py

# The constraints pin all packages, with hashes except for torch; the package itself allows ranges.
.venv/ready: pyproject.toml reproduction/pyproject.toml constraints.txt constraints-torch.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --requirement constraints-torch.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . -C wheel.cmake=false -C wheel.py-api=py3 -C editable.mode=inplace
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable reproduction
	touch $@

clean:
	rm -rf .venv runs build dist
