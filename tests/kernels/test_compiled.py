"""Kernels compile even where no folder is writable."""

import subprocess
import sys
import textwrap


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
