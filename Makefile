# Two commands: `make demo` and `make test`. Both do all the set-up on a machine with Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export QUBOLEARN_DATA ?= $(wildcard ../shared/data)

.PHONY: demo test lint types pytest format clean

demo: .venv/ready
	$(BIN)/qubolearn demo

test: lint types pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

pytest: .venv/ready
	$(BIN)/python -m pytest

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The constraints pin what is installed; the package itself allows ranges.
.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv runs build dist
