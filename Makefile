# `make help` lists the targets. They need Python 3.11 or newer with its venv module. Almost every target first creates the
# environment in .venv/, which takes about a minute the first time.
#
# Variables: PYTHON = interpreter for the environment, JOBS = number of parallel test processes (default: two more than the
# machine has cores, because many tests wait for a browser, a sandbox or a clock; `make quick`, whose tests wait little, runs one
# process a core, since each process imports all tests),
# KILLS = number of kills of make kills, PYTEST_ARGS = additional arguments of pytest, e.g. make test PYTEST_ARGS="-m 'not slow'",
# REQUIRE_NODE = 1 to fail where npm is missing, instead of skipping the checks of the JavaScript,
# UPGRADE = empty to keep the locked versions in `make lock` where the requirements allow them

PYTHON ?= python3
CORES := $(shell getconf _NPROCESSORS_ONLN)
JOBS ?= $(shell expr $(CORES) + 2)
PROCESSES = $(JOBS)
KILLS ?= 200
PYTEST_ARGS ?=
UPGRADE ?= --upgrade
BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest -q -n $(PROCESSES) --dist=loadscope --no-loadscope-reorder
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV := VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip
LOCKED := -q --require-hashes --only-binary :all:
PROJECT := -q --no-deps --no-build-isolation -e .
unexport PYTHONDONTWRITEBYTECODE # if set, every process would compile pandas, scipy and matplotlib again

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick pytest check lint types scripts js sizes names bench bench-peers studies kills laws docs pictures notebooks local-models test-local-llm peers lock clean

help:           ## list the targets of this Makefile
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: .venv/.ok  ## create the environment in .venv/ from requirements.lock; every download must match its hash

.venv/.ok: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "harness needs Python 3.11 or newer, and $(PYTHON) is older: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv \
	  || { rm -rf .venv; echo "$(PYTHON) cannot make environments: apt-get install python3-venv" >&2; exit 1; }
	@sed -n '/^uv==/,/[^\]$$/p' requirements.lock > .venv/uv.txt
	$(PIP) install $(LOCKED) -r .venv/uv.txt || echo "uv cannot be installed; pip installs everything, which takes longer" >&2
	$(UV) install $(LOCKED) -r requirements.lock || $(PIP) install $(LOCKED) -r requirements.lock
	$(UV) install $(PROJECT) || $(PIP) install $(PROJECT)
	@touch $@

demo: setup     ## run the quickstart experiment: 392 trials, a table and charts
	$(BIN)/harness run experiments/quickstart

test: setup     ## run all checks and tests; writes the duration in seconds to .test-seconds
	@rm -f .test-seconds; began=$$(date +%s); $(MAKE) --no-print-directory lint \
	  && $(MAKE) --no-print-directory -j2 types pytest && { [ -n "$(PYTEST_ARGS)" ] \
	  || echo "$$(($$(date +%s) - began)) $$(git describe --always --dirty 2>/dev/null || echo unknown)" > .test-seconds; }

quick: PROCESSES = $(if $(filter file,$(origin JOBS)),$(CORES),$(JOBS))
quick: setup    ## run all checks and a choice of the tests for daily work; takes about three minutes
	@$(MAKE) --no-print-directory check
	$(PYTEST) --hypothesis-profile=quick -m "not slow" $(PYTEST_ARGS)

pytest: setup
	$(PYTEST) $(PYTEST_ARGS)

check: lint types  ## check formatting, lint rules, types and the direction of imports, of Python and JavaScript

lint: setup scripts
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .

types: setup
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo

scripts:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory node_modules/.package-lock.json && npm run --silent check; \
	elif [ "$(REQUIRE_NODE)" = 1 ]; then echo "REQUIRE_NODE=1, but npm is missing: apt-get install npm" >&2; exit 1; \
	else echo "npm is missing: the checks of the JavaScript are skipped"; fi

js: node_modules/.package-lock.json  ## format the JavaScript, and build the bundles that Python loads; needs npm
	npm run --silent fix
	npm run --silent build

node_modules/.package-lock.json: package-lock.json
	npm ci --no-fund --no-audit --loglevel=error
	@touch $@

sizes: setup    ## print the sizes of modules, functions and signatures
	@$(BIN)/python -m tests.house.sizes

names: setup    ## print the share of functions whose name begins with a participle
	@$(BIN)/python -m tests.house.names

bench: setup    ## measure speed, size and false claims against the limits, into bench.json; takes 40 minutes, one benchmark needs docker
	$(BIN)/python -m tests.bench

bench-peers: setup  ## measure other agent programs beside this one, into docs/peers.md; installs them, takes half an hour of CPU
	$(BIN)/python -m tests.bench.peers

studies: setup  ## simulate 4,000 studies of each design, and write the table of the documentation; takes fifteen minutes of CPU
	$(BIN)/python -m tests.bench.studies_page

kills: setup    ## kill KILLS processes of a real grid, resume it, and compare its tables; takes a quarter of an hour
	$(BIN)/python -m tests.kills --kills $(KILLS)

laws: setup     ## run every validity check of the simulation for all policies, tasks and seeds
	HARNESS_LAWS=full $(PYTEST) -m laws $(PYTEST_ARGS)

docs: setup     ## build the documentation into docs/_build/html; warnings and undocumented public names are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b coverage -d docs/_build/doctrees docs docs/_build/coverage

pictures: setup  ## draw the pictures of the documentation again; needs Chromium
	$(BIN)/python -m tests.docs.pictures

notebooks: setup  ## run the notebooks and store their output in them
	$(BIN)/python -m tests.notebooks

local-models: setup  ## download the small local models, 1.7 GB, to the user's cache
	$(BIN)/harness models fetch

test-local-llm: setup  ## test the small local models: tool calls in a sandbox, and a summary; takes a quarter of an hour
	REQUIRE_LOCAL_LLM=1 REQUIRE_LOCAL_CODER=1 $(BIN)/python -m pytest -q -s -m 'local_llm or local_coder' tests/models/local tests/contracts/test_local_session.py $(PYTEST_ARGS)

peers: setup    ## install the systems that policies are compared with, and the gateway's proxy, 2.5 GB, in the user's cache
	$(BIN)/python -m tests.peers

lock: setup     ## select new versions of all dependencies and write requirements.lock with their hashes
	$(UV) compile -q --universal --python-version 3.11 $(UPGRADE) --extra dev --extra local-llm --generate-hashes --no-header \
	  --no-annotate pyproject.toml -o requirements.lock

clean:          ## delete the environment and all caches, but no results
	rm -rf .venv node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist docs/_build docs/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
