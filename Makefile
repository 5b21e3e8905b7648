# `make demo` and `make test` need python3 with venv, and nothing else.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
OUTPUT ?= runs/demo
REPORT ?= runs/report
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# uv installs in a fifth of pip's time. It does not read pip's configuration: it gets pip's index, and where it fails, pip
# installs.
INDEX = $(shell $(BIN)/python -m pip config get global.index-url 2>/dev/null)
UV = $(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) $(BIN)/uv pip install --python $(BIN)/python
INSTALL = sh -c '$(UV) "$$@" || $(PIP) "$$@"' install

.PHONY: demo report-demo test test-all check lint types layers docs numbers format fuzz release-check compatibility install clean

# Eight modules of Zstandard at -Os with clang, two rules, and always inlining; without a network packaged modules.
DEMO = $(BIN)/mlgo-gym evaluate mlgo/Inline-v0 --policy default,threshold:0,last-call,always --limit 8 --jobs 2
demo: $(VENV)/.installed-demo
	@$(DEMO) --corpus zstd@Os --output $(OUTPUT)/zstd || $(DEMO) --corpus builtin@Os --output $(OUTPUT)/builtin

# The report of an evaluation of the packaged corpus with three policies.
report-demo: $(VENV)/.installed
	@$(BIN)/mlgo-gym evaluate mlgo/Inline-v0 --limit 8 --policy default,threshold:0,always --jobs 2 \
	    --output $(REPORT)/results > /dev/null
	@$(BIN)/mlgo-gym report $(REPORT)/results --html $(REPORT)/report.html > /dev/null

# What a contributor runs before each commit: it needs no other compiler, no emulator and no RL library.
test: $(VENV)/.installed-test
	$(MAKE) --no-print-directory check

# Every test: also the slow ones, those of the RL libraries, and those of the other programs that are installed.
test-all: $(VENV)/.installed-libraries
	$(MAKE) --no-print-directory check PYTEST_ARGS="-m '' --dist loadgroup"

check: lint types layers
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell

types:
	$(BIN)/mypy

# No import upwards and no circle of imports: the contracts are in pyproject.toml.
layers:
	$(BIN)/lint-imports --no-logo --no-cache

# Fuzzes the readers of files and pipes, guided by coverage: INPUTS per format, FORMATS by name or all.
INPUTS ?= 20000
fuzz: $(VENV)/.installed-fuzz
	$(BIN)/python -m tests.fuzz $(FORMATS) --inputs $(INPUTS)

# Builds the release, inspects it, installs it in a new environment and runs the README's commands.
release-check: $(VENV)/.installed-test
	$(BIN)/python .ci/release_check.py $(if $(NETWORK),--network) $(if $(ADDRESS),--address $(ADDRESS))

# The tests on each installed Python with the oldest and the newest requirements, and with each clang. TESTS selects
# tests; `core` selects those of the engine.
compatibility: $(VENV)/.installed-nox
	@mkdir -p build
	$(BIN)/nox --report build/nox.json $(if $(TESTS),-- $(TESTS)); status=$$?; \
	    $(BIN)/python .ci/compatibility.py build/nox.json && exit $$status

format:
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The documentation as a site, build/site/index.html; a broken link is an error.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "==> build/site; with its search: python3 -m http.server --directory build/site"

# The measurements of docs/results, written into the pages.
numbers: $(VENV)/.installed-test
	$(BIN)/python -m docs.site.numbers

install: $(VENV)/.installed

$(BIN)/python:
	@echo "==> creating the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --quiet --only-binary :all: uv || true

$(VENV)/.installed: $(BIN)/python pyproject.toml
	@echo "==> installing mlgo-gym with its extras"
	@$(INSTALL) --editable '.[tools]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-demo: $(BIN)/python pyproject.toml
	@echo "==> installing mlgo-gym and clang: a download of about 140 MB"
	@$(INSTALL) --editable '.[cli,corpus]'
	@touch $@

$(VENV)/.installed-test: $(BIN)/python pyproject.toml
	@echo "==> installing mlgo-gym with its extras and the tools of its tests"
	@$(INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-demo

$(VENV)/.installed-docs: $(BIN)/python pyproject.toml
	@$(INSTALL) --editable '.[docs,test]'
	@touch $@

$(VENV)/.installed-fuzz: $(VENV)/.installed-test
	@$(INSTALL) --editable '.[fuzz]'
	@touch $@

$(VENV)/.installed-nox: $(VENV)/.installed-test
	@$(INSTALL) nox uv
	@touch $@

# pip installs Torch, since its index or its folder of wheels may have builds for CPUs alone.
$(VENV)/.installed-libraries: $(VENV)/.installed-test
	@echo "==> installing the RL libraries: a download of about 1 GB"
	@$(PIP) --quiet '$(TORCH)'
	@$(INSTALL) --editable '.[test-libraries]'
	@touch $@

clean:
	rm -rf $(VENV) build runs *.egg-info
