"""Data that several tests look at."""

import subprocess
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from spcatv.cli import halves

# the first call of a kernel compiles it, and the machine may be busy: how long an example takes says nothing
hypothesis.settings.register_profile(
    "spcatv", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("spcatv")


def pytest_configure(config):
    """Compile the kernels before any process of the tests needs them."""
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist come later
        subprocess.run([sys.executable, str(Path(__file__).with_name("warm_kernels.py"))], check=True)


@pytest.fixture(scope="session", autouse=True)
def usual_splits():
    """Let `spca-tv fit` compare random halves twice by default; the fixture is the number for people."""
    usual = halves.AUTO_SPLITS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halves, "AUTO_SPLITS", 2)
        yield usual


@pytest.fixture(scope="session")
def striped():
    """40 signals of 60 points: two blocks of neighbours, each with scores of its own, and noise."""
    rng = np.random.default_rng(0)
    X = 0.5 * rng.standard_normal((40, 60))
    X[:, 10:20] += 3.0 * rng.standard_normal((40, 1))
    X[:, 35:50] += 2.0 * rng.standard_normal((40, 1))
    return X
