"""How kernels are compiled: even where no folder is writable, and parts without counts of references."""

import subprocess
import sys
import textwrap

import numpy as np
from numba import njit

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


def _part(arrays, i):
    rows, row = arrays
    first = rows[0]
    return first[i] + row[i]


def test_parts_of_kernels_count_no_references():
    """Counts are in memory that all threads share: two threads were slower than one on masks."""
    for compiled, counts in ((inlined_kernel(_part), False), (njit(_part), True)):
        assert compiled((np.ones((2, 3)), np.ones(3)), 1) == 2.0
        assert all(("NRT_decref" in code) == counts for code in compiled.inspect_llvm().values())
