"""SPCATV as scikit-learn and its users expect it."""

import pickle
import warnings

import numpy as np
import pytest
from forks import in_a_fork, needs_fork
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from spcatv import SPCATV
from spcatv._util import threads
from spcatv.estimator import EmptyComponentWarning
from spcatv.estimator._fit import checked_data
from spcatv.structure import from_matrix, grid


class Chain:
    """A structure for any number of features: a chain of them."""

    def __call__(self, n_features):
        return grid(n_features)

    def __repr__(self):
        return "chain"


# components of a wanted sparsity, which is the default, and the penalised model
BOTH_MODELS = pytest.mark.parametrize("alpha", [None, 0.2])
# every kind of penalty, method, start and scores in one of them
INSTANCES = [
    SPCATV(),
    SPCATV(2, structure=Chain(), positive=True, init="structured"),
    SPCATV(alpha=0.2, structure=Chain(), penalty="graphnet", transform_method="projection"),
    SPCATV(alpha=1e-3, structure=Chain(), method="joint", penalty_units="absolute"),
]


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::spcatv.estimator.EmptyComponentWarning")
@pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
@parametrize_with_checks(INSTANCES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(striped):
    return SPCATV(2, structure=(60,), alpha=0.5).fit(striped)


def test_components_are_the_blocks(fitted):
    for component, support in zip(fitted.components_, (range(10, 20), range(35, 50)), strict=True):
        np.testing.assert_array_equal(np.flatnonzero(component), support)
        assert np.linalg.norm(component) == pytest.approx(1)
        assert component[np.argmax(np.abs(component))] > 0


def test_scores_are_those_of_the_deflation(fitted, striped):
    X = striped - striped.mean(axis=0)
    expected = []
    for component in fitted.components_:
        scores = X @ component
        X = X - np.outer(scores, component)
        expected.append(scores)
    np.testing.assert_allclose(fitted.transform(striped), np.stack(expected, axis=1), atol=1e-10)
    np.testing.assert_allclose(fitted.singular_values_, np.linalg.norm(expected, axis=1), rtol=1e-10)
    residual = striped - fitted.inverse_transform(fitted.transform(striped))
    np.testing.assert_allclose(residual, X, atol=1e-10)
    assert fitted.score(striped) == pytest.approx(-(X**2).sum() / len(X), rel=1e-10)


def test_explained_variance_adds_up(fitted, striped):
    total = ((striped - striped.mean(axis=0)) ** 2).sum()
    left = -fitted.score(striped) * len(striped)
    assert fitted.explained_variance_ratio_.sum() == pytest.approx(1 - left / total, rel=1e-10)
    np.testing.assert_allclose(fitted.explained_variance_, fitted.singular_values_**2 / (len(striped) - 1))


def test_a_row_does_not_depend_on_the_others(fitted, striped):
    np.testing.assert_allclose(fitted.transform(striped)[3:4], fitted.transform(striped[3:4]), rtol=1e-12)
    fitted_transformed = SPCATV(2, structure=(60,), alpha=0.5).fit_transform(striped)
    np.testing.assert_array_equal(fitted_transformed, fitted.transform(striped))


def test_projection_is_least_squares(striped):
    model = SPCATV(2, structure=(60,), alpha=0.02, transform_method="projection").fit(striped)
    X = striped - striped.mean(axis=0)
    expected = np.linalg.lstsq(model.components_.T, X.T, rcond=None)[0].T
    np.testing.assert_allclose(model.transform(striped), expected, atol=1e-9)


def test_weights_and_units(striped):
    X = striped - striped.mean(axis=0)
    unit = np.linalg.norm(X, axis=0).max() / len(X)
    relative = SPCATV(1, structure=(60,), alpha=0.3, l1_ratio=0.2, tv_ratio=0.5).fit(striped)
    np.testing.assert_allclose(
        [relative.l1_, relative.tv_, relative.l2_], unit * np.array([0.06, 0.15, 0.09])
    )
    absolute = SPCATV(
        1, structure=(60,), alpha=0.3 * unit, l1_ratio=0.2, tv_ratio=0.5, penalty_units="absolute"
    ).fit(striped)
    np.testing.assert_allclose(relative.components_, absolute.components_, atol=1e-12)
    scaled = SPCATV(1, structure=(60,), alpha=0.3, l1_ratio=0.2, tv_ratio=0.5).fit(1e4 * striped)
    np.testing.assert_allclose(relative.components_, scaled.components_, atol=1e-5)


def test_diagnostics_certify_the_final_loadings(fitted):
    for record, component in zip(fitted.diagnostics_, fitted.components_, strict=True):
        assert record.converged
        assert 0 <= record.relative_gap <= fitted.tol
        assert record.sparsity == pytest.approx((component == 0).mean())
        assert record.n_certain <= record.n_nonzero == np.count_nonzero(component)
        assert record.error_bound < 0.05
        assert record.seconds > 0
        assert record.objective == record.objectives[-1] < 0


def test_tiny_weights_are_pca(striped):
    model = SPCATV(3, structure=(60,), alpha=1e-8).fit(striped)
    pca = PCA(3).fit(striped)
    overlap = np.abs((model.components_ * pca.components_).sum(axis=1))
    np.testing.assert_allclose(overlap, 1, atol=1e-6)
    np.testing.assert_allclose(model.singular_values_, pca.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-6)


@pytest.mark.parametrize("shape", [(8, 30), (30, 8)])
def test_more_components_than_rank(shape):
    n_rows, n_columns = shape
    scores = np.linalg.qr(np.random.default_rng(0).standard_normal((n_rows, 3)))[0]
    X = np.zeros(shape)
    X[:, :4] += 3 * scores[:, :1]
    X[:, 4:n_columns] += scores[:, 1:2]
    with pytest.warns(EmptyComponentWarning, match=r"3 of 5 components are empty \(number 3, 4, 5\)"):
        model = SPCATV(5, structure=(n_columns,), alpha=1e-3).fit(X)
    assert (model.components_[2:] == 0).all()
    assert (model.transform(X)[:, 2:] == 0).all()
    assert -model.score(X) < 1e-7 * (X**2).sum()


@pytest.mark.filterwarnings("ignore::spcatv.estimator.EmptyComponentWarning")
def test_beyond_the_rank_there_is_no_nan():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 30))
    model = SPCATV(6, alpha=1e-6).fit(X)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.transform(X)).all()
    assert (model.singular_values_[2:] < 1e-4 * model.singular_values_[0]).all()


