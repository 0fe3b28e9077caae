"""Arrays in the memory of the machine (NumPy) or of a GPU (CuPy).

Vectors of length P may lie in either. NumPy's functions work on both (CuPy implements NumPy's protocols);
this module has the rest. No other module imports CuPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.types import FloatArray

HOW_TO_INSTALL = (
    'pip install "spca-tv[gpu12]" for CUDA 12, or "spca-tv[gpu13]" for CUDA 13 (nvidia-smi prints which one '
    "the driver supports)"
)


class DeviceError(ValueError):
    """Error of ``device="cuda"`` without a GPU, or without the package CuPy."""


def on_gpu(array: Any) -> bool:
    """Return whether an array lies in the memory of a GPU."""
    return type(array).__module__.partition(".")[0] == "cupy"


def to_host(array: Any) -> Any:
    """Return the array in the memory of the machine; NumPy arrays are returned as they are."""
    return array.get() if on_gpu(array) else array


def beside(array: Any, other: Any) -> Any:
    """Move a NumPy array to the device of another one; arrays on a GPU are returned as they are."""
    return gpu_module().asarray(array) if on_gpu(other) and not on_gpu(array) else array


def frozen(vector: Any) -> Any:
    """Make a vector read-only if it lies in the memory of the machine, and return it."""
    if not on_gpu(vector):
        vector.flags.writeable = False
    return vector


def as_vector(values: Any) -> FloatArray:
    """Return values as float64, on their device."""
    if on_gpu(values):
        return values.astype(np.float64, copy=False)
    return np.asarray(values, dtype=np.float64)


def gpu_module() -> Any:
    """Return the module `cupy`, or raise a DeviceError if it is missing or finds no GPU."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f'device="cuda" needs CuPy, which cannot be imported ({error}): {HOW_TO_INSTALL}'
        ) from error
    try:
        n_gpus = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises errors of its own for a missing or old driver
        raise DeviceError(
            f'device="cuda" needs an NVIDIA GPU and its driver, which CuPy does not find ({error}); use '
            'device="cpu", or check the driver with nvidia-smi'
        ) from error
    if n_gpus == 0:
        raise DeviceError('device="cuda" needs an NVIDIA GPU, and this machine has none; use device="cpu"')
    return cupy


def check_device(device: str) -> None:
    """Raise a `DeviceError` if a device is not available."""
    if device == "cuda":
        gpu_module()
