"""Consecutive folds of samples in an order that matters are warned about, with what would be right."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold

from spcatv import SPCATVCV
from spcatv.cli import main
from spcatv.selection import SampleOrderWarning
from spcatv.selection.cross_validation import make_folds, warn_of_order

QUICK = {"structure": (30,), "sparsity": 0.5, "smoothness": 1.0, "tol": 1e-3}


def sorted_people(n_samples=40, seed=0):
    """A pattern that goes with age, of people sorted by age, and a stronger one that does not."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, 30))
    X[:, :8] += 4 * rng.standard_normal((n_samples, 1))
    X[:, 15:25] += 2 * np.linspace(-1, 1, n_samples)[:, None]
    return X


def complaints(search, X, **given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, **given)
    return [str(warning.message) for warning in caught if warning.category is SampleOrderWarning]


def test_sorted_samples_are_warned_about_with_both_remedies():
    X = sorted_people()
    (said,) = complaints(SPCATVCV(2, **QUICK), X)
    assert "scores of principal component 2 differ between the 5 folds" in said
    assert "cv=KFold(5, shuffle=True, random_state=0)" in said
    assert "confirm them with cv=KFold(5)" in said
    (said,) = complaints(SPCATVCV(2, cv=4, **QUICK), X)
    assert "KFold(4)" in said


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"cv": KFold(5, shuffle=True, random_state=0)}, {}),
        ({"cv": KFold(5)}, {}),
        ({}, {"groups": np.arange(40) // 2}),
        ({}, {"confounds": np.linspace(0, 1, 40)[:, None]}),  # age is removed, and with it the order
    ],
    ids=["shuffled", "consecutive folds were meant", "groups", "the reason of the order is removed"],
)
def test_nothing_is_reported_where_it_was_meant_or_does_not_matter(options, given):
    assert complaints(SPCATVCV(2, **QUICK, **options), sorted_people(), **given) == []


def test_samples_in_a_random_order_raise_no_false_alarm():
    """Also with heavy tails and with few samples: once in a thousand times is the promise."""
    n_alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        for n_samples in (10, 23, 60):
            scores = rng.standard_t(2, (3, n_samples))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warn_of_order(scores, make_folds(5, np.zeros((n_samples, 1))))
            n_alarms += len(caught)
    assert n_alarms <= 2


def test_scores_without_variance_have_no_order():
    warn_of_order(np.zeros((2, 10)), make_folds(5, np.zeros((10, 1))))
    warn_of_order(np.zeros((0, 10)), make_folds(5, np.zeros((10, 1))))


def test_the_command_line_has_both_remedies(tmp_path, capsys):
    np.save(tmp_path / "X.npy", sorted_people())
    words = ["select", "--array", str(tmp_path / "X.npy"), "--shape", "30", "--n-components", "2"]
    words += ["--tol", "1e-3", "--sparsity", "0.5", "--smoothness", "1"]
    words += ["--n-bootstraps", "0", "--n-splits", "0"]
    remedies, folds = ([], ["--shuffle"], ["--no-shuffle"]), []
    for number, remedy in enumerate(remedies):
        output = tmp_path / f"out-{number}"
        assert main([*words, *remedy, "--output", str(output)]) == 0
        assert ("the samples are in an order that matters" in capsys.readouterr().err) == (remedy == [])
        header, values = (output / "desc-SPCATV_selection.tsv").read_text().splitlines()
        table = dict(zip(header.split("\t"), values.split("\t"), strict=True))
        folds.append([value for name, value in table.items() if name.startswith("split")])
    assert len(folds[0]) == 5
    assert folds[0] == folds[2] != folds[1], "consecutive folds twice, and shuffled ones"
