"""SPCATVCV: a second route with plain loops, workers that change nothing, folds that fail."""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, ShuffleSplit, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from spcatv import SPCATV
from spcatv.datasets import make_dots
from spcatv.estimator import EmptyComponentWarning
from spcatv.metrics import pairwise_dice, reconstruction_error, threshold_loadings
from spcatv.selection import SPCATVCV, FailedFitWarning, SelectionWarning, all_zero_alpha
from spcatv.selection.cross_validation import make_folds
from spcatv.solvers import solve
from spcatv.structure import grid


class Chain:
    """A structure for any number of features: a chain of them."""

    def __call__(self, n_features):
        return grid(n_features)

    def __repr__(self):
        return "chain"


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::spcatv.estimator.EmptyComponentWarning")
@pytest.mark.filterwarnings("ignore::spcatv.selection.SelectionWarning")
@parametrize_with_checks(
    [
        SPCATVCV(1, sparsity=(0.0, 0.5), smoothness=1.0, cv=2, structure=Chain()),
        SPCATVCV(1, alpha="grid", l1_ratio=0.25, tv_ratio=0.5, n_alphas=2, cv=2, rule="paper"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def images():
    """36 images of 10 x 12 with two blocks that vary."""
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((36, 10, 12))
    X[:, 1:5, 1:6] += 2.0 * rng.standard_normal((36, 1, 1))
    X[:, 6:9, 6:11] += 1.5 * rng.standard_normal((36, 1, 1))
    return X.reshape(36, 120)


GRID = {"alpha": (0.05, 0.4, 0.15), "l1_ratio": (0.1, 0.3), "tv_ratio": (0.2, 0.5)}


@pytest.fixture(scope="module")
def search(images):
    return SPCATVCV(2, structure=(10, 12), cv=3, tol=1e-10, rule="paper", **GRID).fit(images)


class TestSecondRoute:
    """The same numbers by cold fits in plain loops."""

    @pytest.fixture(scope="class")
    @classmethod
    def table(cls, images):
        rows = []
        for l1_ratio in GRID["l1_ratio"]:
            for tv_ratio in GRID["tv_ratio"]:
                for alpha in GRID["alpha"]:
                    models, errors, explained = [], [], []
                    for train, test in KFold(3).split(images):
                        weights = {"alpha": alpha, "l1_ratio": l1_ratio, "tv_ratio": tv_ratio}
                        model = SPCATV(2, structure=(10, 12), tol=1e-10, **weights)
                        model.fit(images[train])
                        held_out = images[test]
                        fitted = model.inverse_transform(model.transform(held_out))
                        errors.append(reconstruction_error(held_out, fitted))
                        total = reconstruction_error(held_out, np.tile(model.mean_, (len(test), 1))) ** 2
                        explained.append(1 - errors[-1] ** 2 / total)
                        models.append(model)
                    loadings = [threshold_loadings(model.components_) for model in models]
                    rows.append(
                        {
                            "params": weights,
                            "errors": errors,
                            "explained": explained,
                            "sparsity": np.mean([model.components_ == 0 for model in models], axis=(0, 2)),
                            "dice": pairwise_dice(loadings, norm_fraction=None).mean(),
                            "corrected": pairwise_dice(loadings, norm_fraction=None, corrected=True).mean(),
                        }
                    )
        return rows

    def test_every_number(self, search, table):
        results = search.cv_results_
        assert results["params"] == [row["params"] for row in table]
        errors = np.stack([results[f"split{fold}_test_error"] for fold in range(3)], axis=1)
        assert_allclose(errors, [row["errors"] for row in table], rtol=1e-4)
        assert_allclose(results["mean_test_error"], errors.mean(axis=1))
        assert_allclose(results["mean_test_score"], -errors.mean(axis=1))
        assert_allclose(results["std_test_error"], errors.std(axis=1))
        assert_array_equal(np.argsort(results["rank_test_score"]), np.argsort(errors.mean(axis=1)))
        explained = np.array([row["explained"] for row in table])
        assert_allclose(results["mean_test_explained"], explained.mean(axis=1), rtol=2e-3)
        assert_allclose(results["se_test_explained"], explained.std(axis=1, ddof=1) / np.sqrt(3), rtol=2e-2)
        for k in range(2):
            assert_allclose(
                results[f"mean_sparsity_{k + 1}"], [row["sparsity"][k] for row in table], atol=0.02
            )
        assert_allclose(results["mean_dice"], [row["dice"] for row in table], atol=0.02)
        assert_allclose(results["mean_corrected_dice"], [row["corrected"] for row in table], atol=0.03)

    def test_the_choice(self, search, table, images):
        sparse = [row for row in table if row["sparsity"][1] >= 0.5]
        best = min(sparse, key=lambda row: np.mean(row["errors"]))
        assert search.best_params_ == best["params"]
        assert search.best_index_ == table.index(best)
        assert search.best_score_ == pytest.approx(-np.mean(best["errors"]), rel=1e-4)
        cold = SPCATV(2, structure=(10, 12), **best["params"]).fit(images)
        assert type(search.best_estimator_) is SPCATV
        assert_allclose(search.best_estimator_.components_, cold.components_, atol=5e-3)
        assert_array_equal(search.components_, search.best_estimator_.components_)


def numbers_of(search):
    return {name: column for name, column in search.cv_results_.items() if name != "mean_fit_time"}


def assert_same(one, other):
    for name, column in numbers_of(one).items():
        assert_array_equal(column, numbers_of(other)[name], err_msg=name)
    assert one.best_params_ == other.best_params_
    assert_array_equal(one.best_estimator_.components_, other.best_estimator_.components_)


ALPHA_GRID = {"alpha": "grid", "n_alphas": 3, "l1_ratio": 0.25, "tv_ratio": (0.2, 0.5)}
TARGETS = {"sparsity": (0.6, 0.8), "smoothness": (0.5, 1.0)}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("backend", "n_jobs", "order", "grid_of_settings"),
    [
        ("loky", 2, "C", TARGETS),
        ("threading", 2, "F", ALPHA_GRID),
        ("loky", None, "C", ALPHA_GRID),  # threads of this process
    ],
)
def test_workers_change_no_bit(images, backend, n_jobs, order, grid_of_settings, monkeypatch):
    monkeypatch.setattr("spcatv.selection.workers.most_threads", lambda: 2)
    # large enough that joblib hands it over as a memory map
    X = np.tile(np.asarray(images, order=order).astype(np.float32), (1, 80))
    X = np.array(X + 0.1 * np.random.default_rng(1).standard_normal(X.shape), np.float32, order=order)
    assert X.nbytes > 1_000_000
    search = SPCATVCV(2, structure=(80, 120), cv=2, tol=1e-3, **grid_of_settings)
    alone = clone(search).set_params(n_jobs=1).fit(X)
    with parallel_config(backend=backend):
        together = clone(search).set_params(n_jobs=n_jobs).fit(X)
    assert_same(alone, together)


def test_data_with_gaps_are_packed_first(images):
    wide = np.repeat(images, 2, axis=1)
    search = SPCATVCV(2, structure=(10, 12), cv=2, alpha=(0.1, 0.3), l1_ratio=0.25, tv_ratio=0.5)
    assert_same(clone(search).fit(wide[:, ::2]), clone(search).fit(images))


class TestGroups:
    def test_rows_of_one_group_stay_together(self, images):
        groups = np.repeat(np.arange(9), 4)[np.random.default_rng(0).permutation(36)]
        for cv in (3, GroupKFold(4), LeaveOneGroupOut()):
            folds = make_folds(cv, images, groups=groups)
            for fold in folds:
                assert not set(groups[fold.train]) & set(groups[fold.test])
                assert len(fold.train) + len(fold.test) == 36
        search = SPCATVCV(1, cv=3, alpha=0.2, l1_ratio=0.25, tv_ratio=0.5, structure=(10, 12))
        search.fit(images, groups=groups)
        train, test = next(GroupKFold(3).split(images, groups=groups))
        model = SPCATV(1, alpha=0.2, structure=(10, 12)).fit(images[train])
        error = reconstruction_error(images[test], model.inverse_transform(model.transform(images[test])))
        assert search.cv_results_["split0_test_error"][0] == pytest.approx(error, rel=1e-6)

    @pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
    def test_a_splitter_that_tears_groups_is_refused(self, images):
        groups = np.arange(36) % 9
        for cv in (KFold(3), ShuffleSplit(2, random_state=0)):
            with pytest.raises(ValueError, match=r"puts samples of group .* on both sides of fold 1"):
                SPCATVCV(1, cv=cv).fit(images, groups=groups)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            SPCATVCV(1).fit(images, groups=groups[:5])

    def test_wrong_folds_are_refused(self, images):
        with pytest.raises(ValueError, match="fold 1 has 1 training samples"):
            SPCATVCV(1, cv=[([0], [1, 2])]).fit(images)
        with pytest.raises(ValueError, match="fold 2 holds out samples that it also trains on"):
            SPCATVCV(1, cv=[([0, 1], [2]), ([0, 1], [1])]).fit(images)


class FailsWithout:
    """A solver that fails when the data do not vary in the first feature."""

    def __call__(self, problem, **options):
        if abs(problem.y[0]) < 1e-12:
            raise RuntimeError("the first feature is constant")
        return solve(problem, method="pdhg", **options)


SEARCH = {"structure": (10, 12), "cv": 3, "alpha": (0.1, 0.3), "l1_ratio": 0.25, "tv_ratio": 0.5, "tol": 1e-9}


FIRST, LAST = np.arange(4), np.arange(4, 8)


@pytest.mark.parametrize(
    ("cv", "groups", "message"),
    [
        (None, None, "n_splits=5 greater than the number of samples: n_samples=4"),
        (1, None, "got n_splits=1"),
        (3, [0, 0, 1, 1], "n_splits=3 greater than the number of groups: 2"),
        ([], None, "cv has no folds"),
        ([([0, 1], [2, 4])], None, "fold 1 of 4 samples: index 4 is out of bounds"),
        ([([0, 1, 2, 3], [-1])], None, "fold 1 holds out samples that it also trains on"),  # sample 3
        ([([0.0, 1.0], [2.0])], None, "fold 1 of 4 samples: arrays used as indices must be of integer"),
        ([([True, False], [False, True])], None, "fold 1 of 4 samples: boolean index did not match"),
        (StratifiedKFold(2), None, "StratifiedKFold needs y"),
        (
            ShuffleSplit(1, random_state=0),
            None,
            "at least two folds, there are 1; give more",
        ),
    ],
    ids=str,
)
def test_bad_folds_are_refused_before_any_fit(cv, groups, message, monkeypatch):
    monkeypatch.setattr("spcatv.selection.cv.cross_validate", lambda *_: pytest.fail("work has begun"))
    X = np.random.default_rng(0).standard_normal((4, 6))
    with pytest.raises(ValueError, match=message):
        SPCATVCV(1, cv=cv).fit(X, groups=groups)


def test_folds_may_be_truth_values():
    X = np.zeros((8, 2))
    first = np.arange(8) < 4
    folds = make_folds([(first, ~first), (~first, first)], X)
    assert_array_equal([(fold.train, fold.test) for fold in folds], [(FIRST, LAST), (LAST, FIRST)])


class TestFailures:
    def test_a_fold_that_fails_is_named_and_the_others_stand(self, images):
        search_for = SEARCH | {"tol": 1e-11}  # two solvers end at points that differ by the root of this
        X = images.copy()
        X[:, 0] = 0
        X[:12, 0] = np.random.default_rng(0).standard_normal(12)  # without fold 1 it does not vary
        with pytest.warns(FailedFitWarning) as caught:
            search = SPCATVCV(2, solver=FailsWithout(), **search_for).fit(X)
        message = str(caught[0].message)
        assert "2 fits failed" in message
        assert "fold 1, alpha=0.1, l1_ratio=0.25, tv_ratio=0.5: RuntimeError: the first feature" in message
        assert "fold 1, alpha=0.3" in message
        results = search.cv_results_
        assert np.isnan(results["split0_test_error"]).all()
        whole = SPCATVCV(2, solver="pdhg", **search_for).fit(X)
        for fold in (1, 2):
            name = f"split{fold}_test_error"
            assert_allclose(results[name], whole.cv_results_[name], rtol=1e-6)
        mean = (results["split1_test_error"] + results["split2_test_error"]) / 2
        assert_allclose(results["mean_test_error"], mean)

    def test_a_setting_that_fails_somewhere_is_not_chosen(self, images):
        X = images.copy()
        X[:, 0] = 0
        X[:12, 0] = np.random.default_rng(0).standard_normal(12)

        class FailsOnce(FailsWithout):
            def __call__(self, problem, **options):
                return super().__call__(problem, **options) if problem.l1 < 1 else solve(problem, **options)

        # tv_ratio 0.2 and 0.7 make l1 / l2 smaller and larger than 1
        options = SEARCH | {"l1_ratio": 0.25, "tv_ratio": (0.2, 0.7)}
        with pytest.warns(FailedFitWarning, match="2 fits failed"):
            search = SPCATVCV(2, solver=FailsOnce(), **options).fit(X)
        results = search.cv_results_
        assert_array_equal(np.isnan(results["mean_test_error"]), results["param_tv_ratio"] == 0.2)
        assert search.best_params_["tv_ratio"] == 0.7
        assert np.isfinite(results["split1_test_error"]).all()

    def test_all_failing_is_an_error(self, images):
        def never(problem, **options):
            raise ValueError("no")

        with pytest.raises(
            ValueError, match=r"every fit failed; the first: fold 1, alpha=0.1.*ValueError: no"
        ):
            SPCATVCV(2, solver=never, **SEARCH).fit(images)

    def test_a_mistake_in_the_program_is_not_a_failed_fold(self, images):
        def broken(problem, **options):
            raise TypeError("a bug")

        with pytest.raises(TypeError, match="a bug"):
            SPCATVCV(2, solver=broken, **SEARCH).fit(images)


class TestTargets:
    """The grid over sparsity and smoothness."""

    @pytest.fixture(scope="class")
    @classmethod
    def search(cls, images):
        return SPCATVCV(2, structure=(10, 12), cv=3, **TARGETS).fit(images)

    def test_a_fold_is_fitted_as_fit_does(self, search, images):
        results = search.cv_results_
        assert results["params"][:3] == [
            {"sparsity": 0.6, "smoothness": 0.5},
            {"sparsity": 0.8, "smoothness": 0.5},
            {"sparsity": 0.6, "smoothness": 1.0},
        ]
        assert_array_equal(results["param_sparsity"], [0.6, 0.8, 0.6, 0.8])
        assert_array_equal(results["param_smoothness"], [0.5, 0.5, 1.0, 1.0])
        for k, setting in enumerate(results["params"]):
            models = []
            for fold, (train, test) in enumerate(KFold(3).split(images)):
                models.append(SPCATV(2, structure=(10, 12), alpha=None, **setting).fit(images[train]))
                fitted = models[-1].inverse_transform(models[-1].transform(images[test]))
                error = reconstruction_error(images[test], fitted)
                assert results[f"split{fold}_test_error"][k] == pytest.approx(error, rel=1e-12)
            zeros = np.mean([model.components_ == 0 for model in models], axis=(0, 2))
            dice = pairwise_dice([model.components_ for model in models]).mean(axis=0)
            for component in (0, 1):
                number = component + 1
                assert results[f"mean_sparsity_{number}"][k] == pytest.approx(zeros[component])
                assert results[f"mean_dice_{number}"][k] == pytest.approx(dice[component])
            assert results["mean_dice"][k] == pytest.approx(dice.mean())

    def test_the_chosen_setting_is_fitted_as_fit_does(self, search, images):
        assert list(search.best_params_) == ["sparsity", "smoothness"]
        alone = SPCATV(2, structure=(10, 12), alpha=None, **search.best_params_).fit(images)
        assert_array_equal(search.components_, alone.components_)
        assert search.best_estimator_.alpha is None
        assert search.best_estimator_.sparsity == search.best_params_["sparsity"]

    def test_the_default_rule_gives_the_reason(self, search):
        results, best = search.cv_results_, search.best_index_
        assert "sparsest" in search.choice_reason_
        assert f"Dice index over folds {results['mean_dice'][best]:.2f}" in search.choice_reason_
        explained, smoothness = results["mean_test_explained"], results["param_smoothness"]
        lowest = int(np.argmin(results["mean_test_error"]))
        loss = min(results["se_test_explained"][lowest], 0.05 * explained[lowest])
        near = (explained >= explained[lowest] - loss) & (smoothness == smoothness[lowest])
        assert near[best]
        assert search.best_params_["sparsity"] == results["param_sparsity"][near].max()

    def test_one_value_of_each(self, images):
        search = SPCATVCV(1, structure=(10, 12), cv=2, sparsity=0.8, smoothness=0).fit(images)
        assert search.best_params_ == {"sparsity": 0.8, "smoothness": 0.0}
        assert np.mean(search.components_ == 0) == pytest.approx(0.8, abs=0.01)

    def test_more_components_than_the_data_have(self):
        X = np.outer(np.arange(12.0), np.r_[np.ones(10), np.zeros(10)])
        with pytest.warns(SelectionWarning, match="no setting keeps all 2 components nonempty"):
            search = SPCATVCV(2, cv=2, sparsity=0.5, smoothness=0.0).fit(X)
        assert_array_equal(search.cv_results_["mean_n_nonempty"], [1.0])


class TestEstimator:
    def test_a_pandas_table(self, search):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(search.cv_results_)
        assert len(frame) == 12
        assert frame.loc[search.best_index_, "param_alpha"] == search.best_params_["alpha"]

    def test_it_transforms_as_its_best_estimator(self, search, images):
        scores = search.transform(images)
        assert_array_equal(scores, search.best_estimator_.transform(images))
        assert_array_equal(search.inverse_transform(scores), search.best_estimator_.inverse_transform(scores))
        assert search.score(images) == search.best_estimator_.score(images)
        assert list(search.get_feature_names_out()) == ["component_1", "component_2"]
        with pytest.raises(NotFittedError):
            SPCATVCV().transform(images)

    def test_names_of_features_reach_the_best_estimator(self, images):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(images, columns=[f"pixel {j}" for j in range(120)])
        search = SPCATVCV(1, cv=2, alpha=0.2, l1_ratio=0.25, tv_ratio=0.5).fit(frame)
        assert search.best_estimator_.feature_names_in_[3] == "pixel 3"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            search.transform(frame)

    def test_the_grid_of_alphas_is_made_for_each_pair(self, images):
        search = SPCATVCV(1, structure=(10, 12), cv=2, alpha="grid", n_alphas=3, smallest_alpha=0.1)
        search.fit(images)
        alphas = np.reshape(search.cv_results_["param_alpha"], (6, 3))
        assert_allclose(alphas[:, 2] / alphas[:, 0], 0.1)
        assert len(set(alphas[:, 0])) == 6

    def test_units_are_those_of_the_rows_of_each_fit(self, images):
        options = {"structure": (10, 12), "cv": 3, "l1_ratio": 0.25, "tv_ratio": 0.5}
        relative = SPCATVCV(2, alpha=(0.1, 0.3), **options).fit(images)
        scaled = SPCATVCV(2, alpha=(0.1, 0.3), **options).fit(1e3 * images)
        assert_allclose(
            scaled.cv_results_["mean_test_error"], 1e3 * relative.cv_results_["mean_test_error"], rtol=1e-5
        )

    def test_a_strong_penalty_is_reached_as_on_the_folds(self):
        # above nonempty there is a component that only a path finds
        dots = make_dots(n_samples=80, size=28, random_state=1)
        zero = all_zero_alpha(SPCATV(structure=dots.shape), dots.X)
        alphas = np.geomspace(0.3 * zero.nonempty, 1.6 * zero.nonempty, 10)
        search = SPCATVCV(1, structure=dots.shape, alpha=alphas, l1_ratio=0.25, tv_ratio=0.5, cv=2)
        search.set_params(rule=lambda results: 9)
        search.fit(dots.X)
        assert search.best_params_["alpha"] == alphas[9]
        assert search.components_.any()
        with pytest.warns(EmptyComponentWarning):
            cold = SPCATV(1, structure=dots.shape, **search.best_params_).fit(dots.X)
        assert not cold.components_.any()

    def test_projection_scores(self, images):
        search = SPCATVCV(
            2,
            cv=3,
            alpha=0.01,
            l1_ratio=0.25,
            tv_ratio=0.5,
            transform_method="projection",
            structure=(10, 12),
            rule="paper",
        )
        with pytest.warns(SelectionWarning, match="comes closest"):
            search.fit(images)
        train, test = next(KFold(3).split(images))
        model = SPCATV(2, alpha=0.01, transform_method="projection", structure=(10, 12)).fit(images[train])
        error = reconstruction_error(images[test], model.inverse_transform(model.transform(images[test])))
        assert search.cv_results_["split0_test_error"][0] == pytest.approx(error, rel=1e-6)

    def test_it_reports_how_far_it_is(self, images, capsys):
        SPCATVCV(1, cv=2, alpha=(0.1, 0.2), l1_ratio=0.25, tv_ratio=(0.1, 0.5), verbose=1).fit(images)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 5
        assert lines[0] == "[SPCATVCV] Comparing settings: 4 chains of fits"
        assert lines[1] == "[SPCATVCV] chain 1 of 4: fold 1, l1_ratio=0.25, tv_ratio=0.1, 2 values of alpha"

    def test_fits_that_stop_early_are_counted(self, images):
        search = SPCATVCV(1, cv=2, alpha=0.05, l1_ratio=0.1, tv_ratio=0.5, max_iter=1, structure=(10, 12))
        with pytest.warns(ConvergenceWarning) as caught:
            search.fit(images)
        assert any("2 fits on folds did not reach tol=1e-06" in str(item.message) for item in caught)
        assert search.cv_results_["n_unconverged"][0] == 2
        search.set_params(cv=[next(KFold(2).split(images))], rule="error")
        with pytest.warns(ConvergenceWarning) as caught:
            search.fit(images)
        assert any("1 fit on folds did not reach tol=1e-06" in str(item.message) for item in caught)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"alpha": 0.1, "sparsity": 0.5}, "sparsity does not go with alpha"),
            ({"alpha": "grid", "smoothness": 2.0}, "smoothness does not go with alpha"),
            ({"rule": "paper"}, "give alpha='grid' or the values"),
            ({"smoothness": -1.0}, "smoothness must not be negative"),
            ({"sparsity": "most"}, "sparsity must be a number or a sequence"),
            ({"alpha": -0.1}, "alpha must not be negative"),
            ({"alpha": "large"}, "alpha must be a number or a sequence.*take 'grid'"),
            ({"n_jobs": 0}, "n_jobs == 0"),
            ({"alpha": []}, "alpha must be a number or a sequence"),
            ({"alpha": "grid", "l1_ratio": [[0.1]]}, "l1_ratio must be a number or a sequence"),
            ({"alpha": "grid", "l1_ratio": 0.6, "tv_ratio": (0.5, 0.7)}, "must be below 1"),
            ({"sparsity": (0.5, 1.0)}, "sparsity"),
            ({"rule": "best"}, "unknown rule 'best'"),
            ({"min_sparsity": 2}, "min_sparsity is a share"),
            ({"alpha": "grid", "n_alphas": 0}, "n_alphas must be"),
            ({"alpha": "grid", "smallest_alpha": 1.0}, "smallest is a share"),
            ({"n_components": 0}, "n_components must be at least 1"),
            ({"cv": 50}, "n_splits=50 greater than the number of samples: n_samples=36"),
        ],
    )
    def test_wrong_parameters(self, images, parameters, message):
        with pytest.raises(ValueError, match=message):
            SPCATVCV(**parameters).fit(images)

    def test_pairs_without_l2_are_left_out(self, images):
        search = SPCATVCV(1, cv=2, alpha=0.1, l1_ratio=(0.2, 0.6), tv_ratio=(0.3, 0.5)).fit(images)
        pairs = zip(search.cv_results_["param_l1_ratio"], search.cv_results_["param_tv_ratio"], strict=True)
        assert list(pairs) == [(0.2, 0.3), (0.2, 0.5), (0.6, 0.3)]


