# `make demo` and `make test` need python3 with venv, and nothing else.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
OUTPUT ?= runs/demo
REPORT ?= runs/report
PIP := $(BIN)/python -m pip install --disable-pip-version-check

.PHONY: demo report-demo test libraries check lint types layers docs format fuzz release-check compatibility install clean

# Eight modules of Zstandard at -Os: clang's own choices, a rule of one line, and inlining whatever clang asks about.
demo: $(VENV)/.installed-demo
	@echo "==> compiling Zstandard's modules as three policies decide, and by clang alone"
	@$(BIN)/mlgo-gym evaluate mlgo/Inline-v0 --corpus zstd@Os --offline-corpus builtin --limit 8 \
	    --policy default --policy threshold:0 --policy always --jobs 2 --output $(OUTPUT)

# A page of a real run, made as a user makes it: the corpus in the package, three policies.
report-demo: $(VENV)/.installed
	@$(BIN)/mlgo-gym evaluate mlgo/Inline-v0 --limit 8 --policy default,threshold:0,always --jobs 2 \
	    --output $(REPORT)/results > /dev/null
	@$(BIN)/mlgo-gym report $(REPORT)/results --html $(REPORT)/report.html --figures $(REPORT)/figures > /dev/null

test: $(VENV)/.installed-test
	$(MAKE) --no-print-directory check

# What the tests of RL libraries and foreign models need, without which `make test` skips them. Torch comes first, and by
# its exact version, so that an index of builds for CPUs can give one of those.
libraries: $(VENV)/.installed-libraries

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

# Readers of files and pipes, INPUTS inputs each, guided by coverage; FORMATS names some of them, by default all.
INPUTS ?= 20000
fuzz: $(VENV)/.installed-fuzz
	$(BIN)/python -m tests.fuzz $(FORMATS) --inputs $(INPUTS)

# What would be released: built, looked into, installed afresh, and used as the README says.
release-check: $(VENV)/.installed-test
	$(BIN)/python benchmarks/release_check.py $(if $(NETWORK),--network)

# The tests on each Python that is there, with the oldest and the newest requirements, and with each clang. TESTS names
# some of them, `core` those of the engine.
compatibility: $(VENV)/.installed-nox
	@mkdir -p build
	$(BIN)/nox --report build/nox.json $(if $(TESTS),-- $(TESTS)); status=$$?; \
	    $(BIN)/python benchmarks/compatibility.py build/nox.json && exit $$status

format:
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The documentation as a site, build/site/index.html; a broken link is an error. 20 seconds, and the installation.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "==> build/site; with its search: python3 -m http.server --directory build/site"

install: $(VENV)/.installed

$(BIN)/python:
	@echo "==> making the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(PIP) --quiet --editable '.[all]'
	@touch $@ $(VENV)/.installed-demo

# What is compiled to bytecode now is all of numpy, of which a demonstration needs little.
$(VENV)/.installed-demo: $(BIN)/python pyproject.toml
	@echo "==> installing mlgo-gym and clang: about 160 MB to download, unless pip has them already"
	@$(PIP) --no-compile --editable '.[cli,corpus]'
	@touch $@

$(VENV)/.installed-test: $(BIN)/python pyproject.toml
	$(PIP) --quiet --editable '.[test]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-demo

$(VENV)/.installed-docs: $(BIN)/python pyproject.toml
	$(PIP) --quiet --editable '.[docs]'
	@touch $@

$(VENV)/.installed-fuzz: $(VENV)/.installed-test
	$(PIP) --quiet --editable '.[test,fuzz]'
	@touch $@

$(VENV)/.installed-nox: $(VENV)/.installed-test
	$(PIP) --quiet nox uv
	@touch $@

$(VENV)/.installed-libraries: $(BIN)/python pyproject.toml
	$(PIP) --quiet '$(TORCH)'
	$(PIP) --quiet --editable '.[test-libraries]'
	@touch $@

clean:
	rm -rf $(VENV) build runs *.egg-info
