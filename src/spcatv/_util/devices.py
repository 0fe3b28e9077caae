"""Where arrays lie: in the memory of the machine (NumPy), or in that of a GPU (CuPy).

Vectors of length P may lie in either. NumPy's functions work on both (CuPy implements NumPy's protocols), and
what they do not cover is here. The rest of the package never imports CuPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.types import FloatArray

HOW_TO_INSTALL = (
    'pip install "spca-tv[gpu12]" for CUDA 12, or "spca-tv[gpu13]" for CUDA 13 (nvidia-smi tells which one '
    "the driver supports)"
)


class DeviceError(ValueError):
    """A GPU is asked for, and there is none, or the package that talks to it is missing."""


def on_gpu(array: Any) -> bool:
    """Whether an array lies in the memory of a GPU."""
    return type(array).__module__.partition(".")[0] == "cupy"


def to_host(array: Any) -> Any:
    """The array in the memory of the machine; NumPy arrays as they are."""
    return array.get() if on_gpu(array) else array


def beside(array: Any, other: Any) -> Any:
    """A NumPy array where another one lies; arrays on a GPU as they are."""
    return gpu_module().asarray(array) if on_gpu(other) and not on_gpu(array) else array


def frozen(vector: Any) -> Any:
    """Take ownership of a vector and make it read-only, where its kind can be."""
    if not on_gpu(vector):
        vector.flags.writeable = False
    return vector


def as_vector(values: Any) -> FloatArray:
    """Values as float64, where they lie."""
    if on_gpu(values):
        return values.astype(np.float64, copy=False)
    return np.asarray(values, dtype=np.float64)


def gpu_module() -> Any:
    """The module `cupy`, if it is there and finds a GPU."""
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
            'device="cpu", or look at what nvidia-smi says'
        ) from error
    if n_gpus == 0:
        raise DeviceError('device="cuda" needs an NVIDIA GPU, and this machine has none; use device="cpu"')
    return cupy


def check_device(device: str) -> None:
    """Raise a `DeviceError` if a device is not at hand."""
    if device == "cuda":
        gpu_module()
