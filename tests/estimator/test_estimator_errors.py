"""Bad input gets a clear error that names what is wrong and what would be right."""

import numpy as np
import pytest
import scipy.sparse as sp

from spcatv import SPCATV
from spcatv.structure import grid, groups, mesh

X = np.random.default_rng(0).standard_normal((6, 10))


def _with(value):
    bad = X.copy()
    bad[2, 3] = value
    return bad


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_components": 2.5}, "n_components must be an integer >= 1, got 2.5"),
        ({"n_components": "auto"}, "got 'auto': spcatv.selection.count_components"),
        ({"sparsity": "auto"}, "must be a number, got 'auto': spcatv.SPCATVCV, or `spca-tv select`, chooses"),
        ({"smoothness": "auto"}, "smoothness must be a number, got 'auto': spcatv.SPCATVCV"),
        ({"alpha": -1}, "alpha must not be negative, got -1"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"alpha": np.nan}, "alpha must be a finite number, got nan"),
        ({"l1_ratio": -0.1}, "l1_ratio must not be negative, got -0.1"),
        ({"tv_ratio": -0.1}, "tv_ratio must not be negative, got -0.1"),
        ({"l1_ratio": 0.5, "tv_ratio": 0.5}, r"l1_ratio \+ tv_ratio must be below 1, got 0.5 \+ 0.5 = 1"),
        (
            {"solver": "newton"},
            "unknown solver 'newton'; choose one of 'auto', 'pdhg', 'dual', 'conesta', 'fista'",
        ),
        ({"penalty": "l3"}, "unknown penalty 'l3'; choose one of 'tv', 'graphnet'"),
        ({"penalty_units": "mm"}, "unknown penalty_units 'mm'; choose one of 'relative', 'absolute'"),
        ({"init": "zeros"}, "unknown init 'zeros'; choose one of 'auto', 'svd'"),
        ({"init": np.ones((2, 10))}, r"loadings of shape \(3, 10\).*got ndarray of shape \(2, 10\)"),
        ({"init": np.full((3, 10), np.nan)}, "init holds NaN or infinite entries"),
        ({"transform_method": "x"}, "unknown transform_method 'x'; choose one of 'auto', 'projection'"),
        ({"tol": 0.0}, "tol must lie between 1e-14 and 1"),
        ({"tol": 1e-40}, "float64 has no digits"),
        ({"tol": "small"}, "tol must be a finite number, got 'small'"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"n_init": 0}, "n_init must be at least 1, got 0"),
        ({"dtype": "int32"}, "dtype must be None, float32 or float64, got 'int32'"),
        ({"dtype": "single precision"}, "dtype must be None, float32 or float64"),
        ({"refit": True}, "refit belongs to method='deflation'"),
        ({"global_signal": "mean"}, "unknown global_signal 'mean'; choose one of None, 'regress'"),
        ({"positive": "no"}, "positive must be True or False, got 'no'"),
        ({"verbose": -1}, "verbose must be 0, 1 or 2, got -1"),
        ({"structure": (3, 3)}, "the structure has 9 features but X has 10 columns"),
        ({"structure": np.zeros((2, 5), dtype=bool)}, r"the mask of shape \(2, 5\) is empty"),
        ({"structure": "grid"}, "cannot make a structure of str"),
        ({"alpha": "grid"}, "alpha must be a finite number, got 'grid'; spcatv.SPCATVCV compares several"),
        ({"smoothness": [1.0, 2.0]}, r"got \[1.0, 2.0\]; spcatv.SPCATVCV compares several"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SPCATV(**parameters).fit(X)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            _with(np.nan),
            r"Input X contains NaN: 1 of .* values, the first in sample \d+, feature \d+.*fill them",
        ),
        (_with(np.inf), "Input X contains infinity: 1 of .* leave out such"),
        (X.reshape(len(X), 2, 5), r"give X\.reshape\(len\(X\), -1\) with structure=\(2, 5\)"),
        ("X.npy", "X must be an array, got the text 'X.npy'; read the file first"),
        (X[:1], r"Found array with 1 sample\(s\) .* while a minimum of 2 is required"),
        (X[0], "Expected 2D array, got 1D array"),
        (X[:, :0], r"0 feature\(s\)"),
        (sp.csr_array(X), "Sparse data was passed.*but dense data is required"),
        (X.astype(complex), "Complex data not supported"),
        (np.ma.masked_greater(X, 1.2), "9 entries of X are masked.*fill them"),
    ],
    ids=[
        "NaN",
        "infinity",
        "a field",
        "text",
        "one sample",
        "1-D",
        "no feature",
        "sparse",
        "complex",
        "masked",
    ],
)
def test_wrong_data(data, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SPCATV(1).fit(data)


def test_wrong_structures_are_refused_when_made():
    with pytest.raises(ValueError, match="empty"):
        grid(np.zeros((3, 3), dtype=bool))
    with pytest.raises(ValueError, match="7"):
        mesh(np.zeros((4, 3)), [[0, 1, 7]])
    with pytest.raises(ValueError, match="12"):
        groups([[0, 12]], 10)


def test_wrong_shapes_after_the_fit():
    model = SPCATV(2).fit(X)
    with pytest.raises(ValueError, match="X has 9 features, but SPCATV is expecting 10 features"):
        model.transform(X[:, :9])
    with pytest.raises(ValueError, match=r"scores must have shape \(n_samples, 2\).*got \(6, 3\)"):
        model.inverse_transform(np.ones((6, 3)))
    for scores, message in (
        ([["a", "b"]], "real numbers"),
        ([[1j, 0]], "real numbers"),
        ([[0, np.nan]], "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            model.inverse_transform(scores)