def test_vanishing_loadings_are_zeros_and_one_warning(striped):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SPCATV(2, structure=(60,), alpha=8.0).fit(striped)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 1
    assert "2 of 2 components are empty" in messages[0]
    assert "alpha (now 8" in messages[0]
    assert (model.components_ == 0).all()
    assert (model.transform(striped) == 0).all()
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(striped)), striped.mean(axis=0) + 0 * striped
    )


@BOTH_MODELS
def test_constant_data(alpha):
    with pytest.warns(EmptyComponentWarning):
        flat = SPCATV(2, alpha=alpha).fit(np.ones((5, 4)))
    assert (flat.components_ == 0).all()
    assert (flat.explained_variance_ratio_ == 0).all()


@pytest.mark.parametrize("alpha", [None, 0.5])
def test_constant_columns(striped, alpha):
    X = striped.copy()
    X[:, 12] = 7.0
    model = SPCATV(1, alpha=alpha).fit(X)
    assert model.components_[0, 12] == 0
    assert model.mean_[12] == 7


def test_one_feature():
    X = np.random.default_rng(0).standard_normal((10, 1))
    model = SPCATV(1, structure=(1,), alpha=0.5).fit(X)
    np.testing.assert_allclose(model.components_, [[1.0]])


@pytest.mark.parametrize("n_rows", [10, 200])
def test_more_and_fewer_rows_than_columns(n_rows):
    rng = np.random.default_rng(1)
    X = 0.3 * rng.standard_normal((n_rows, 50))
    X[:, 20:30] += rng.standard_normal((n_rows, 1))
    model = SPCATV(1, structure=(50,), alpha=0.3).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), range(20, 30))


def test_positive_loadings(striped):
    model = SPCATV(2, structure=(60,), alpha=0.05, positive=True).fit(striped)
    assert (model.components_ >= 0).all()
    assert (model.components_ > 0).any(axis=1).all()


