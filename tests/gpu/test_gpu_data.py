"""X on a GPU keeps the promises of the seam for X."""

import numpy as np
import pytest

from spcatv.data import on_device
from spcatv.data.files import StoreReader
from spcatv.data.gpu import StreamedData
from spcatv.testing import check_data


def test_arrays_on_the_gpu(cupy):
    check_data(cupy.asarray)


@pytest.mark.parametrize("height", [1, 4, 100])
def test_arrays_that_travel_in_blocks(height):
    def make(X):
        data = StreamedData(StoreReader(X), X.dtype)
        data.height = height
        return data

    check_data(make)


def test_integers_become_float64(cupy):
    from spcatv.data import gpu_array_data

    assert gpu_array_data(cupy.asarray(np.arange(6).reshape(2, 3)), None).dtype == np.float64
    assert gpu_array_data(cupy.asarray(np.ones((2, 3))), "float32").dtype == np.float32


def test_wide_products_are_taken_in_panels(monkeypatch, cupy):
    monkeypatch.setattr("spcatv.data.gpu.PANEL_ENTRIES", 20)
    check_data(cupy.asarray)


def test_a_dask_array_is_refused():
    dask = pytest.importorskip("dask.array")
    from spcatv._util.devices import DeviceError
    from spcatv.data import as_data

    with pytest.raises(DeviceError, match="takes arrays and files, not DaskData"):
        on_device(as_data(dask.ones((4, 5))), "cuda", 1)
