"""The v-step gives the same bits whatever the number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from spcatv import SPCATV
from spcatv._util import threads
from spcatv.kernels import LoadingTerms, StepSizes, matvec, thread_pool, workspace_for
from spcatv.kernels import edges as edge_kernel
from spcatv.kernels import grid as grid_kernel
from spcatv.kernels.duality_gap import SUMMED, smooth_shares
from spcatv.kernels.grid_layout import lay_out
from spcatv.problem import HuberTV, as_penalty
from spcatv.structure import concat, graph, grid, mesh
from spcatv.structure.mesh import icosphere

RNG = np.random.default_rng(0)
ADJACENCY = sp.random_array((5000, 5000), density=1e-3, rng=RNG)
STRUCTURES = {
    "a volume": grid((9, 12, 20)),
    "a masked volume": grid(RNG.random((11, 9, 40)) < 0.7, voxel_size=(1.0, 2.0, 0.5)),
    "row by row": grid(RNG.random((5, 9, 40)) < 0.7, isotropic=False),
    "a picture": grid((60, 33)),
    "four axes": grid(RNG.random((4, 5, 6, 20)) < 0.8),
    "a line": grid(500),
    "a mesh": mesh(*icosphere(4)),
    "a graph with weights": graph(ADJACENCY + ADJACENCY.T),
    "side by side": concat([grid((20, 30)), mesh(*icosphere(2))]),
}


@pytest.fixture
def small_parts(monkeypatch):
    """Give even small problems to several threads."""
    monkeypatch.setattr(grid_kernel, "THREAD_CELLS", 1)
    monkeypatch.setattr(edge_kernel, "THREAD_BLOCKS", 1)
    monkeypatch.setattr(edge_kernel, "SUMMED", 5)
    monkeypatch.setattr(thread_pool, "THREAD_ENTRIES", 1)
    monkeypatch.setattr(matvec, "THREAD_ENTRIES", 1)


@pytest.fixture
def used(monkeypatch):
    """Numbers of threads that were used."""
    counts = set()

    def counted(driver, arguments, n_threads):
        counts.add(n_threads)
        real(driver, arguments, n_threads)

    real = thread_pool.run_shares
    for module in (grid_kernel, edge_kernel, matvec, thread_pool):
        monkeypatch.setattr(module, "run_shares", counted)
    return counts


def _walk(structure, penalty, dtype, threshold):
    """Iterate, with looks between; everything that a workspace tells."""
    rng = np.random.default_rng(1)
    workspace = workspace_for(structure, LoadingTerms(0.3, threshold, False, as_penalty(penalty)), dtype)
    workspace.set_target(rng.standard_normal(structure.n_features))
    dual = 0.1 * rng.standard_normal(structure.n_rows)
    workspace.set_state(rng.standard_normal(structure.n_features), dual)
    sigma = 1 / (0.1 * 0.3 * structure.norm_squared())
    told = []
    for _ in range(3):
        workspace.advance(7, StepSizes(0.1, sigma, 1.9))
        workspace.advance(1, StepSizes(0.1, sigma, 1.0))
        told += list(workspace.gap_shares())
    exact = workspace.exact_shares(True)
    return (told, exact.pull, exact[1:], workspace.get_v(), workspace.get_w(), workspace.get_dual())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("penalty", ["tv", "graphnet", HuberTV(0.1)], ids=str)
@pytest.mark.parametrize("name", STRUCTURES)
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, small_parts, used, name, penalty, dtype):
    structure = STRUCTURES[name]
    for threshold in (0.2, 1.5):  # at the larger one most chunks are left out
        results = []
        for n_threads in (1, 2, 4, 7):
            monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
            results.append(_walk(structure, penalty, dtype, threshold))
        for result in results[1:]:
            for one, other in zip(results[0], result, strict=True):
                assert_array_equal(one, other)
    assert {1, 2, 4} <= used


def test_a_fit_has_the_same_bits(monkeypatch, small_parts, used):
    X = np.random.default_rng(3).standard_normal((30, 12 * 20))
    X[:, 20:80] += 2 * np.random.default_rng(4).standard_normal((30, 1))
    models = []
    for n_threads in (1, 3):
        monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
        models.append(SPCATV(2, structure=(12, 20)).fit(X))
    assert used == {1, 3}
    assert_array_equal(models[0].components_, models[1].components_)
    assert models[0].diagnostics_[0].objectives == models[1].diagnostics_[0].objectives


def test_the_judge_has_the_same_bits(monkeypatch, small_parts):
    y, pull, v = np.random.default_rng(5).standard_normal((3, 4 * SUMMED + 100))
    shares = []
    for n_threads in (1, 2, 5):
        monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
        shares.append(smooth_shares(y, pull, v, 0.5, False))
    assert shares[0] == shares[1] == shares[2]
    w = 0.5 * (y - pull - np.clip(y - pull, -0.5, 0.5))
    gap = ((v - w) ** 2 + 0.5 * np.abs(v) - np.clip(y - pull, -0.5, 0.5) * v).sum()
    np.testing.assert_allclose(shares[0], (gap, 0.5 * ((v - y) ** 2 + v**2).sum()))


@pytest.mark.parametrize("penalty", ["tv", "graphnet", HuberTV(0.1)], ids=str)
@pytest.mark.parametrize("shape", [(40, 30, 50), (3, 4)])
def test_the_value_of_a_penalty_has_the_same_bits(monkeypatch, small_parts, penalty, shape):
    structure = grid(shape)
    v = np.random.default_rng(6).standard_normal(structure.n_features)
    values = []
    for n_threads in (1, 2, 5):
        monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
        values.append(as_penalty(penalty).value_at(structure, v))
    assert values[0] == values[1] == values[2]
    np.testing.assert_allclose(values[0], as_penalty(penalty).value(structure, structure.forward(v)))


def test_parts_are_whole_slabs_of_about_as_many_cells():
    box = lay_out(STRUCTURES["a masked volume"])
    spans = box.spans(box.occupied)
    assert spans.cells[-1] == (spans.stop - spans.start).sum()
    for n_parts in (1, 2, 5, 100):
        bounds = spans.cut(n_parts)
        assert bounds[0] == 0
        assert bounds[-1] == len(spans.slab_ptr) - 1
        assert (np.diff(bounds) > 0).all()
        assert len(bounds) - 1 <= n_parts
    parts = np.diff(spans.cells[spans.cut(3)])
    assert parts.max() <= 1.5 * parts.min()
