# Two commands matter: `make demo` and `make test`. Both set up everything they need in .venv.

PYTHON ?= python3
BIN := .venv/bin

# What the figures of the gallery are drawn by.
SOURCES := $(shell find src -name "*.py" -o -name "*.json")

# The files of tests are given out in order, the many short ones of src last, so that both cores are done at once. A second
# thread of BLAS beside these two processes would take a sixth of their time, most of it waiting for work.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-all test-reference lint kernels browser typescript bench claims certificates proved models docs clean

help:
	@echo "make demo      one cloud of tokens under three laws: a table, pictures and a stored run in out/"
	@echo "make test      style, types and the tests"
	@echo "make test-all  the same with larger instances, and thirty times as many examples of each property"
	@echo "make test-reference  trained models against torch and transformers, which it installs in .venv/reference"
	@echo "make bench     attnflow against NumPy and, where installed, PyTorch, JAX and KeOps, in ratios"
	@echo "make claims    check and attack every claim, and write the pages of docs/claims anew"
	@echo "make proved    make the certificates of refutations anew, and docs/proved.md from them"
	@echo "make models    write docs/models.md and the lists of docs/reference anew, from the catalogue"
	@echo "make docs      draw the gallery and build the documentation site, out/docs/index.html"
	@echo "make clean     remove .venv, out/ and caches"

# Python compiles what is imported, half of what is installed, and keeps it, also where the environment forbids that:
# each of the many processes that tests start would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

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

# The types of the explorer's page are checked where node is there. The version is a comment of constraints.txt.
TYPESCRIPT := $(shell sed -n 's/^\# npm: typescript==//p' constraints.txt)
typescript: .venv/library
	@if ! command -v npm >/dev/null; then echo "NO NPM: the types of the explorer's page are not checked"; \
	elif [ ! -e .venv/node/$(TYPESCRIPT) ]; then \
	  npm install --silent --no-fund --no-audit --no-save --prefix .venv/node typescript@$(TYPESCRIPT) && touch .venv/node/$(TYPESCRIPT) \
	  || echo "NO TYPESCRIPT: npm could not install it, the types of the explorer's page are not checked"; fi

# Two tests that need the same kernel would both compile it. The library is read from src: pip may be replacing it.
kernels: .venv/library
	PYTHONPATH=src $(BIN)/python tests/compile_kernels.py

# Beside the kernels, the other core installs what tests need and checks style and types.
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

out/gallery/drawn: .venv/ready $(SOURCES)
	$(BIN)/attnflow figure all -o out/gallery --only svg,png,mp4
	$(BIN)/attnflow figure all -o out/gallery/dark --only svg,png,mp4 --dark
	@touch $@

docs: .venv/ready out/gallery/drawn
	$(BIN)/sphinx-build -W --keep-going -n -q -d out/doctrees docs out/docs
	@echo "The documentation is in out/docs/index.html."

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
