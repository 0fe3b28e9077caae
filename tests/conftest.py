"""Data that several tests look at."""

import os
import subprocess
import sys
from functools import cache, wraps
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from numba.core import event
from threadpoolctl import threadpool_limits

from spcatv.cli import app, pipeline
from spcatv.estimator import _fit
from spcatv.progress.compilation import ANNOUNCER

# the first call of a kernel compiles it, and the machine may be busy: how long an example takes says nothing
hypothesis.settings.register_profile(
    "spcatv", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("spcatv")

LONG_FILES = (
    *("test_documentation", "test_report_browser", "test_demo", "test_dask_cluster", "test_gpu_fit"),
    *("test_report_figures", "test_report_page", "test_report_explorer", "test_isolation", "test_estimator"),
    *("test_select", "test_selection_cv", "test_selection_dask", "test_dask_array", "test_fault_sweep"),
    *("test_image_runs", "test_image_cache", "test_reproduce", "test_constrained", "test_stored"),
    *("test_agreement", "test_bench", "test_answers"),
)
# Locks, forks, signals, permissions of files and limits of memory, as POSIX has them.
OF_POSIX = (
    *("_util/test_atomic_files.py", "cli/test_cli_folder.py", "cli/test_fit_bad_images.py"),
    *("cli/test_fit_cache.py", "data/test_dask_cluster.py", "fuzz/test_fuzz.py"),
    *("images/test_image_cache.py", "images/test_image_rows_on_disk.py"),
    *("selection/test_dead_workers.py", "selection/test_selection_dask.py"),
    "surprises/test_command_line.py",
)
# Folders whose tests count the lines that a fit runs.
ABOUT_FITS = (
    *("data", "decomposition", "estimator", "gpu", "kernels", "model", "problem", "progress", "solvers"),
    "structure",
)
# Files whose tests look at the charts of pages; elsewhere pages have none, which take longer than the rest.
ABOUT_CHARTS = ("test_report_axe", "test_report_browser", "test_report_explorer", "test_report_page")
collect_ignore = [] if os.name == "posix" else list(OF_POSIX)


def pytest_configure(config):
    """Compile the kernels before any process of the tests needs them."""
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist come later
        subprocess.run([sys.executable, str(Path(__file__).with_name("warm_kernels.py"))], check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Measure no coverage of the fixtures that a test without coverage asks for first, either."""
    plugin = item.config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)
    if controller is None or item.get_closest_marker("no_cover") is None:
        return (yield)
    controller.pause()
    try:
        return (yield)
    finally:
        controller.resume()


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest, so that no worker is left alone with one in the end."""
    for item in items:
        if item.path.parent.name == "surprises":  # whole commands, whose lines other tests run
            item.add_marker("no_cover")
    items.sort(key=lambda item: LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else 99)


@pytest.fixture(scope="session", autouse=True)
def no_word_of_compilation():
    """What is printed must not depend on the kernels that happen to be on disk."""
    event.unregister("numba:compile", ANNOUNCER)


@pytest.fixture(scope="session", autouse=True)
def usual_splits():
    """Let `spca-tv fit` compare random halves twice by default; the fixture is the number for people."""
    usual = pipeline.AUTO_SPLITS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "AUTO_SPLITS", 2)
        yield usual


@pytest.fixture(scope="session", autouse=True)
def done_once():
    """Build the parser once for all tests instead of for every command, and find every version once."""
    once = cache(app.build_parser)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "version", cache(metadata.version))
        for module in ("cli", "cli.app", "cli.display", "cli.resume", "cli.explore"):
            patch.setattr(f"spcatv.{module}.build_parser", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Use one thread unless a test asks for more: the order is the same everywhere, and no thread waits."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    """Do not wait until files are on the disk: no test cuts the power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def without_coverage(function):
    """Return a function that coverage does not follow."""

    @wraps(function)
    def call(*args, **options):
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **options)
        finally:
            sys.settrace(tracer)

    return call


@pytest.fixture(scope="session", autouse=True)
def drawing_without_coverage():
    """matplotlib hardly calls our code while it draws, and takes twice as long when coverage looks on."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "draw", without_coverage(Figure.draw))
        yield


@pytest.fixture(scope="module", autouse=True)
def fits_without_coverage(request):
    """Coverage more than doubles the time of a fit, and most folders test what is around it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name not in ABOUT_FITS:
            patch.setattr(_fit, "decompose", without_coverage(_fit.decompose))
        yield


@pytest.fixture(scope="module", autouse=True)
def pages_without_charts(request):
    """Leave out the drawing of charts, but not what makes them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in ABOUT_CHARTS and find_spec("jinja2") and find_spec("matplotlib"):
            patch.setattr("spcatv.report.sections.svg_uri", lambda figure: "data:image/svg+xml;base64,")
        yield


@pytest.fixture(scope="session")
def striped():
    """40 signals of 60 points: two blocks of neighbours, each with scores of its own, and noise."""
    rng = np.random.default_rng(0)
    X = 0.5 * rng.standard_normal((40, 60))
    X[:, 10:20] += 3.0 * rng.standard_normal((40, 1))
    X[:, 35:50] += 2.0 * rng.standard_normal((40, 1))
    return X
