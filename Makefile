# Every target sets up what it needs, from a clean clone, with Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test test-peers test-all check format docs bench clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wiregrad needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -e ".[test,dev]"
	@touch $@ $(VENV)/.run

# The peers live in an environment of their own, so that `make test` proves that none of them is needed.
$(PEERS)/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install $(PIP_FLAGS) -e ".[test,peers]"
	@touch $@

run: $(VENV)/.run ## Install into .venv and run the worked example
	@$(BIN)/wiregrad grad "e = a + b; f = e * c" a=2 b=-3 c=10

check: $(VENV)/.test ## Lint, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check ## Everything that needs no other framework
	$(BIN)/pytest -n auto --dist worksteal -m "not peers and not full"

test-peers: $(PEERS)/.test ## Comparisons with PyTorch, JAX and others
	$(PEERS)/bin/pytest -n auto --dist worksteal -m peers tests/peers

test-all: $(VENV)/.test ## The full counts, too long for every change
	$(BIN)/pytest -n auto --dist worksteal -m "not peers"

format: $(VENV)/.test ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.run ## Write the pages that are derived from the op table
	$(BIN)/python docs/generate.py

bench: $(PEERS)/.test ## Measure, as ratios within one run
	$(PEERS)/bin/python -m benchmarks

clean: ## Remove what the targets made
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache
