# `make demo` and `make test` need Python 3.11 or newer with its venv module, and nothing else: both set the project up
# in .venv/ first, which takes a minute once and no time after that.

PYTHON ?= python3
JOBS ?= 2
PYTEST_ARGS ?=
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE # else every process compiles pandas, scipy and matplotlib again

.DEFAULT_GOAL := help
.PHONY: help setup demo test pytest check sizes names bench laws docs pictures notebooks local-models test-local-llm peers lock clean

help:           ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup: .venv/.ok  ## make the environment in .venv/

.venv/.ok: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "harness needs Python 3.11 or newer, and $(PYTHON) is older: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv \
	  || { rm -rf .venv; echo "$(PYTHON) cannot make environments: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip --disable-pip-version-check install -q uv
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip install -q -r requirements.lock -e . \
	  || $(BIN)/python -m pip --disable-pip-version-check install -q -r requirements.lock -e .
	@touch $@

demo: setup     ## run the quickstart experiment: 250 trials, a table and charts
	$(BIN)/harness run experiments/quickstart

test: setup     ## every check and every test; leaves its seconds in .test-seconds
	@rm -f .test-seconds; began=$$(date +%s); $(MAKE) --no-print-directory check pytest && { [ -n "$(PYTEST_ARGS)" ] \
	  || echo "$$(($$(date +%s) - began)) $$(git describe --always --dirty 2>/dev/null || echo unknown)" > .test-seconds; }

pytest: setup
	$(BIN)/python -m pytest -q -n $(JOBS) --dist=loadscope $(PYTEST_ARGS)

check: setup    ## format, lint, types and the order of the packages
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo

sizes: setup    ## how large modules, functions and signatures are
	@$(BIN)/python -m tests.house.sizes

names: setup    ## how many functions are named by participles
	@$(BIN)/python -m tests.house.names

bench: setup    ## measure speed and size against their bars, into bench.json; half an hour, needs docker for one of them
	$(BIN)/python -m tests.bench

laws: setup     ## the laws of the simulation: every law, preset, task and seed
	HARNESS_LAWS=full $(BIN)/python -m pytest -q -n $(JOBS) --dist=loadscope -m laws $(PYTEST_ARGS)

docs: setup     ## build the documentation into docs/_build/html; warnings and undocumented public names are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b coverage -d docs/_build/doctrees docs docs/_build/coverage

pictures: setup  ## draw the pictures of the documentation again; needs Chromium
	$(BIN)/python -m tests.docs.pictures

notebooks: setup  ## run the notebooks again and keep their charts
	$(BIN)/python -m tests.notebooks

local-models: setup  ## fetch the small real models, 1.7 GB, into the user's cache
	$(BIN)/harness models fetch

test-local-llm: setup  ## small real models at work, a quarter of an hour: tools in a sandbox, a summary of their own
	REQUIRE_LOCAL_LLM=1 REQUIRE_LOCAL_CODER=1 $(BIN)/python -m pytest -q -s -m 'local_llm or local_coder' tests/models/local tests/contracts/test_local_session.py $(PYTEST_ARGS)

peers: setup    ## make the environments of the original policies, 0.8 GB, in the user's cache
	$(BIN)/python -m tests.peers

lock: setup     ## choose the versions again, into requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --upgrade --extra dev --extra local-llm --no-header --no-annotate \
	  pyproject.toml -o requirements.lock

clean:          ## remove environment and caches; results stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist docs/_build docs/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
