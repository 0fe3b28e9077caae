"""The same bits in the process that compiles kernels and in all others, wherever arrays lie in memory."""

import ast
import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import spcatv.kernels
from spcatv import SPCATV
from spcatv.kernels.vectors import absolute_sum
from spcatv.structure import grid

FOLDER = Path(spcatv.kernels.__file__).parent
# they compute nothing: threads wait for each other
WITHOUT_NUMBERS = {"arrive", "wait_for", "meet"}
ENTRIES = {"kernel", "careful_kernel", "shared_kernel", "careful_shared_kernel"}


def decorated(tree, names):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(one, ast.Name) and one.id in names for one in node.decorator_list)
    ]


def test_no_compiled_kernel_calls_another():
    """Such a call goes to whichever copy is loaded first, and copies differ in the order of their sums."""
    trees = {path.name: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}
    inlined = {node.name for tree in trees.values() for node in decorated(tree, {"inlined_kernel"})}
    every = {node.name for tree in trees.values() for node in decorated(tree, ENTRIES)}
    assert {"_dual_span", "into_ball", "_rows_times"} <= inlined
    for name, tree in trees.items():
        # kernels of other files that have the same name are not in reach
        apart = {node.name for node in decorated(tree, ENTRIES)}
        reach = apart | {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("spcatv.kernels.")
            for alias in node.names
            if alias.name in every
        }
        for node in decorated(tree, ENTRIES | {"inlined_kernel"}):
            called = {
                call.func.id
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            }
            assert not (called & reach) - inlined - WITHOUT_NUMBERS, f"{name}: {node.name}"


def test_sums_do_not_depend_on_where_a_vector_lies():
    values = np.random.default_rng(0).standard_normal(337)
    memory = np.empty(400)
    sums = set()
    for offset in range(16):
        memory[offset : offset + 337] = values
        sums.add(absolute_sum(memory[offset : offset + 337]))
    assert len(sums) == 1
    assert sums.pop() == pytest.approx(np.abs(values).sum(), rel=1e-14)


def test_a_fit_does_not_depend_on_where_its_arrays_lie():
    X = np.random.default_rng(0).standard_normal((12, 210))
    seen, kept = set(), []
    for size in range(1, 400, 40):
        kept.append(np.empty(size))
        model = SPCATV(1, structure=grid((5, 6, 7)), alpha=0.05, tol=1e-7).fit(X)
        record = model.diagnostics_[0]
        figures = repr((record.gap, record.objectives, record.inexactness)).encode()
        seen.add(hashlib.sha256(model.components_.tobytes() + figures).hexdigest())
    assert len(seen) == 1


@pytest.mark.slow
def test_first_process_and_later_ones_agree(tmp_path, monkeypatch):
    """Kernels are compiled in one order of the fits on one thread, and loaded in others, on one or two."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code = """
        import hashlib, sys, warnings
        import numpy as np
        import scipy.sparse as sp
        from spcatv import SPCATV
        from spcatv._util import threads
        from spcatv.kernels import edges, matvec, thread_pool
        from spcatv.kernels import grid as grids
        from spcatv.structure import concat, graph, grid, icosphere, mesh
        warnings.simplefilter("ignore")
        seed, n_threads = map(int, sys.argv[1:])
        threads.most_threads = lambda: n_threads
        grids.THREAD_CELLS = edges.THREAD_BLOCKS = thread_pool.THREAD_ENTRIES = matvec.THREAD_ENTRIES = 1
        rng = np.random.default_rng(0)
        weights = sp.random_array((90, 90), density=0.05, rng=rng)
        structures = [grid((50,)), grid((12, 13)), grid((12, 13), isotropic=False), grid((6, 7, 8))]
        structures += [grid(rng.random((6, 7, 8)) < 0.7), mesh(*icosphere(2)), graph(weights + weights.T)]
        structures.append(concat([grid((6, 7)), mesh(*icosphere(1))]))
        cases = [(s, dtype) for s in structures for dtype in (np.float32, np.float64)]
        found = {}
        for number in np.random.default_rng(seed).permutation(len(cases)):
            structure, dtype = cases[number]
            X = np.random.default_rng(0).standard_normal((12, structure.n_features)).astype(dtype)
            model = SPCATV(2, structure=structure, alpha=0.05, tol=1e-7).fit(X)
            figures = [(record.gap, record.objectives) for record in model.diagnostics_]
            found[number] = hashlib.sha256(model.components_.tobytes() + repr(figures).encode()).hexdigest()
        print([found[number] for number in sorted(found)])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    runs = [
        subprocess.run([*command, str(seed), str(n_threads)], capture_output=True, check=True).stdout
        for seed, n_threads in enumerate([1, 1, 2, 2])
    ]
    assert runs[0].count(b",") == 15  # 16 cases
    assert len(set(runs)) == 1
