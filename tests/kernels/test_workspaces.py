"""Every compiled kernel does what the NumPy reference does, step by step."""

import numpy as np
import pytest
import scipy.sparse as sp
from own_penalty import Squares

from spcatv.kernels import (
    ConcatWorkspace,
    EdgeWorkspace,
    GridWorkspace,
    LoadingTerms,
    ReferenceWorkspace,
    SparseWorkspace,
    StepSizes,
    workspace_for,
)
from spcatv.kernels.grid_layout import CHUNK, lay_out, spread
from spcatv.kernels.simd import LANE_BYTES
from spcatv.problem import HuberTV, LoadingProblem, TotalVariation, as_penalty
from spcatv.solvers.dual import dual_gradient
from spcatv.solvers.pdhg import pdhg
from spcatv.structure import concat, from_matrix, graph, grid, groups, mesh
from spcatv.structure.mesh import icosphere

TOLERANCE = {"float64": 1e-11, "float32": 3e-4}
PENALTIES = ["tv", "graphnet", HuberTV(0.1)]
PLAIN = LoadingTerms(1.0, 0.0, False, TotalVariation())


def _structures():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (6, 7))
    adjacency = sp.random_array((15, 15), density=0.3, rng=rng)
    return {
        "1-D": grid(rng.random(40) < 0.8),
        "2-D": grid(rng.random((9, 20)) < 0.8, voxel_size=(0.5, 2.0)),
        "3-D": grid(rng.random((7, 8, 9)) < 0.8, voxel_size=(1.0, 0.7, 1.5)),
        "4-D": grid(rng.random((3, 4, 5, 6)) < 0.8),
        "anisotropic": grid((6, 7), isotropic=False),
        "labels": grid(labels),
        "periodic": grid((5, 6), periodic=(True, False)),
        "one voxel": grid((1, 1)),
        "small mask in a large box": grid(np.pad(rng.random((3, 1, 5)) < 0.8, 7), voxel_size=(1, 2, 3)),
        "thin last axis": grid((4, 5, 1), voxel_size=(1, 2, 3)),
        "long line": grid(333),
        "mesh": mesh(*icosphere(1)),
        "graph": graph(adjacency + adjacency.T),
        "groups": groups([[0, 1, 2], [2, 3], [5]], 8),
        "concat": concat([grid((3, 3)), mesh(*icosphere(0)), groups([[0, 1]], 2)]),
        "no rows": from_matrix(sp.csr_array((0, 5))),
    }


STRUCTURES = _structures()


def _reference(structure, terms, dtype):
    return ReferenceWorkspace(structure, terms)


