# Each target is the only command needed: it makes the virtual environment .venv when there is none,
# installs what it needs, and runs. A second call finds its stamp and starts at once.
# Another interpreter:   make demo PYTHON=/path/to/python3.12

VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?=
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
BENCH_ARGS ?=
REPRODUCE_ARGS ?=
PYTEST_ARGS ?= -n 2 --dist loadfile

# nothing is compiled at installation (below), so Python must keep what it compiles when it imports
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo test test-all browser lint bench reproduce clean help

demo: $(VENV)/.installed-demo  ## simulated images and brains, from files to maps, tables and pictures (under a minute)
	$(PY) -m spcatv demo

test: $(VENV)/.installed-dev browser  ## run the tests
	$(PY) -m pytest $(PYTEST_ARGS)

test-all: $(VENV)/.installed-dev browser  ## run the tests, the slow ones and those on real data too
	$(PY) -m pytest -m "" $(PYTEST_ARGS)

browser: $(VENV)/.installed-dev  ## install Chromium, in which reports are tested, where apt and root allow
	@$(PY) tests/report/browser.py

lint: $(VENV)/.installed-dev  ## style, formatting, types, and the order of the imports between modules
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.installed-bench  ## measure speed beside the peers, about 20 minutes (BENCH_ARGS=--quick: one)
	$(PY) -m benchmarks $(BENCH_ARGS)

reproduce: $(VENV)/.installed-bench  ## the paper's Table I over 50 data sets, resumable (REPRODUCE_ARGS=real: real data)
	$(PY) -m benchmarks.reproduce $(REPRODUCE_ARGS)

clean:  ## remove what the targets made, but for .venv
	rm -rf build dist demo-output tests/artefacts benchmarks/results .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache .numba_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- installation -------------------------------------------------------------------------------

# A stamp holds the path of the tree it was made in: an editable install in a copied .venv would still
# run the original's code, so a copy installs itself again.
moved_since = $(if $(filter-out $(CURDIR),$(shell cat $(1) 2>/dev/null)),moved)
INSTALL_AFTER := pyproject.toml src/spcatv/_version.py
.PHONY: moved

# --no-compile: modules are compiled when they are first imported, and most never are; it halves the time
$(VENV)/.installed-demo: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-demo) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[images,report]"
	@echo "$(CURDIR)" > $@

$(VENV)/.installed-dev: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-dev) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv and its development tools into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[dev,images,report,dask]"
	@echo "$(CURDIR)" | tee $@ > $(VENV)/.installed-demo

$(VENV)/.installed-bench: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-bench) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv and the peers of the benchmarks into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[bench]"
	@echo "$(CURDIR)" > $@

$(VENV)/pyvenv.cfg:
	@python=""; \
	for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        python="$$candidate"; break; \
	    fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "error: Python 3.11 or newer is needed, and none was found ($(or $(PYTHON),python3 is $$(python3 --version 2>&1 | head -n 1))). Install it, or name one: make PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	    echo "error: $$python has no venv module; install it (Debian, Ubuntu: apt install python3-venv) and call make again" >&2; \
	    exit 1; \
	fi; \
	echo "Creating the virtual environment $(VENV) with $$("$$python" --version) ..."; \
	"$$python" -m venv $(VENV) || { rm -f $@; exit 1; }
