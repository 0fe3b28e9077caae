"""Fits on a GPU: the components of the CPU, certified, whatever is asked for and wherever X lies."""

import numpy as np
import pytest
from array_files import two_regions
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv._util.devices import to_host
from spcatv.data import CentredData, as_data, on_device
from spcatv.data.gpu import StreamedData
from spcatv.decomposition import LoadingPenalty, Plan, Weights, decompose
from spcatv.decomposition.joint import JointFitter
from spcatv.model.checkpoint import Stage
from spcatv.problem import HuberTV, LoadingProblem
from spcatv.selection import SPCATVCV, checkpointing, count_components
from spcatv.stability import bootstrap_components, split_halves
from spcatv.structure import concat, graph, grid, groups, icosphere, mesh, stack

pytestmark = pytest.mark.filterwarnings("ignore:the share of zeros:UserWarning")


@pytest.fixture(scope="module")
def images():
    return two_regions(40)


def fit(X, device, **options):
    options = {"n_components": 2, "structure": (20, 24), "random_state": 0} | options
    return SPCATV(**options, device=device).fit(X)


def both(X, **options):
    """The same fit on the CPU and on the GPU."""
    return fit(X, "cpu", **options), fit(X, "cuda", **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        # at 70 % zeros a plateau of these images comes and goes with the rounding
        pytest.param({"dtype": "float32", "sparsity": 0.8}, marks=pytest.mark.no_cover),
        {"alpha": 0.1},
        {"alpha": 0.1, "dtype": "float32"},
        {"alpha": 0.1, "penalty": "graphnet"},
        {"alpha": 0.1, "positive": True},
        pytest.param({"alpha": 0.1, "method": "joint"}, marks=pytest.mark.no_cover),
        pytest.param({"method": "deflation", "refit": "support"}, marks=pytest.mark.no_cover),
        {"global_signal": "regress"},
        pytest.param({"init": "structured"}, marks=pytest.mark.no_cover),
        {"smoothness": 0.0},
        {"alpha": 0.1, "solver": "fista", "tol": 1e-4},
        {"alpha": 0.1, "penalty": HuberTV(0.1), "tol": 1e-4},
    ],
    ids=str,
)
def test_the_components_of_the_cpu(images, options):
    here, there = both(images, **options)
    assert type(there.components_) is np.ndarray
    assert there.components_.dtype == options.get("dtype", "float64")
    assert_allclose(there.components_, here.components_, atol=1e-4)
    for mine, other in zip(there.diagnostics_, here.diagnostics_, strict=True):
        assert mine.relative_gap <= there.tol
        # each is within its gap of the minimum
        assert_allclose(mine.objective, other.objective, rtol=20 * there.tol)


SPHERE = icosphere(2)
STRUCTURES = {
    "line": lambda: grid((60,)),
    "volume in a mask, with voxel sizes": lambda: grid(_ball(), voxel_size=(1.0, 2.0, 0.7)),
    "anisotropic": lambda: grid((9, 8), isotropic=False),
    "periodic": lambda: grid((9, 8), periodic=(False, True)),
    "four axes": lambda: grid((3, 4, 3, 4)),
    "mesh": lambda: mesh(*SPHERE),
    "graph": lambda: graph(np.diag([1.0, 2, 3, 4, 5], 1) + np.diag([1.0, 2, 3, 4, 5], -1)),
    "groups": lambda: groups([[0, 1, 2], [2, 3], [4, 5, 6, 7]], n_features=8),
    "grids side by side": lambda: concat([grid((5, 6)), grid((7,))]),
    "meshes side by side": lambda: concat([mesh(*SPHERE), mesh(*SPHERE)]),
    "stacked": lambda: stack([grid((6, 6)), groups([[0, 1, 2], [20, 21]], n_features=36)]),
}


def _ball():
    axes = np.ogrid[:7, :6, :5]
    return sum((axis - n / 2) ** 2 for axis, n in zip(axes, (6, 5, 4), strict=True)) <= 9


