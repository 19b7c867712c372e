# Two commands: `make demo` and `make test`. Both do all the set-up on a machine with Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export QUBOLEARN_DATA ?= $(realpath ../shared/data)
# Two processes, each with whole files: what a file trains or compiles is trained or compiled once. The files at the end
# of the list are short, so both processes end at about the same time.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test docs lint types pytest format soak explorer protections constraints audit licences release-check pretrained newcomer notebooks clean

demo: .venv/ready
	$(BIN)/qubolearn demo

test: lint types pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

pytest: .venv/ready
	$(BIN)/python -m pytest $(PARALLEL)

# The site in build/site: pages, reference, and the gallery, whose examples are run. Warnings are errors.
docs: .venv/ready
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	$(BIN)/python tools/site_check.py build/site
	$(BIN)/python tools/newcomer.py --quick

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Faults, kills, fuzzing and classic QUBOs at length (docs/guarantees.md): about 10 minutes, figures in results/soak.json.
soak: .venv/ready
	$(BIN)/python tools/soak.py
	$(BIN)/qubolearn tables docs/guarantees.md

# The explorer's tests in Chromium, and its picture in the documentation.
explorer: .venv/ready
	QUBOLEARN_SCREENSHOTS=$(CURDIR)/docs $(BIN)/python -m pytest tests/explore

# Takes protections out of a copy of the source, one by one, and sees their tests fail.
protections: .venv/ready
	$(BIN)/python tools/protections.py
	$(BIN)/qubolearn tables docs/guarantees.md

# Versions and hashes anew; `make constraints UPGRADE=--upgrade` takes the newest ones.
constraints: .venv/ready
	$(BIN)/python tools/supply_chain.py constraints $(UPGRADE)

audit: .venv/ready
	$(BIN)/python tools/supply_chain.py audit

licences: .venv/ready
	$(BIN)/python tools/supply_chain.py licences

# Builds sdist and wheel, and uses the wheel in a fresh environment (docs/release.md).
release-check: .venv/ready
	$(BIN)/python tools/release_check.py $(ARGUMENTS)

# What a newcomer does with the wheel, a fresh environment and the site alone; writes docs/newcomer.md.
newcomer: .venv/ready
	$(BIN)/python tools/newcomer.py $(ARGUMENTS)

# The gallery's notebooks as they are downloaded, executed: some minutes, results/notebooks.json.
notebooks: .venv/ready
	$(BIN)/python tools/notebooks.py

# The small models inside the package anew, from a clean commit: some minutes.
pretrained: .venv/ready
	$(BIN)/python tools/pretrained.py

# The constraints pin what is installed, with hashes for all but torch; the package itself allows ranges.
.venv/ready: pyproject.toml constraints.txt constraints-torch.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --requirement constraints-torch.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf .venv runs build dist
