# posegate: what a person or a build does with this tree. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
# The interpreters to try for a new environment, newest first. `make serve PYTHONS=/path/to/python3.12` names one.
PYTHONS ?= python3.13 python3.12 python3.11 python3
TRACE ?= tests/traces/godot3-crowd-50x20s.jsonl
TESTS ?=

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Stamps: what is installed into the environment, and of which lock. They live and die with it.
PACKAGE := $(VENV)/.stamp-package
TOOLS := $(VENV)/.stamp-tools

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

.PHONY: help
help: ## List these targets.
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r target text; do printf '%-16s %s\n' "$$target" "$$text"; done

.PHONY: serve
serve: $(PACKAGE) ## Serve on 127.0.0.1:8080, with the journal in ./var/posegate.db; POSEGATE_… variables change that.
	@mkdir -p var
	@exec $(BIN)/posegate serve

.PHONY: demo
demo: $(PACKAGE) ## Replay a crowd that a game engine recorded, through a service of its own, and print what was decided.
	$(BIN)/posegate replay $(TRACE)

.PHONY: test
test: $(TOOLS) ## Run the tests; TESTS='tests/gates -x' says which and how.
	$(BIN)/python -m pytest $(TESTS)

.PHONY: check
check: ## Everything that must be green before a change is done: format, lint, types, imports, tests.
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test

.PHONY: lint
lint: $(TOOLS) ## The part of `check` that runs no test.
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(TOOLS) ## Format the code and mend what the linter can.
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: bench
bench: $(TOOLS) ## Measure the service against a bare handler in the same run.
	$(BIN)/python -m bench

.PHONY: openapi
openapi: $(PACKAGE) ## Write openapi/v1.json from the code.
	@mkdir -p openapi
	$(BIN)/posegate openapi > openapi/v1.json.new || { rm -f openapi/v1.json.new; exit 1; }
	@mv openapi/v1.json.new openapi/v1.json

.PHONY: wheel
wheel: $(TOOLS) ## Build the wheel into ./dist.
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

.PHONY: lock
lock: $(TOOLS) ## Pin the newest versions that pyproject.toml allows, with their hashes.
	@$(BIN)/python -m uv --version >/dev/null 2>&1 || $(PIP) install uv
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(LOCK) --output-file requirements-test.lock --group test --group tools --constraint requirements.lock pyproject.toml
	$(LOCK) --output-file requirements-build.lock --group build --constraint requirements-test.lock
	$(LOCK) --output-file requirements-fuzz.lock --group fuzz
LOCK = $(BIN)/python -m uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header --no-annotate

.PHONY: clean
clean: ## Remove the environment, builds and caches; the journal in ./var stays.
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis
	find app bench tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The service alone: its pinned libraries, then the package itself, editable, so that `posegate` is this tree.
$(PACKAGE): requirements.lock requirements-build.lock pyproject.toml | $(BIN)/python
	@echo "Installing what the service needs into $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@$(PIP) install --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# The service and what tests and checks need besides.
$(TOOLS): requirements-test.lock $(PACKAGE)
	@echo "Installing what the tests and checks need into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-test.lock
	@touch $@

# An environment that is there already is used as it is. A new one takes the first interpreter that is new enough and
# can make one: Debian and Ubuntu keep that part of Python in a package of its own.
$(BIN)/python:
	@fit= ; \
	for python in $(PYTHONS); do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		fit="$${fit:-$$python}"; \
		"$$python" -c 'import ensurepip, venv' 2>/dev/null || continue; \
		echo "Making $(VENV) with $$("$$python" --version)"; \
		exec "$$python" -m venv --clear $(VENV); \
	done; \
	if [ -z "$$fit" ]; then \
		echo "posegate needs Python 3.11 or newer; tried: $(PYTHONS)." >&2; \
		echo "On Debian 12, Ubuntu 24.04 or newer:  sudo apt-get install python3 python3-venv" >&2; \
	else \
		version=$$("$$fit" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		echo "Python $$version is here, but not the part of it that makes environments (venv, ensurepip)." >&2; \
		echo "On Debian or Ubuntu:  sudo apt-get install python$$version-venv" >&2; \
	fi; \
	exit 1
