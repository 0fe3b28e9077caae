"""Warnings of a fit about empty components and about other zeros than were asked for."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from spcatv import SPCATV, SPCATVCV
from spcatv.estimator import EmptyComponentWarning, SparsityWarning
from spcatv.estimator._warnings import warn_about
from spcatv.selection import path
from spcatv.structure import graph, grid


def test_more_components_than_the_rank_are_named():
    X = np.zeros((20, 12))
    X[:, :4] = np.random.default_rng(2).standard_normal((20, 1))
    X[:, 6:10] = np.random.default_rng(3).standard_normal((20, 1))
    with pytest.warns(
        EmptyComponentWarning, match=r"2 of 4 .*number 3, 4\): .*rank 2 .*n_components .*4\) to 2"
    ):
        model = SPCATV(4, sparsity=0.66).fit(X)
    assert (model.components_[2:] == 0).all()
    assert [record.target_sparsity for record in model.diagnostics_] == [0.66] * 4
    with pytest.warns(EmptyComponentWarning, match=r"rank 2 at most"):
        SPCATV(4, alpha=1e-6).fit(X)
    with pytest.warns(EmptyComponentWarning, match="the data do not vary"):
        SPCATV(1).fit(np.ones((5, 4)))


def test_the_penalised_model_offers_a_remedy_for_jumps(striped):
    wide = striped + 5 * np.random.default_rng(3).standard_normal((40, 1))
    with pytest.warns(SparsityWarning, match=r"component 1: 0\.0% zeros.*smaller tv_ratio.*sparsity=0\.7"):
        SPCATV(1, structure=(60,), alpha=0.2).fit(wide)
    with pytest.warns(EmptyComponentWarning, match=r"Lower alpha .*smaller tv_ratio.*sparsity=0\.7"):
        SPCATV(1, structure=(60,), alpha=8.0).fit(wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SPCATV(1, structure=(60,), alpha=1e-4).fit(wide)  # next to PCA, as is wanted
        SPCATV(1, alpha=0.2).fit(wide)  # nothing is smoothed


def test_copies_and_constant_features_are_named_where_nothing_is_smoothed():
    rng = np.random.default_rng(0)
    copies = np.repeat(rng.standard_normal((20, 5)), 20, axis=1)
    with pytest.warns(
        SparsityWarning, match=r"component 1: [68]0\.0% instead of 70\.0%.*copies of each other"
    ):
        model = SPCATV(1).fit(copies)
    assert model.diagnostics_[0].jump == pytest.approx(0.2)
    assert model.diagnostics_[0].smoothness == 1.0  # lowering it would not help
    # a mean of 0.1 leaves rounding errors where nothing varies
    constant = np.hstack([np.full((20, 30), 0.1), rng.standard_normal((20, 20))])
    with pytest.warns(SparsityWarning, match=r"60\.0% instead of 20\.0%.*constant ones always are"):
        model = SPCATV(1, sparsity=0.2).fit(constant)
    assert not model.components_[:, :30].any()


def test_a_share_that_no_smoothness_reaches_is_explained():
    copies = np.repeat(np.random.default_rng(0).standard_normal((20, 5)), 20, axis=1)
    with pytest.warns(SparsityWarning, match=r"even with the smoothness lowered from 1 to 0\.00.*copies"):
        model = SPCATV(2, structure=(100,), method="deflation").fit(copies)
    # lowered to about 1 % of what was asked for, once, even where components are fitted again
    assert min(record.smoothness for record in model.diagnostics_) >= 0.007


def test_features_that_rise_and_fall_together_are_distinguished_from_copies():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 1)) + 1e-9 * rng.standard_normal((30, 60))
    with pytest.warns(
        SparsityWarning, match=r"within tol=1e-06, because nearly all.*global_signal.*lower tol"
    ):
        SPCATV(1, structure=(60,)).fit(X)


@pytest.mark.parametrize(
    ("n_features", "n_off", "warns"),
    [(50, 2, False), (50, 3, True), (10_000, 490, False), (10_000, -490, False), (10_000, 510, True)],
)
def test_a_share_within_five_points_needs_no_remark(n_features, n_off, warns):
    n_zeros = round(0.7 * n_features) + n_off
    record = SimpleNamespace(
        n_nonzero=n_features - n_zeros,
        sparsity=n_zeros / n_features,
        smoothness=0.49,
        jump=0.1,
        converged=True,
        is_empty=False,
        is_global=False,
    )
    fitted = SimpleNamespace(
        n_components=1,
        alpha=None,
        method="auto",
        sparsity=0.7,
        smoothness=1.0,
        structure_=grid((n_features,)),
        components_=np.zeros((1, n_features)),
        explained_variance_ratio_=np.ones(1),
        diagnostics_=(record,),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about(fitted, fitted)
    assert [one.category for one in caught] == [SparsityWarning] * warns


def test_a_path_warns_once():
    copies = np.repeat(np.random.default_rng(0).standard_normal((20, 5)), 20, axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = path(SPCATV(2), copies, [0.3, 0.5, 0.7])
    assert [one.category for one in caught] == [SparsityWarning]
    assert "2 more of 3 fits" in str(caught[0].message)
    assert [record.sparsity for record in fitted.models[2].diagnostics_] != [0.7, 0.7]


@pytest.mark.parametrize(
    ("weight", "options", "warns"),
    [
        (101.0, {"smoothness": 1.0}, True),
        (99.0, {"smoothness": 1.0}, False),
        (1e-9, {"smoothness": 1.0}, False),
        (1e4, {"smoothness": 1e-3}, False),
        (1e4, {"smoothness": 0.1}, True),
        (1e4, {"alpha": 0.1}, False),
    ],
)
def test_edges_that_are_too_strong_are_warned_about_before_the_fit(weight, options, warns, monkeypatch):
    weights = np.ones(29)
    weights[7] = weight
    line = graph(np.diag(weights, 1) + np.diag(weights, -1))
    X = np.random.default_rng(0).standard_normal((10, 30))
    monkeypatch.setattr("spcatv.estimator.spcatv.fit_data", lambda *_, **__: 1 / 0)  # comes later
    grid_of = {name: [value, value / 2] for name, value in options.items()}
    for model in (SPCATV(1, structure=line, **options), SPCATVCV(1, structure=line, cv=2, **grid_of)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            monkeypatch.setattr("spcatv.selection.cv.make_folds", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model.fit(X)
        said = [one for one in caught if "times the largest weight of an edge" in str(one.message)]
        assert len(said) == warns


@pytest.mark.parametrize(
    ("fit", "value"),
    [
        (lambda X, structure: SPCATV(1, structure=structure, smoothness=2.0).fit(X), "2"),
        (lambda X, structure: SPCATVCV(1, structure=structure, smoothness=[0.5, 1.0], cv=2).fit(X), "0.5, 1"),
        (lambda X, structure: path(SPCATV(1, structure=structure, smoothness=2.0), X, [0.5, 0.7]), "2"),
    ],
)
def test_a_smoothness_without_neighbours_is_warned_about(striped, fit, value):
    with pytest.warns(UserWarning, match=rf"smoothness \({value}\)") as caught:
        fit(striped[:20], None)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(striped[:20], (60,))


def test_the_default_smoothness_needs_no_neighbours(striped):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"smoothness": 1.0}, {"smoothness": 0.0}, {"alpha": 0.1}):
            SPCATV(1, **options).fit(striped)
        SPCATVCV(1, sparsity=0.7, cv=2).fit(striped[:20])
        path(SPCATV(1), striped, [0.5, 0.7])