def _run(workspace, y, v, dual, steps):
    workspace.set_target(y)
    workspace.set_state(v, dual)
    first = np.array(workspace.gap_shares())
    workspace.advance(7, steps)
    workspace.advance(1, steps._replace(rho=1.0))
    last = np.array(workspace.gap_shares())
    return first, last, workspace.get_v(), workspace.get_w(), workspace.get_dual()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_kernels_follow_the_reference(name, positive, penalty, dtype):
    structure = STRUCTURES[name]
    rng = np.random.default_rng(1)
    terms = LoadingTerms(0.7, 0.2, positive, as_penalty(penalty))
    y = 2 * rng.standard_normal(structure.n_features)
    v = rng.standard_normal(structure.n_features)
    v = np.abs(v) if positive else v
    dual = structure.project(2 * rng.standard_normal(structure.n_rows))
    steps = StepSizes(tau=0.1, sigma=1 / (0.07 * max(structure.norm_squared(), 1e-3)), rho=1.9)
    expected = _run(ReferenceWorkspace(structure, terms), y, v, dual, steps)

    for make in (SparseWorkspace, workspace_for):
        found = _run(make(structure, terms, dtype), y, v, dual, steps)
        assert found[-1].dtype == np.dtype(dtype)  # the dual variable stays in the working precision
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("name", STRUCTURES)
def test_exact_shares_are_those_of_the_problem(name, penalty, dtype):
    structure = STRUCTURES[name]
    rng = np.random.default_rng(3)
    y = rng.standard_normal(structure.n_features)
    problem = LoadingProblem(y, structure, l1=0.3, tv=0.5, penalty=penalty)
    terms = LoadingTerms(0.5, 0.3, False, as_penalty(penalty))
    for make in (SparseWorkspace, workspace_for):
        workspace = make(structure, terms, dtype)
        workspace.set_target(y)
        # groups on their spheres: rounding leaves half of them outside
        dual = problem.feasible(5 * rng.standard_normal(structure.n_rows))
        workspace.set_state(rng.standard_normal(structure.n_features), dual)
        workspace.gap_shares()
        for use_minimizer in (False, True):
            shares = workspace.exact_shares(use_minimizer)
            x = workspace.get_w() if use_minimizer else workspace.get_v()
            certificate = problem.certificate(x, workspace.get_dual())
            np.testing.assert_allclose(shares.pull, certificate.pull, rtol=1e-12, atol=1e-14)
            assert shares.structured_gap == pytest.approx(certificate.structured_gap, rel=1e-9, abs=1e-12)
            l1_part = 0.3 * np.abs(x.astype(np.float64)).sum()
            assert shares.structured_value == pytest.approx(
                certificate.penalty - l1_part, rel=1e-9, abs=1e-12
            )
            if penalty != "graphnet" and structure.n_rows:
                assert structure.group_norms(workspace.get_dual().astype(np.float64)).max() <= 1


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_gap_shares_are_the_gap_of_the_problem(penalty):
    structure = STRUCTURES["3-D"]
    rng = np.random.default_rng(2)
    y = rng.standard_normal(structure.n_features)
    problem = LoadingProblem(y, structure, l1=0.3, tv=0.5, penalty=penalty)
    workspace = GridWorkspace(structure, LoadingTerms(0.5, 0.3, False, as_penalty(penalty)), np.float64)
    v = rng.standard_normal(structure.n_features)
    dual = problem.feasible(rng.standard_normal(structure.n_rows))
    workspace.set_target(y)
    workspace.set_state(v, dual)
    shares = workspace.gap_shares()
    w = problem.minimizer(dual)
    assert shares.gap_v == pytest.approx(problem.gap(v, dual), rel=1e-12)
    assert shares.gap_w == pytest.approx(problem.gap(w, dual), rel=1e-12)
    bound = problem.scale() - shares.w_squared - shares.conjugate
    assert bound == pytest.approx(problem.dual(dual), rel=1e-12)


def test_the_layout_is_chosen_by_the_structure():
    assert isinstance(workspace_for(grid((3, 3)), PLAIN, "float64"), GridWorkspace)
    assert isinstance(workspace_for(grid((3, 3), periodic=True), PLAIN, "float64"), SparseWorkspace)
    assert isinstance(workspace_for(STRUCTURES["mesh"], PLAIN, "float64"), EdgeWorkspace)


@pytest.mark.parametrize("name", ["2-D", "mesh", "concat", "groups"])
def test_a_penalty_without_a_compiled_kernel_is_computed_by_the_reference(name):
    terms = PLAIN._replace(penalty=Squares())
    workspace = workspace_for(STRUCTURES[name], terms, "float32")
    assert isinstance(workspace, ReferenceWorkspace)
    assert workspace.dtype == np.float64
    for make in (SparseWorkspace, GridWorkspace):
        with pytest.raises(TypeError, match=r"no compiled kernel computes Squares\(\)"):
            make(STRUCTURES["2-D"], terms, "float64")


def test_parts_side_by_side_keep_their_layouts():
    workspace = workspace_for(STRUCTURES["concat"], PLAIN, "float64")
    assert isinstance(workspace, ConcatWorkspace)


def test_state_survives_a_round_trip_through_the_box():
    structure = STRUCTURES["4-D"]
    rng = np.random.default_rng(3)
    v, dual = rng.standard_normal(structure.n_features), rng.standard_normal(structure.n_rows)
    workspace = GridWorkspace(structure, PLAIN, "float64")
    workspace.set_state(v, dual)
    np.testing.assert_array_equal(workspace.get_v(), v)
    np.testing.assert_array_equal(workspace.get_dual(), dual)


