"""Compile the kernels in a process of its own, so that the processes of the tests need not, all at once.

A second call finds everything compiled: it looks for the mark that the first one left beside the kernels.
"""

import os
import subprocess
import sys
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import spcatv


def mark():
    """The file that says for what the kernels beside it are compiled, and its text."""
    sources = Path(spcatv.__file__).with_name("kernels")
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or sources / "__pycache__")
    states = [
        (file.name, file.stat().st_mtime_ns, file.stat().st_size)
        for file in (Path(__file__), *sorted(sources.glob("*.py")))
    ]
    versions = [version(package) for package in ("numba", "llvmlite", "numpy")]
    return folder / f"warm-{sys.implementation.cache_tag}", repr((str(sources), versions, states))


def main(dtypes=("float32", "float64")):
    import numpy as np
    import scipy.sparse as sp

    from spcatv import SPCATV
    from spcatv.solvers import solve
    from spcatv.structure import from_matrix, graph, grid, icosphere, mesh

    def any_solver(problem, **options):
        return solve(problem, method="pdhg", **options)

    ring = sp.diags_array([2.0, 2.0], offsets=[-1, 1], shape=(30, 30))
    chain = grid((30,))
    structures = [grid((6, 7)), grid((4, 5, 6)), mesh(*icosphere(1)), graph(ring)]
    structures += [from_matrix(chain.matrix, chain.group_ptr)]
    warnings.simplefilter("ignore")
    for structure in structures:
        for dtype in dtypes:
            rows = np.random.default_rng(0).standard_normal((8, structure.n_features)).astype(dtype)
            for solver in ("auto", any_solver):
                model = SPCATV(2, structure=structure, alpha=0.05, solver=solver, tol=1e-7)
                model.fit(rows).transform(rows)
            SPCATV(1, structure=structure, alpha=0.05, tv_ratio=0.0).fit(np.asfortranarray(rows))


if __name__ == "__main__":
    file, text = mark()
    if len(sys.argv) > 1:
        main(sys.argv[1:])
    elif not (file.exists() and file.read_text(encoding="utf-8") == text):
        # side by side, and then what one process has removed of the other's from the index of the cache
        halves = [subprocess.Popen([sys.executable, __file__, dtype]) for dtype in ("float32", "float64")]
        for half in halves:
            half.wait()
        main()
        with suppress(OSError):  # the kernels may be elsewhere, where this folder cannot be written
            file.write_text(text, encoding="utf-8")
