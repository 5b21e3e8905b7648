# `make demo` and `make test` need python3 with venv, and nothing else.
PYTHON ?= python3
BIN := .venv/bin
OUTPUT ?= runs/demo

.PHONY: demo test check lint types format install clean

demo: .venv/.installed
	@$(BIN)/mlgo-gym evaluate mlgo/Inline-v0 --corpus zstd --offline-corpus builtin --policy default --policy never \
	    --policy always --policy random --jobs 2 --output $(OUTPUT)

test: .venv/.installed-test
	$(MAKE) --no-print-directory check

check: lint types
	$(BIN)/python -m pytest

lint:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

# mypy does not follow a package directory that is mapped elsewhere: lay the packages out as they are installed.
types:
	@rm -rf build/types && mkdir -p build/types
	@cp -rs "$(CURDIR)/mlgo_gym" build/types/ && ln -s "$(CURDIR)/envs" build/types/mlgo_gym/envs
	$(BIN)/mypy

format:
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

.venv/.installed-test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ .venv/.installed

clean:
	rm -rf .venv build runs *.egg-info
