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
    """A method to fit with.

    Attributes
    ----------
    module : str
        What must be importable.
    install : str
        How to get it.
    make : callable
        ``make(case)``, run in a worker, returns the job.
    slow : bool
        Whether it needs a time limit.
    """

    name: str
    module: str
    install: str
    make: Callable[[Case], Job]
    slow: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether the module can be found."""
        return find_spec(self.module) is not None


def timed_fit(model: Any, X: np.ndarray) -> dict[str, float]:
    """Fit once: seconds, and peak memory beyond X as a multiple of X."""
    with PeakMemory() as peak:
        started = time.perf_counter()
        model.fit(X)
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "peak": peak.bytes / X.nbytes}


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
        fields = (
            "relative_gap",
            "n_alternations",
            "n_inner_iter",
            "sparsity",
            "objective",
            "converged",
        )
        answer["n_passes"] = passes_of(model)
        return answer | {field: [getattr(record, field) for record in records] for field in fields}

    return job


def _sklearn_model(name: str, options: dict[str, Any]) -> Any:
    import sklearn.decomposition

    return getattr(sklearn.decomposition, name)(N_COMPONENTS, random_state=0, **options)


def make_sklearn(case: Case, name: str, options: dict[str, Any]) -> Job:
    """A decomposition of scikit-learn with its defaults."""
    noise = np.random.default_rng(0).standard_normal((10, 30)).astype(np.float32)
    with warnings.catch_warnings(action="ignore"):
        _sklearn_model(name, options).fit(noise)
    X = np.load(case.path)

    def job() -> dict[str, Any]:
        model = _sklearn_model(name, options)
        with warnings.catch_warnings(action="ignore"):  # its defaults decide when it stops
            answer: dict[str, Any] = timed_fit(model, X)
        return answer | {"sparsity": [float((v == 0).mean()) for v in model.components_]}

    return job


def make_authors(case: Case) -> Job:
    """The authors' package on the same problem, its inner solver stopped at the same relative gap."""
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
        return answer | {"sparsity": (model.V == 0).mean(axis=0).tolist()}

    return job


def _three_axes(mask: np.ndarray) -> np.ndarray:
    """The authors' operator wants three axes."""
    return mask.reshape(mask.shape + (1,) * (3 - mask.ndim))


SKLEARN = "pip install scikit-learn"
PEERS = (
    Peer("PCA full", "sklearn", SKLEARN, partial(make_sklearn, name="PCA", options={"svd_solver": "full"})),
    Peer(
        "PCA ARPACK", "sklearn", SKLEARN, partial(make_sklearn, name="PCA", options={"svd_solver": "arpack"})
    ),
    Peer(
        "PCA randomized",
        "sklearn",
        SKLEARN,
        partial(make_sklearn, name="PCA", options={"svd_solver": "randomized"}),
    ),
    Peer("SparsePCA", "sklearn", SKLEARN, partial(make_sklearn, name="SparsePCA", options={}), slow=True),
    Peer(
        "MiniBatchSparsePCA",
        "sklearn",
        SKLEARN,
        partial(make_sklearn, name="MiniBatchSparsePCA", options={}),
        slow=True,
    ),
    Peer(
        "authors' package",
        "parsimony",
        "pip install six git+https://github.com/neurospin/pylearn-parsimony",
        make_authors,
        slow=True,
    ),
)