def test_positive_picks_the_better_sign():
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((30, 1))
    X = 0.1 * rng.standard_normal((30, 20))
    X[:, :12] += scores
    X[:, 15:18] -= scores
    model = SPCATV(1, alpha=0.5, positive=True).fit(X)
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0] > 0.05), range(12))


def test_float32_stays_float32(striped):
    X = striped.astype(np.float32)
    model = SPCATV(2, structure=(60,), alpha=0.5).fit(X)
    for name in ["components_", "mean_", "explained_variance_ratio_"]:
        assert getattr(model, name).dtype == np.float32, name
    for name in ["singular_values_", "explained_variance_"]:  # squares of large numbers leave float32
        assert getattr(model, name).dtype == np.float64, name
    scores = model.transform(X)
    assert scores.dtype == np.float32
    assert model.inverse_transform(scores).dtype == np.float32
    double = SPCATV(2, structure=(60,), alpha=0.5).fit(striped)
    np.testing.assert_allclose(model.components_, double.components_, atol=2e-3)
    assert SPCATV(1, dtype="float64").fit(X).components_.dtype == np.float64


@pytest.mark.parametrize("kind", ["array", "table"])
def test_the_byte_order_does_not_matter(striped, kind):
    X = striped.astype("<f4")
    swapped = X.astype(">f4") if kind == "array" else pytest.importorskip("pandas").DataFrame(X.astype(">f4"))
    native, other = (SPCATV(2, structure=(60,), tol=1e-3).fit(data) for data in (X, swapped))
    for name in ("components_", "mean_", "singular_values_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(native, name), strict=True)
    np.testing.assert_array_equal(other.transform(swapped), native.transform(X), strict=True)


@pytest.mark.parametrize("init", ["svd", "structured", "random"])
def test_inits_find_the_blocks(striped, init):
    model = SPCATV(2, structure=(60,), alpha=0.5, init=init, n_init=6, random_state=0).fit(striped)
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), range(10, 20))


def test_more_starts_never_end_higher(striped):
    X = striped[:15]
    one = SPCATV(1, structure=(60,), alpha=0.05, init="random", random_state=3).fit(X)
    many = SPCATV(1, structure=(60,), alpha=0.05, init="random", random_state=3, n_init=10).fit(X)
    lone = one.diagnostics_[0].objective
    assert many.diagnostics_[0].objective <= lone + 1e-5 * abs(lone)


def test_given_loadings_as_init(fitted, striped):
    again = SPCATV(2, structure=(60,), alpha=0.5, init=fitted.components_).fit(striped)
    np.testing.assert_allclose(again.components_, fitted.components_, atol=1e-3)
    assert again.n_iter_ <= fitted.n_iter_


@BOTH_MODELS
def test_inputs_are_not_written_to(striped, alpha):
    X = striped.copy()
    SPCATV(2, structure=(60,), alpha=alpha, method="joint").fit(X)
    np.testing.assert_array_equal(X, striped)


def test_a_memory_map_is_read_in_place(tmp_path, striped, monkeypatch):
    path = tmp_path / "X.npy"
    np.save(path, striped)
    X = np.load(path, mmap_mode="r")
    seen = []

    def spy(*args, **options):
        seen.append(checked_data(*args, **options))
        return seen[-1]

    monkeypatch.setattr("spcatv.estimator.spcatv.checked_data", spy)
    model = SPCATV(2, structure=(60,), alpha=0.5).fit(X)
    assert np.shares_memory(seen[0].array, X)
    np.testing.assert_array_equal(
        model.components_, SPCATV(2, structure=(60,), alpha=0.5).fit(striped).components_
    )


def memory_of_a_fit(n_samples):
    """Bytes by which a process grows while it fits data, per byte of the data."""
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 100_000), dtype=np.float32)
    X[:, :1000] += rng.standard_normal((n_samples, 1), dtype=np.float32)
    SPCATV(1, structure=(10, 10), alpha=0.01).fit(X[:10, :100])  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    SPCATV(1, structure=(1000, 100), alpha=0.3, tol=1e-2).fit(X)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / X.nbytes


