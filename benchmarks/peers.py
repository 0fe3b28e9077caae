"""Fits: this package and its peers, each as a job ``make(case, ...) -> job() -> answer``.

Peers keep their own penalties, tolerances and defaults. They solve other problems: the comparison is about
the time for three components. All of them are optional.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.machine import PeakMemory
from benchmarks.options import SETTING, TOL, weights
from benchmarks.scoring import judge_fit, passes_of

N_COMPONENTS = 3
Job = Callable[..., Any]


@dataclass(frozen=True)
class Peer:
    """Method of another package; ``make(case)``, called in a worker, returns its job."""

    name: str
    module: str
    make: Callable[[Case], Job]
    slow: bool = False

    @property
    def is_installed(self) -> bool:
        """Return whether the module can be found."""
        return find_spec(self.module) is not None


def timed_fit(model: Any, X: np.ndarray) -> dict[str, float]:
    """Fit once: seconds, processor seconds, and peak memory beyond X as a multiple of X."""
    with PeakMemory() as peak:
        started, worked = time.perf_counter(), time.process_time()
        model.fit(X)
        seconds, processor = time.perf_counter() - started, time.process_time() - worked
    return {"seconds": seconds, "processor": processor, "peak": peak.bytes / X.nbytes}


def make_spcatv(case: Case, dtype: str = "float32") -> Job:
    """``job(parameters)`` fits; ``job(parameters, judge=True)`` has an outside judge look at that fit."""
    from spcatv import SPCATV

    def model_of(structure: Any, parameters: dict[str, Any]) -> SPCATV:
        defaults = SETTING | {"alpha": case.alpha, "n_components": N_COMPONENTS, "tol": TOL}
        return SPCATV(structure=structure, **(defaults | parameters))

    # strong signals survive the penalty, and float32 cannot reach the gap, so that all kernels are loaded
    noise = 100 * np.random.default_rng(0).standard_normal((30, case.small.n_features))
    model_of(case.small, {"tol": 1e-10}).fit(noise.astype(dtype))
    X = np.load(case.path).astype(dtype, copy=False)
    fitted: dict[str, SPCATV] = {}

    def job(parameters: dict[str, Any], judge: bool = False) -> Any:
        if judge:
            return judge_fit(fitted[repr(parameters)], X)
        model = fitted[repr(parameters)] = model_of(case.structure, parameters)
        with warnings.catch_warnings(action="ignore"):  # the sparsity shows components that are zero
            answer: dict[str, Any] = timed_fit(model, X)
        records = model.diagnostics_
        return answer | {
            "n_alternations": [record.n_alternations for record in records],
            "n_inner_iter": [record.n_inner_iter for record in records],
            "gaps": [record.relative_gap for record in records],
            "zeros": [record.sparsity for record in records],
            "n_passes": passes_of(model),
        }

    return job


def _sklearn_model(name: str, options: dict[str, Any]) -> Any:
    import sklearn.decomposition

    return getattr(sklearn.decomposition, name)(N_COMPONENTS, random_state=0, **options)


def make_sklearn(case: Case, name: str, options: dict[str, Any]) -> Job:
    """Make a job of a decomposition of scikit-learn with its defaults."""
    noise = np.random.default_rng(0).standard_normal((10, 30)).astype(np.float32)
    with warnings.catch_warnings(action="ignore"):
        _sklearn_model(name, options).fit(noise)
    X = np.load(case.path)

    def job() -> dict[str, Any]:
        model = _sklearn_model(name, options)
        with warnings.catch_warnings(action="ignore"):  # its defaults decide when it stops
            answer: dict[str, Any] = timed_fit(model, X)
        return answer | {"zeros": [float((v == 0).mean()) for v in model.components_]}

    return job


def make_authors(case: Case) -> Job:
    """Make a job of the authors' package, its inner solver stopped at the same relative gap."""
    from parsimony.decomposition import PCAL1L2TV
    from parsimony.functions.nesterov.tv import linear_operator_from_mask

    X = np.load(case.path).astype(np.float64)
    X -= X.mean(axis=0)  # it does not centre
    l1, l2, tv = weights(case.alpha)
    scale = 0.5 * np.linalg.norm(X, 2) ** 2 / (len(X) * l2) ** 2
    operator = linear_operator_from_mask(_three_axes(case.mask))
    # its own search for this number fails with recent SciPy, and is not timed
    operator.singular_values = [case.structure.norm_squared()]

    def job() -> dict[str, Any]:
        model = PCAL1L2TV(l1, l2, tv, operator, N_COMPONENTS, eps=TOL, inner_eps=TOL * scale)
        with warnings.catch_warnings(action="ignore"):
            answer: dict[str, Any] = timed_fit(model, X)
        return answer | {"zeros": (model.V == 0).mean(axis=0).tolist()}

    return job


def _three_axes(mask: np.ndarray) -> np.ndarray:
    """Add axes up to the three that the authors' operator needs."""
    return mask.reshape(mask.shape + (1,) * (3 - mask.ndim))


def _sklearn_peer(title: str, name: str, *, slow: bool = False, **options: Any) -> Peer:
    return Peer(title, "sklearn", partial(make_sklearn, name=name, options=options), slow)


PEERS = (
    _sklearn_peer("PCA full", "PCA", svd_solver="full"),
    _sklearn_peer("PCA ARPACK", "PCA", svd_solver="arpack"),
    _sklearn_peer("PCA randomized", "PCA", svd_solver="randomized"),
    _sklearn_peer("SparsePCA", "SparsePCA", slow=True),
    _sklearn_peer("MiniBatchSparsePCA", "MiniBatchSparsePCA", slow=True),
    # pip install six git+https://github.com/neurospin/pylearn-parsimony
    Peer("authors' package", "parsimony", make_authors, slow=True),
)
