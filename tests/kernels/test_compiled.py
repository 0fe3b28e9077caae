"""How kernels are compiled: even where no folder is writable, and parts without counts of references."""

import errno
import importlib.util
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import njit
from numba.core.caching import IndexDataCacheFile

from spcatv.kernels.compiled import inlined_kernel


def test_import_without_a_cache_folder(monkeypatch):
    code = """
        import warnings
        from numba.core import caching
        caching.CacheImpl._locator_classes = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            from spcatv.kernels.compiled import kernel
            double = kernel(lambda x: x + x)
        assert "NUMBA_CACHE_DIR" in str(caught[-1].message)
        assert double(2.0) == 4.0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


MODULE = """
from spcatv.kernels.compiled import kernel

@kernel
def double(x):
    return x + x
"""


@pytest.fixture
def kernel_of_a_new_process(tmp_path):
    """Load a kernel as a new process would: what was compiled before is on disk."""
    file = tmp_path / "made_up.py"
    file.write_text(MODULE)

    def load():
        spec = importlib.util.spec_from_file_location("made_up", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    return load


def n_loaded(kernel):
    return sum(kernel.stats.cache_hits.values())


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("left", [0, 20, -1])
def test_a_damaged_cache_is_replaced(kernel_of_a_new_process, tmp_path, ending, left):
    assert kernel_of_a_new_process()(1.0) == 2.0
    (file,) = tmp_path.rglob(f"*.{ending}")
    file.write_bytes(file.read_bytes()[:left])
    again = kernel_of_a_new_process()
    assert again(1.0) == 2.0
    assert n_loaded(again) == 0
    third = kernel_of_a_new_process()
    assert third(1.0) == 2.0
    assert n_loaded(third) == 1


@pytest.mark.parametrize("damaged", [False, True])
def test_a_full_cache_is_named_and_ends_no_run(kernel_of_a_new_process, tmp_path, monkeypatch, damaged):
    if damaged:
        kernel_of_a_new_process()(1.0)
        for file in tmp_path.rglob("*.nbi"):
            file.write_bytes(b"")

    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full)
    kernel = kernel_of_a_new_process()
    with pytest.warns(RuntimeWarning) as caught:
        assert kernel(1.0) == 2.0
    (warning,) = caught
    assert str(tmp_path) in str(warning.message)
    assert "NUMBA_CACHE_DIR" in str(warning.message)


def _part(arrays, i):
    rows, row = arrays
    first = rows[0]
    return first[i] + row[i]


def test_parts_of_kernels_count_no_references():
    """Counts are in memory that all threads share: two threads were slower than one on masks."""
    for compiled, counts in ((inlined_kernel(_part), False), (njit(_part), True)):
        assert compiled((np.ones((2, 3)), np.ones(3)), 1) == 2.0
        assert all(("NRT_decref" in code) == counts for code in compiled.inspect_llvm().values())