def test_a_default_grid_is_extended_beyond_its_edge():
    """A factor on all features is not sparse: the choice lies on the edge of both grids."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 40)) + 2 * rng.standard_normal((30, 1))
    with pytest.warns(SelectionWarning, match="sparsity=0.1 is the lowest"):
        search = SPCATVCV(1, structure=(40,), smoothness=1.0, cv=3, tol=1e-3).fit(X)
    tried = search.cv_results_["param_sparsity"]
    assert tried.tolist() == [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95]
    assert search.best_params_ == {"sparsity": 0.1, "smoothness": 1.0}
    # the scores are those of a grid that has these values from the start
    with pytest.warns(SelectionWarning, match="edge"):
        whole = SPCATVCV(1, structure=(40,), sparsity=tried, smoothness=1.0, cv=3, tol=1e-3).fit(X)
    np.testing.assert_array_equal(whole.cv_results_["mean_test_error"], search.cv_results_["mean_test_error"])
    with pytest.warns(SelectionWarning, match="sparsity=0.5 is the lowest"):
        given = SPCATVCV(1, structure=(40,), sparsity=[0.5, 0.7, 0.9], smoothness=1.0, cv=3, tol=1e-3).fit(X)
    assert len(given.cv_results_["params"]) == 3, "values that are given are not extended"
