# posegate: what a person or a build does with this tree. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
# The interpreters to try for a new environment, newest first. `make serve PYTHONS=/path/to/python3.12` names one.
PYTHONS ?= python3.13 python3.12 python3.11 python3
TRACE ?= tests/traces/godot3-crowd-50x20s.jsonl
TESTS ?=
DIST ?= dist
FAULT_ROUNDS ?= 500
NODE_ROUNDS ?= 200
# Another one each day, so that something new is tried; it is printed, and gives the same run again.
FAULT_SEED ?= $(shell date +%Y%m%d)
SIMULATION_SEEDS ?= 100000
FUZZ_SECONDS ?= 20
SOAK_MINUTES ?= 30
AUDIT_FLAGS ?=
BENCH ?=
CLUSTER ?=
TEST_JOBS ?= 3
SBOM_FLAGS ?=
LOCKS := requirements.lock requirements-test.lock requirements-build.lock requirements-fuzz.lock requirements-bench.lock

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Stamps: what is installed into the environment, and of which lock. They live and die with it.
PACKAGE := $(VENV)/.stamp-package
TOOLS := $(VENV)/.stamp-tools
FUZZER := $(VENV)/.stamp-fuzzer
RIVALS := $(VENV)/.stamp-rivals

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

.PHONY: cluster
cluster: $(TOOLS) ## Run three NATS servers, two nodes and HAProxy on 127.0.0.1:8080 to 8099; CLUSTER='--help' lists what may differ.
	@exec $(BIN)/python -m cluster $(CLUSTER)

.PHONY: demo
demo: $(PACKAGE) ## Replay a crowd that a game engine recorded, through a service of its own, and print what was decided.
	env -u POSEGATE_URL $(BIN)/posegate replay $(TRACE)

.PHONY: test
test: $(TOOLS) ## Run the tests; TESTS='tests/gates -x' says which and how.
ifeq ($(strip $(TESTS)),)
	@# Side by side: the contract's tests keep one core busy for longer than any other file.
	@$(MAKE) --no-print-directory --jobs 2 test-files test-contract
else
	$(BIN)/python -m pytest $(TESTS)
endif

.PHONY: test-files
test-files: $(TOOLS)
	$(BIN)/python -m pytest --numprocesses $(TEST_JOBS) --dist loadfile --ignore tests/contract

.PHONY: test-contract
test-contract: $(TOOLS)
	@# Its tests, one an operation, share an id; shared out to processes only the first of them would run.
	$(BIN)/python -m pytest tests/contract

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
bench: $(RIVALS) ## Measure the service beside Redis, a bare handler and an echo; BENCH='--only singles --rounds 1' says less.
	$(BIN)/python -m bench $(BENCH)

.PHONY: openapi
openapi: $(PACKAGE) ## Write openapi/v1.json and openapi/channel.json from the code.
	@mkdir -p openapi
	$(BIN)/posegate openapi > openapi/v1.json.new || { rm -f openapi/v1.json.new; exit 1; }
	@mv openapi/v1.json.new openapi/v1.json
	$(BIN)/posegate openapi --channel --write openapi/channel.json

.PHONY: faults
faults: $(FUZZER) ## Faults at length, which takes hours: kills, damage, repeats, the simulation, ten minutes of fuzzing.
	@echo "Faults at length: make faults FAULT_SEED=$(FAULT_SEED) FAULT_ROUNDS=$(FAULT_ROUNDS)"
	POSEGATE_FAULT_SEED=$(FAULT_SEED) POSEGATE_FAULT_ROUNDS=$(FAULT_ROUNDS) $(AT_LENGTH) tests/faults --ignore tests/faults/test_nodes.py
	POSEGATE_FAULT_SEED=$(FAULT_SEED) POSEGATE_NODE_ROUNDS=$(NODE_ROUNDS) $(AT_LENGTH) tests/faults/test_nodes.py
	POSEGATE_SIMULATION_SEEDS=$(SIMULATION_SEEDS) $(AT_LENGTH) tests/test_simulation.py
	$(BIN)/python -m tests.fuzz --seconds 200 --random $(FAULT_SEED)
# Progress is shown as it comes, and a test that takes an hour does not hang.
AT_LENGTH = $(BIN)/python -m pytest --verbose --capture=no --override-ini faulthandler_timeout=0

.PHONY: soak
soak: $(TOOLS) ## Mixed load with kills and half-sent requests for SOAK_MINUTES (30): flat memory, a clean history.
	$(BIN)/python -m tests.faults.soak --minutes $(SOAK_MINUTES)

.PHONY: fuzz
fuzz: $(FUZZER) ## Fuzz what takes bytes from outside, FUZZ_SECONDS (20) for each target.
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

