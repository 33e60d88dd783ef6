# Every target sets up what it needs, from a clean clone, with Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
CORES := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')
# One worker more than there are cores, because tests wait for processes and for the browser. Each worker collects all
# tests, which takes seconds: more of them would take more time than they save.
PYTEST_WORKERS := -n $$(($(CORES) + 1)) --dist worksteal
# The workers share the cores; threads of BLAS that wait for each other would only take time from them.
ONE_BLAS_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# Of the packages, only what is imported is compiled to bytecode, at its first import.
PIP_FLAGS := --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Tests start hundreds of Python processes; without bytecode on disk each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run page test test-tools run-tests run-page-tests check-and-recorder test-peers test-peers-all test-all check format derive docs site bench house sheet coverage clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wiregrad needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# The C recorder is built by installing: hatch_build.py.
RECORDER := hatch_build.py $(wildcard recorder/*)

$(VENV)/.run: pyproject.toml constraints.txt $(RECORDER) | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

# What builds an editable package. The tests need most of it themselves, so it is installed once, for both. A new pip
# finds the packages in two thirds of the time that the pip of an older Python takes.
BUILD_TOOLS := hatchling setuptools editables

$(VENV)/.test: pyproject.toml constraints.txt $(RECORDER) | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) --upgrade pip $(BUILD_TOOLS)
	WIREGRAD_BUILD_STRICT=1 $(BIN)/pip install $(PIP_FLAGS) --no-build-isolation -e ".[test,dev]"
	@$(BIN)/python -m compileall -q src tests/support
	@touch $@ $(VENV)/.run

# What the tests of the page need: the packages that build it, and a browser.
web/node_modules/.done: web/package-lock.json
	@command -v npm >/dev/null || { echo "the tests of the page need Node and npm"; exit 1; }
	npm ci --prefix web --no-audit --no-fund --loglevel=error
	@touch $@

# The first of these takes less processor time than the others, because it draws no window around the page.
BROWSERS := chromium-headless-shell chromium chromium-browser
INSTALL_PACKAGE := DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

$(VENV)/.browser: | $(VENV)/bin/python
	@command -v $(firstword $(BROWSERS)) >/dev/null || test "$$(id -u)" != 0 || { apt-get update -qq; \
		for browser in $(BROWSERS); do $(INSTALL_PACKAGE) $$browser >/dev/null && break; done; true; }
	@for browser in $(BROWSERS); do command -v $$browser >/dev/null && exit 0; done; \
		echo "the tests of the page need a browser; install the package $(firstword $(BROWSERS)) or chromium"; exit 1
	@touch $@

# The peers live in an environment of their own, so that `make test` proves that none of them is needed.
$(PEERS)/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install $(PIP_FLAGS) -e ".[test,peers,docs]"
	@$(PEERS)/bin/python -m compileall -q src
	@touch $@

run: $(VENV)/.run ## Install into .venv and run the worked example
	@$(BIN)/wiregrad grad "e = a + b; f = e * c" a=2 b=-3 c=10
	@echo
	@echo "To draw it, step through it and change it in your browser: $(BIN)/wiregrad explore"

check: $(VENV)/.test ## Lint, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

page: web/node_modules/.done ## Build the explorer's page into the package
	cd web && npm run --silent build

test: ## Everything that needs no other framework
	@$(MAKE) --no-print-directory --jobs=3 test-tools
	@$(MAKE) --no-print-directory --jobs=3 check-and-recorder run-page-tests run-tests

# Installing waits for the network most of the time, so all of it is done at once.
test-tools: $(VENV)/.test web/node_modules/.done $(VENV)/.browser

# The tests of values and transforms, which are run on the Python recorder too, where the C recorder was built.
SECOND_RECORDER := $(patsubst %,tests/frontends/test_%.py,scalars values number_classes transforms containers \
	gradient_sums keyword_arguments lookups)

run-tests:
	$(ONE_BLAS_THREAD) $(BIN)/pytest $(PYTEST_WORKERS) -m "not full" --ignore=tests/peers --ignore=tests/page

# The tests of the page wait for the browser half of their time, in which other tests can run. They have workers of
# their own, because a worker that collects all tests and starts a browser for a few of them takes longer to start.
run-page-tests:
	$(ONE_BLAS_THREAD) $(BIN)/pytest -p no:cacheprovider -n $(CORES) --dist worksteal -m "not full" tests/page

# Beside the other tests and in one process: these tests take seconds, and each worker would start anew.
check-and-recorder: check
	$(ONE_BLAS_THREAD) WIREGRAD_RECORDER=python $(BIN)/pytest -p no:cacheprovider -m "not full" $(SECOND_RECORDER)

test-peers: $(PEERS)/.test ## Comparisons with PyTorch, JAX and others
	$(ONE_BLAS_THREAD) $(PEERS)/bin/pytest $(PYTEST_WORKERS) -m peers tests/peers

# A test with a full count may take longer than any other test may.
FULL_COUNTS := $(PYTEST_WORKERS) -o hang_timeout=7200 -m "not peers"

test-peers-all: $(PEERS)/.test ## Comparisons with the full counts of sampled tests
	$(ONE_BLAS_THREAD) WIREGRAD_TEST_ALL=1 $(PEERS)/bin/pytest $(PYTEST_WORKERS) -o hang_timeout=7200 \
		-m peers tests/peers

test-all: $(VENV)/.test web/node_modules/.done $(VENV)/.browser ## The full counts, too long for every change
	$(ONE_BLAS_THREAD) WIREGRAD_TEST_ALL=1 $(BIN)/pytest $(FULL_COUNTS)
	$(ONE_BLAS_THREAD) WIREGRAD_TEST_ALL=1 WIREGRAD_RECORDER=python $(BIN)/pytest $(FULL_COUNTS) \
		tests/frontends --ignore=tests/frontends/test_recorder.py

format: $(VENV)/.test ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

derive: $(VENV)/.test web/node_modules/.done ## Write every derived file: stubs, docs, the page and its op table, golden files
	$(BIN)/python tools/derive.py

docs: $(VENV)/.run ## Write the derived pages and pictures in docs/ alone
	$(BIN)/python docs/generate.py

site: $(PEERS)/.test ## Build the documentation site into build/site
	$(PEERS)/bin/python tools/build_site.py build/site

bench: $(PEERS)/.test ## Measure, as ratios within one run; less of it with BENCH="native --quick"
	$(PEERS)/bin/python -m benchmarks $(or $(BENCH),-o docs/benchmarks.md)

house: ## Measure how the package is built: rooms, imports, names, lengths, types
	@$(PYTHON) tools/house.py

sheet: $(VENV)/.test $(VENV)/.browser ## Photograph 24 states of the explorer on one sheet, build/sheet.png
	@mkdir -p build
	$(BIN)/python -m tests.page.contact_sheet build/sheet.png

# Tests run several times as long while they are measured. The test of what a process loads would find what measuring loads.
NOT_MEASURED := --deselect tests/test_package.py::test_a_first_compiled_gradient_loads_only_what_it_needs
coverage: $(VENV)/.test web/node_modules/.done $(VENV)/.browser ## Measure which branches of the core the tests take
	@rm -rf build/coverage && mkdir -p build/coverage
	$(ONE_BLAS_THREAD) $(BIN)/coverage run -m pytest $(PYTEST_WORKERS) -o hang_timeout=7200 -m "not full" --ignore=tests/peers --ignore=tests/page $(NOT_MEASURED)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered
	@$(BIN)/coverage json -q -o build/coverage/branches.json
	@$(BIN)/python tools/branch_coverage.py build/coverage/branches.json 95

clean: ## Remove what the targets made
	rm -rf $(VENV) $(PEERS) web/node_modules .mypy_cache .ruff_cache .pytest_cache