@needs_fork
def test_a_fit_needs_little_more_memory_than_x():
    assert in_a_fork(memory_of_a_fit, 400) < 0.8


def test_pickle_and_clone(fitted, striped):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(striped), fitted.transform(striped))
    assert clone(fitted).get_params()["structure"] == (60,)
    with_structure = SPCATV(structure=grid((6, 10)))
    assert clone(with_structure).structure == with_structure.structure


def test_pipeline_and_grid_search(striped):
    pipeline = make_pipeline(StandardScaler(), SPCATV(1, structure=(60,)))
    search = GridSearchCV(pipeline, {"spcatv__alpha": [0.05, 0.1, 50.0]}, cv=3)
    search.fit(striped)  # folds do not warn of empty components at the last alpha
    assert search.best_params_["spcatv__alpha"] < 1
    assert search.cv_results_["mean_test_score"].argmin() == 2


def test_feature_names_and_set_output(striped):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(striped, columns=[f"voxel {j}" for j in range(60)])
    model = SPCATV(2, structure=(60,)).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["component_1", "component_2"]
    assert list(model.get_feature_names_out()) == ["component_1", "component_2"]
    assert model.feature_names_in_[0] == "voxel 0"
    assert model.score(frame) == model.set_output(transform="default").score(frame)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_for_any_number_of_threads(dtype, monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 2000)).astype(dtype)
    X[:, 300:600] += np.random.default_rng(1).standard_normal((60, 1)).astype(dtype)
    models = []
    for n_threads in (1, 3):
        monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
        with threadpool_limits(n_threads):
            models.append(SPCATV(2, structure=(40, 50), alpha=0.2, tol=1e-4).fit(X))
    one, other = models
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.singular_values_, other.singular_values_)


@BOTH_MODELS
def test_nothing_is_printed_by_default_and_figures_with_verbose(striped, capsys, alpha):
    SPCATV(1, structure=(60,), alpha=alpha).fit(striped)
    assert capsys.readouterr().out == ""
    SPCATV(1, structure=(60,), alpha=alpha, verbose=2).fit(striped)
    out = capsys.readouterr().out
    assert "component 1/1, alternation 1: objective" in out
    assert "converged" in out


def test_not_converged_warns_with_figures(striped):
    with pytest.warns(Warning, match=r"tol=1e-06 was not reached \(component 1: relative gap .* after 1 alt"):
        SPCATV(1, structure=(60,), alpha=0.3, max_iter=1, init="random", random_state=0).fit(striped)


def test_unfitted(striped):
    from sklearn.exceptions import NotFittedError

    for call in ("transform", "inverse_transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(SPCATV(), call)(striped)


def test_a_solver_of_ones_own(striped):
    from spcatv.solvers import solve

    calls = []

    def mine(problem, **options):
        calls.append(1)
        return solve(problem, "dual", **options)

    model = SPCATV(1, structure=(60,), alpha=0.5, solver=mine).fit(striped)
    assert calls
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), range(10, 20))


def test_parallel_fits_in_threads_agree_and_leave_blas_as_it_was(striped):
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_info, threadpool_limits

    def fit(_):
        return SPCATV(2, structure=(60,), alpha=0.5).fit(striped).components_

    alone = fit(0)
    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        together = Parallel(4, backend="threading")(delayed(fit)(k) for k in range(12))
        assert [library["num_threads"] for library in threadpool_info()] == before
    for components in together:
        np.testing.assert_array_equal(components, alone)


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_warnings_point_to_the_users_line(striped, method):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(SPCATV(1, structure=(60,), alpha=9.0), method)(striped)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_numbers_that_float32_cannot_square(striped, scale):
    model = SPCATV(2, structure=(60,), alpha=0.5).fit((scale * striped).astype(np.float32))
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), range(10, 20))


@BOTH_MODELS
def test_an_operator_of_zeros_is_no_structure(striped, alpha):
    zeros = from_matrix(np.zeros((3, 60)))
    for init in ("svd", "structured"):
        with_zeros = SPCATV(2, structure=zeros, alpha=alpha, init=init).fit(striped)
        without = SPCATV(2, alpha=alpha, init=init).fit(striped)
        np.testing.assert_array_equal(with_zeros.components_, without.components_)