def test_spans_cover_all_voxels_and_never_cross_a_slab():
    box = lay_out(grid(np.random.default_rng(4).random((5, 30, 70)) < 0.05))
    spans = box.spans(box.occupied)
    covered = np.zeros(box.n_cells, dtype=bool)
    for start, stop in zip(spans.start, spans.stop, strict=True):
        assert start < stop
        assert start % CHUNK == stop % CHUNK == 0
        assert start // box.slab_size == (stop - 1) // box.slab_size
        assert not covered[start:stop].any()
        covered[start:stop] = True
    assert covered[box.place].all()
    assert CHUNK * box.occupied.sum() <= covered.sum() <= 2 * CHUNK * box.occupied.sum()
    for slab in range(len(spans.slab_ptr) - 1):
        for span in range(spans.slab_ptr[slab], spans.slab_ptr[slab + 1]):
            assert spans.start[span] // box.slab_size == slab


def test_empty_space_around_a_mask_costs_nothing():
    mask = np.zeros((60, 60, 60), dtype=bool)
    mask[20:24, 30:34, 40:44] = True
    assert lay_out(grid(mask)).n_cells == lay_out(grid((4, 4, 4))).n_cells


def test_neighbouring_chunks_become_active():
    box = lay_out(grid((4, 5, 40)))
    busy = np.zeros_like(box.occupied)
    centre = box.place[np.ravel_multi_index((2, 2, 20), (4, 5, 40))] // CHUNK
    busy[centre] = True
    beside = [(1, 2, 20), (3, 2, 20), (2, 1, 20), (2, 3, 20)]
    before, behind = [(2, 2, 4)], [(2, 2, 36)]
    v, w = np.zeros((2, box.n_cells))
    for cell, ends in ((5, []), (0, before), (CHUNK - 1, behind)):
        v[:] = 0
        v[centre * CHUNK + cell] = 1
        marked = np.empty_like(busy)
        spread(busy, box.occupied, box.strides, v, w, marked, 0, len(busy))
        active = np.flatnonzero(marked)
        cells = [box.place[np.ravel_multi_index(n, (4, 5, 40))] for n in beside + ends]
        assert set(active.tolist()) == {int(position // CHUNK) for position in cells} | {int(centre)}


@pytest.mark.parametrize("shape", [(2000,), (40, 90), (8, 9, 40)])
def test_leaving_zeros_out_changes_the_way_and_not_the_end(shape):
    structure = grid(shape)
    rng = np.random.default_rng(5)
    y = 0.2 * rng.standard_normal(shape)
    y[tuple(slice(n // 2, n // 2 + 5) for n in shape)] += 4
    problem = LoadingProblem(y.ravel(), structure, l1=0.8, tv=0.4)
    solution = pdhg(problem, tol=1e-10)
    assert solution.status.success
    assert (solution.v == 0).mean() > 0.7
    reference = dual_gradient(problem, tol=1e-10)
    assert solution.value == pytest.approx(reference.value, rel=1e-9)


@pytest.mark.parametrize("n_axes", [9])
def test_boxes_of_many_axes_go_through_the_sparse_kernel(n_axes):
    structure = grid((2,) * n_axes)
    assert isinstance(workspace_for(structure, PLAIN, "float64"), SparseWorkspace)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_cleared_workspace_is_a_new_one(name, dtype):
    structure = STRUCTURES[name]
    rng = np.random.default_rng(5)
    terms = LoadingTerms(0.7, 0.2, False, TotalVariation())
    y = 2 * rng.standard_normal(structure.n_features)
    steps = StepSizes(tau=0.1, sigma=1 / (0.07 * max(structure.norm_squared(), 1e-3)), rho=1.9)
    for make in (_reference, SparseWorkspace, workspace_for):
        used, new = make(structure, terms, dtype), make(structure, terms, dtype)
        used.set_target(rng.standard_normal(structure.n_features))
        used.advance(7, steps)
        used.clear()
        for workspace in (used, new):
            workspace.set_target(y)
            workspace.advance(3, steps)
        np.testing.assert_array_equal(used.get_v(), new.get_v())
        np.testing.assert_array_equal(used.get_dual(), new.get_dual())


@pytest.mark.parametrize("structure", [grid((5, 6, 7)), graph(0.5 - 0.5 * np.eye(20))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_the_state_begin_where_a_cache_line_does(structure, dtype):
    kept = []
    for size in range(20):
        kept.append(np.empty(8 * size + 1, dtype=np.uint8))  # what lies in between moves the next array
        workspace = workspace_for(structure, PLAIN, dtype)
        kept.append(workspace)
        assert [array.ctypes.data % LANE_BYTES for array in workspace._arrays] == [0] * len(workspace._arrays)