@pytest.mark.parametrize("penalty", ["tv", "graphnet"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_certificates_hold_on_the_cpu(name, penalty, cupy):
    """The independent judge of a fit is the loading problem on the CPU."""
    structure = STRUCTURES[name]()
    X = np.random.default_rng(0).standard_normal((20, structure.n_features))
    X[:, : structure.n_features // 2] += np.random.default_rng(1).standard_normal((20, 1))
    weights = Weights(0.05, 0.1, 0.05)
    plan = Plan(1e-7, 300, "auto", np.float64, "svd", 1, joint=False, keep_warm_start=True)
    request = LoadingPenalty(structure, weights, penalty)
    found = decompose(CentredData(as_data(cupy.asarray(X))), [request], plan, rng=np.random.RandomState(0))
    component = found.fitted[0]
    y = (X - X.mean(axis=0)).T @ component.u / (20 * weights.l2)
    problem = LoadingProblem(y, structure, weights.l1 / weights.l2, weights.tv / weights.l2, penalty=penalty)
    gap = problem.gap(to_host(component.v), problem.feasible(to_host(component.dual)))
    assert gap <= 1e-7 * problem.scale()
    assert_allclose(component.gap, gap, rtol=1e-3, atol=1e-12)


@pytest.mark.no_cover
@pytest.mark.parametrize("n_samples", [700, 40])
def test_many_samples_are_compressed(n_samples):
    X = two_regions(n_samples)[:, :200]
    # at 70 % zeros the second component is noise, which settles after a hundred alternations, if at all
    here, there = both(X, structure=(200,), sparsity=0.8)
    assert_allclose(there.components_, here.components_, atol=1e-4)
    assert there.diagnostics_[0].n_passes == here.diagnostics_[0].n_passes


@pytest.mark.filterwarnings("ignore:1 of 2 components are empty:UserWarning")
def test_an_empty_component(images):
    here, there = both(images, alpha=[0.1, 5.0])
    assert_allclose(there.components_, here.components_, atol=1e-4)
    assert there.diagnostics_[1].is_empty


@pytest.mark.no_cover
def test_x_on_the_gpu_is_not_copied(images, cupy):
    X = cupy.asarray(images)
    data = on_device(as_data(X), "cuda", 2)
    here = fit(images, "cpu")
    X[0, 0] = 7.0
    assert float(data.array[0, 0]) == 7.0
    X[0, 0] = images[0, 0]
    found = SPCATV(2, structure=(20, 24), device="cuda").fit(X)
    assert_allclose(found.components_, here.components_, atol=1e-4)
    assert_allclose(found.transform(X), here.transform(images), atol=1e-3)
    with pytest.raises(ValueError, match='on a GPU; set device="cuda"'):
        SPCATV(2).fit(X)


def test_nan_on_the_gpu_is_found(images, cupy):
    X = images.copy()
    X[3, 7] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SPCATV(1, device="cuda").fit(cupy.asarray(X))
    X[3, 7] = np.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):
        SPCATV(1, device="cuda").fit(cupy.asarray(X))


@pytest.mark.parametrize("kind", ["array", pytest.param("memory map", marks=pytest.mark.no_cover)])
def test_x_larger_than_the_gpu_travels_in_blocks(images, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("spcatv.data.gpu._free_bytes", lambda: 1e5)
    monkeypatch.setattr("spcatv.data.gpu.Budget.vector_bytes", lambda *_: 0)
    np.save(tmp_path / "X.npy", images)
    X = images if kind == "array" else np.load(tmp_path / "X.npy", mmap_mode="r")
    data = on_device(as_data(X), "cuda", 2)
    assert isinstance(data, StreamedData)
    assert data.height < 40
    here, there = both(X)
    assert_allclose(there.components_, here.components_, atol=1e-6)


def test_selection_moves_x_once(images, monkeypatch):
    moved = []
    original = on_device

    def counted(data, device, n_components):
        if device == "cuda" and not data.on_gpu:
            moved.append(data)
        return original(data, device, n_components)

    for module in ("selection.workers", "selection.cross_validation", "estimator._fit"):
        monkeypatch.setattr(f"spcatv.{module}.on_device", counted)
    options = {
        "structure": (20, 24),
        "cv": 2,
        "sparsity": [0.5, 0.8],
        "smoothness": [0.5],
        "standardize": True,
    }
    confounds = np.random.default_rng(0).standard_normal((40, 1))
    there = SPCATVCV(2, **options, device="cuda").fit(images, confounds=confounds)
    assert len(moved) == 1
    here = SPCATVCV(2, **options).fit(images, confounds=confounds)
    assert_allclose(there.cv_results_["mean_test_error"], here.cv_results_["mean_test_error"], rtol=1e-6)
    assert_allclose(there.components_, here.components_, atol=1e-4)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("options", "study"),
    [
        ({}, lambda model, X: bootstrap_components(model, X, n_resamples=2, random_state=0).dice),
        (
            {"global_signal": "regress"},
            lambda model, X: split_halves(model, X, n_splits=2, random_state=0).dice,
        ),
        (
            {"transform_method": "projection"},
            lambda model, X: count_components(model, X, max_components=2).share,
        ),
    ],
    ids=["bootstrap", "halves", "count"],
)
def test_resamples_halves_and_curves(images, options, study):
    here, there = (
        study(SPCATV(2, structure=(20, 24), tol=1e-4, **options, device=device), images)
        for device in ("cpu", "cuda")
    )
    assert_allclose(there, here, atol=1e-2)


@pytest.mark.no_cover
def test_the_same_bits_every_time(images):
    first, second = (fit(images, "cuda").components_ for _ in range(2))
    assert_array_equal(first, second)


def test_a_joint_fit_is_kept(images, tmp_path):
    model = SPCATV(2, structure=(20, 24), device="cuda", tol=1e-4)
    with checkpointing(tmp_path):
        whole = model.fit(images)
    with checkpointing(tmp_path), pytest.MonkeyPatch.context() as patch:
        patch.setattr(JointFitter, "fit", None)
        again = model.fit(images)
    assert_array_equal(again.components_, whole.components_)
    assert_array_equal(again.mixing_, whole.mixing_)


@pytest.mark.parametrize(
    "options", [{"n_init": 3, "method": "deflation"}, {"alpha": 0.1, "dtype": "float32"}]
)
def test_a_fit_that_was_killed_resumes(images, tmp_path, monkeypatch, options):
    """On the GPU, to the same bits."""
    model = SPCATV(2, structure=(20, 24), device="cuda", tol=1e-4, **options)
    whole = model.fit(images).components_
    save, saved = Stage.save, []

    def saving(stage, name, result):
        save(stage, name, result)
        saved.append(name)
        if name == "component-1":
            raise KeyboardInterrupt

    monkeypatch.setattr(Stage, "save", saving)
    with checkpointing(tmp_path), pytest.raises(KeyboardInterrupt):
        model.fit(images)
    saved.clear()
    with checkpointing(tmp_path):
        assert_array_equal(model.fit(images).components_, whole)
    assert saved[-1] == "component-2"
    assert not any("component-1" in name for name in saved)
