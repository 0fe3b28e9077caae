"""Many settings on the same data: a warm-started path.

One pass over the data serves all settings, the memory layout of the structure is made once, and every fit
starts from the loadings, the scores and the dual variables of the one before it (docs/method.md section
4.3). Each model is certified like a fit of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv.decomposition import Decomposition, Trail
from spcatv.estimator import SPCATV
from spcatv.matrix import CentredMatrix
from spcatv.parameters import check_parameters
from spcatv.structure import as_structure
from spcatv.threads import one_blas_thread

# How much longer than the last step one may still go straight on.
LONGEST_STRIDE = 2.0
WEIGHTS = ("tv_ratio", "l1_ratio", "alpha")


@dataclass(frozen=True)
class Path:
    """Models fitted along a path.

    Attributes
    ----------
    settings : tuple of dict
        ``alpha``, ``l1_ratio`` and ``tv_ratio`` of every model, in the order they were given.
    models : tuple of SPCATV
        The fitted models, in the same order.
    """

    settings: tuple[dict[str, float], ...]
    models: tuple[SPCATV, ...]


def path(estimator: SPCATV, X: Any, settings: Iterable[float | Mapping[str, float]]) -> Path:
    """Fit many settings of the weights to the same data, each from the one before.

    Parameters
    ----------
    estimator : SPCATV
        Everything but the weights; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Training data.
    settings : iterable of float or mapping
        Values of alpha, or mappings with any of ``alpha``, ``l1_ratio`` and ``tv_ratio``; what a setting
        leaves out is the estimator's. Whatever the order given, fits begin with the weakest penalty,
        which starts where PCA ends, and go on so that each is like the one before.

    Returns
    -------
    Path

    Notes
    -----
    `init` and `n_init` count for the first fit, and for components that the one before has lost. Where the
    problem has several local minima a path may follow another one than a cold fit would find.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import path
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> fitted = path(SPCATV(1, structure=(30,)), X, [0.4, 0.1])
    >>> [model.alpha for model in fitted.models]
    [0.4, 0.1]
    """
    chosen = [_complete(estimator, setting) for setting in settings]
    if not chosen:
        raise ValueError("a path needs at least one setting")
    models = [clone(estimator).set_params(**setting) for setting in chosen]
    for model in models:
        check_parameters(model)
    first = models[0]
    data = first._validated(X, reset=True, min_samples=2)
    structure = as_structure(first.structure, n_features=data.shape[1])
    fitted: list[tuple[dict[str, float], Decomposition]] = []
    with one_blas_thread():
        matrix = CentredMatrix(data, center=bool(first.center))
        for k in _order(chosen):
            _take_features(models[k], first)
            result = models[k]._fit_matrix(matrix, structure, on_path=True, trail=_trail(chosen[k], fitted))
            fitted = [*fitted[-1:], (chosen[k], result)]
    return Path(settings=tuple(chosen), models=tuple(models))


def _order(settings: Sequence[dict[str, float]]) -> list[int]:
    """An order in which neighbours are alike: up and down in alpha, from one pair of ratios to the next."""
    ratios = sorted({(setting["tv_ratio"], setting["l1_ratio"]) for setting in settings})
    order: list[int] = []
    for number, (tv_ratio, l1_ratio) in enumerate(ratios):
        members = [
            k
            for k, setting in enumerate(settings)
            if (setting["tv_ratio"], setting["l1_ratio"]) == (tv_ratio, l1_ratio)
        ]
        order += sorted(members, key=lambda k: settings[k]["alpha"], reverse=number % 2 == 1)
    return order


def _trail(
    setting: dict[str, float], fitted: Sequence[tuple[dict[str, float], Decomposition]]
) -> Trail | None:
    """Where to start from, given the last one or two settings and their results."""
    if not fitted:
        return None
    last_setting, last = fitted[-1]
    if len(fitted) == 1:
        return Trail(last)
    older_setting, older = fitted[0]
    straight = all(
        setting[name] == last_setting[name] == older_setting[name] for name in ("tv_ratio", "l1_ratio")
    )
    last_step = float(np.log(last_setting["alpha"] / older_setting["alpha"]))
    step = float(np.log(setting["alpha"] / last_setting["alpha"]))
    # a straight line through two points that are close together leads anywhere
    if not straight or step * last_step <= 0 or abs(step) > LONGEST_STRIDE * abs(last_step):
        return Trail(last)
    return Trail(last, older, step / last_step)


def _complete(estimator: SPCATV, setting: float | Mapping[str, float]) -> dict[str, float]:
    given = dict(setting) if isinstance(setting, Mapping) else {"alpha": setting}
    unknown = sorted(set(given) - set(WEIGHTS))
    if unknown:
        raise ValueError(
            f"a setting of a path may hold alpha, l1_ratio and tv_ratio, got {', '.join(map(repr, unknown))}"
        )
    return {name: given.get(name, getattr(estimator, name)) for name in WEIGHTS}


def _take_features(model: SPCATV, other: SPCATV) -> None:
    model.n_features_in_ = other.n_features_in_
    if hasattr(other, "feature_names_in_"):
        model.feature_names_in_ = other.feature_names_in_
