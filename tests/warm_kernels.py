"""Compile the kernels in a process of its own, so that the processes of the tests need not, all at once.

A second call finds everything compiled.
"""

import subprocess
import sys
import warnings

import numpy as np
import scipy.sparse as sp

from spcatv import SPCATV
from spcatv.solvers import solve
from spcatv.structure import from_matrix, graph, grid, icosphere, mesh


def any_solver(problem, **options):
    return solve(problem, method="pdhg", **options)


def main(dtypes=("float32", "float64")):
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
    if len(sys.argv) > 1:
        main(sys.argv[1:])
    else:  # side by side, and then what one process has removed of the other's from the index of the cache
        halves = [subprocess.Popen([sys.executable, __file__, dtype]) for dtype in ("float32", "float64")]
        for half in halves:
            half.wait()
        main()
