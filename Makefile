# `make demo` and `make test` need python3 with venv, and nothing else.
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
OUTPUT ?= runs/demo

.PHONY: demo test libraries check lint types layers format install clean

demo: .venv/.installed
	@$(BIN)/mlgo-gym evaluate mlgo/Inline-v0 --corpus zstd --offline-corpus builtin --policy default --policy never \
	    --policy always --policy random --jobs 2 --output $(OUTPUT)

test: .venv/.installed-test
	$(MAKE) --no-print-directory check

# What the tests of RL libraries and foreign models need, without which `make test` skips them. Torch comes first, and by
# its exact version, so that an index of builds for CPUs can give one of those.
libraries: .venv/.installed-libraries

check: lint types layers
	$(BIN)/python -m pytest

lint:
	$(BIN)/ruff check
	$(BIN)/ruff format --check

# mypy does not follow a package directory that is mapped elsewhere: lay the packages out as they are installed.
types:
	@rm -rf build/types && mkdir -p build/types
	@cp -rs "$(CURDIR)/mlgo_clang" "$(CURDIR)/mlgo_gym" build/types/ && ln -s "$(CURDIR)/envs" build/types/mlgo_gym/envs
	$(BIN)/mypy

# Nothing imports upwards, and nothing imports itself in a circle: the contracts are in pyproject.toml.
layers: types
	cd build/types && $(CURDIR)/$(BIN)/lint-imports --no-logo --no-cache --config $(CURDIR)/pyproject.toml

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

.venv/.installed-libraries: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test-libraries]'
	@touch $@

clean:
	rm -rf .venv build runs *.egg-info
