"""Without a GPU, or without CuPy, a message says what is missing."""

import sys

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv._util.devices import DeviceError

X = np.random.default_rng(0).standard_normal((6, 8))


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r'needs CuPy.*pip install "spca-tv\[gpu12\]"'):
        SPCATV(1, device="cuda").fit(X)


def test_without_a_gpu(monkeypatch, cupy):
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(DeviceError, match="this machine has none"):
        SPCATV(1, device="cuda").fit(X)


def test_without_a_driver(monkeypatch, cupy):
    def fail():
        raise RuntimeError("cudaErrorInsufficientDriver")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", fail)
    with pytest.raises(DeviceError, match=r"which CuPy does not find .cudaError"):
        SPCATV(1, device="cuda").fit(X)


def test_too_small_a_gpu(monkeypatch):
    monkeypatch.setattr("spcatv.data.gpu._free_bytes", lambda: 1000.0)
    with pytest.raises(DeviceError, match="the GPU has 1 kB of free memory, and vectors of 8 features take"):
        SPCATV(1, device="cuda").fit(X)


def test_another_device():
    with pytest.raises(ValueError, match="device"):
        SPCATV(1, device="mps").fit(X)
