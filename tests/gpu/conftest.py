"""The tests of this folder run on a GPU with ``make test-gpu``, and elsewhere on a simulated one."""

import os
import shutil

import pytest
import simulated_cupy

from spcatv.kernels.cuda import launch


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    """CuPy, or its stand-in."""
    if os.environ.get("SPCATV_TEST_GPU"):
        return pytest.importorskip("cupy")
    if shutil.which("g++") is None:
        pytest.skip("needs g++ to simulate a GPU")
    launch.gpu_kernel.cache_clear()
    return simulated_cupy.install(monkeypatch)