.PHONY: audit
audit: $(TOOLS) ## Ask whether anything that is pinned has a known vulnerability.
	@mkdir -p $(DIST) && rm -f $(DIST)/audit.json
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off $(AUDIT_FLAGS) \
		--format json --output $(DIST)/audit.json $(LOCKS:%=--requirement %) || { \
		if [ -s $(DIST)/audit.json ]; then \
			echo "A pinned library has a known vulnerability; $(DIST)/audit.json says which, and what mends it." >&2; \
			echo "Raise its version in pyproject.toml where that must be, then: make lock && make check" >&2; \
		else \
			echo "Nothing is known: the source of vulnerabilities could not be asked about everything (see above)." >&2; \
			echo "Run it on a machine that reaches the Python package index itself, since mirrors do not know of" >&2; \
			echo "vulnerabilities; or ask another source: make audit AUDIT_FLAGS='--vulnerability-service osv'" >&2; \
		fi; \
		exit 1; \
	}

.PHONY: sbom
sbom: $(TOOLS) ## Write what the service is made of to ./dist/posegate.cdx.json (CycloneDX), the same every time.
	@mkdir -p $(DIST)
	$(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --short-PURLs \
		--output-reproducible $(SBOM_FLAGS) --output-file $(DIST)/posegate.cdx.json requirements.lock

.PHONY: wheel
wheel: committed $(TOOLS) ## Build the wheels of service and client into ./dist, from what is committed.
	@rm -rf build/tree && mkdir -p build/tree
	git archive HEAD | tar --extract --directory build/tree
	for part in build/tree build/tree/clients/python; do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
			$(BIN)/python -m build --wheel --no-isolation --outdir $(DIST) $$part || exit 1; \
	done
	@rm -rf build/tree

.PHONY: image
image: committed ## Build the container image `posegate`, from what is committed.
	git archive HEAD | docker build --file docker/Dockerfile --build-arg REVISION=$$(git rev-parse HEAD) --tag posegate -

# What is built to be shipped is built from a commit, so that anybody can build the same.
.PHONY: committed
committed:
	@changed=$$(git status --porcelain) && if [ -n "$$changed" ]; then \
		echo "The tree is not clean, so what is built could not be built again. Commit, stash or remove this first:" >&2; \
		echo "$$changed" | head -n 20 >&2; \
		exit 1; \
	fi

.PHONY: lock
lock: $(TOOLS) ## Pin the newest versions that pyproject.toml allows, with their hashes.
	@$(BIN)/python -m uv --version >/dev/null 2>&1 || $(PIP) install uv
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(LOCK) --output-file requirements-test.lock --group test --group tools --constraint requirements.lock pyproject.toml
	$(LOCK) --output-file requirements-build.lock --group build --constraint requirements-test.lock
	$(LOCK) --output-file requirements-fuzz.lock --group fuzz
	$(LOCK) --output-file requirements-bench.lock --group bench --constraint requirements-test.lock
LOCK = $(BIN)/python -m uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header --no-annotate --no-emit-package posegate-client

.PHONY: clean
clean: ## Remove the environment, builds and caches; the journal in ./var stays.
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis
	find app bench clients cluster tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The service alone: its pinned libraries, then its client and itself, editable, so that `posegate` is this tree.
$(PACKAGE): requirements.lock requirements-build.lock pyproject.toml clients/python/pyproject.toml | $(BIN)/python
	@echo "Installing what the service needs into $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@# What builds comes first: nkeys is published as source only, and built by what is pinned.
	@$(PIP) install --require-hashes -r requirements-build.lock
	@$(PIP) install --require-hashes --no-build-isolation -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable clients/python --editable .
	@touch $@

# The service and what tests and checks need besides.
$(TOOLS): requirements-test.lock $(PACKAGE)
	@echo "Installing what the tests and checks need into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-test.lock
	@touch $@

# The clients of what the service is measured beside, which nothing but the bench needs. Redis itself is no Python.
$(RIVALS): requirements-bench.lock $(TOOLS)
	@command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null || { \
		echo "The bench compares with Redis, and there is no redis-server here." >&2; \
		echo "On Debian or Ubuntu:  sudo apt-get install redis-server   (the bench starts its own)" >&2; \
		exit 1; \
	}
	@echo "Installing what the bench compares with into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-bench.lock
	@touch $@

# The fuzzer besides, which nothing but fuzzing needs. It is compiled, and there is not one for every machine.
$(FUZZER): requirements-fuzz.lock $(TOOLS)
	@echo "Installing the fuzzer into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-fuzz.lock || { \
		echo "atheris has no build for this machine and Python; it needs Linux on x86-64 and Python 3.11 to 3.13." >&2; \
		echo "The corpus is replayed without it:  make test TESTS=tests/fuzz" >&2; \
		exit 1; \
	}
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
