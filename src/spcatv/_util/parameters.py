"""Parameters of the estimators, with their defaults and allowed values.

Estimators inherit them as fields, of which `dataclasses` makes their signatures. The command line reads them
without waiting for kernels, scikit-learn or nilearn: this module imports only the standard library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import numpy.typing as npt

Init = Literal["auto", "svd", "structured", "random"]
INITS: tuple[Init, ...] = get_args(Init)
METHODS = ("auto", "joint", "deflation")
UNITS = ("relative", "absolute")
TRANSFORMS = ("auto", "projection")
DTYPES = ("float32", "float64")
DEVICES = ("cpu", "cuda")
GLOBAL_SIGNALS = ("regress",)
REFITS = ("support",)
RULES = ("one_se", "error", "stability", "paper")
# Text such as "2 GB" or "1.5 gib": a number, a prefix, and whether it counts in powers of 1024.
SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgt])(i?))?b?\s*", re.IGNORECASE)
# Class in `spcatv.problem.penalties` of every penalty that has a name, and its words in a text.
PENALTIES = {
    "tv": ("TotalVariation", "total variation"),
    "graphnet": ("GraphNet", "squared differences of neighbours (GraphNet)"),
}
# Module in `spcatv.solvers` and function of every solver of the loading problem.
SOLVERS = {
    "pdhg": ("pdhg", "pdhg"),
    "dual": ("dual", "dual_gradient"),
    "conesta": ("nesterov", "conesta"),
    "fista": ("nesterov", "fista"),
    "closed_form": ("api", "closed_form"),
}
# Values of the parameter `solver`: the closed form solves only problems without a structured penalty.
SOLVER_NAMES = ("auto", *(name for name in SOLVERS if name != "closed_form"))
# Parameters of the two ways to set the weights: the penalised model is used if `alpha` is given.
TARGET_PARAMETERS = ("sparsity", "smoothness")
PENALISED_PARAMETERS = ("alpha", "l1_ratio", "tv_ratio", "penalty_units")


@dataclass(eq=False, repr=False)
class StructureParameter:
    """Parameter of the estimators of arrays."""

    _: KW_ONLY
    structure: Any = None


@dataclass(eq=False, repr=False)
class WeightParameters:
    """Parameters that set the weights of one model."""

    _: KW_ONLY
    sparsity: float | Sequence[float] = 0.7
    smoothness: float = 1.0
    alpha: float | Sequence[float] | None = None
    l1_ratio: float = 0.25
    tv_ratio: float = 0.5


@dataclass(eq=False, repr=False)
class ComparedWeightParameters:
    """Parameters of a comparison of weights."""

    _: KW_ONLY
    sparsity: float | Sequence[float] = (0.5, 0.7, 0.8, 0.9, 0.95)
    smoothness: float | Sequence[float] = (0.5, 1.0, 2.0)
    alpha: float | Sequence[float] | str | None = None
    l1_ratio: float | Sequence[float] = (0.1, 0.25)
    tv_ratio: float | Sequence[float] = (0.25, 0.5, 0.7)
    n_alphas: int = 8
    smallest_alpha: float = 0.02
    cv: Any = None
    rule: str | Callable[[dict[str, Any]], int] = "one_se"
    min_sparsity: float = 0.5
    n_jobs: int | None = None
    checkpoint: str | os.PathLike[str] | None = None


@dataclass(eq=False, repr=False)
class CommonParameters:
    """Parameters of all estimators."""

    n_components: int = 3
    _: KW_ONLY
    penalty_units: str = "relative"
    penalty: Any = "tv"  # spcatv.problem.Penalty
    positive: bool = False
    center: bool = True
    global_signal: str | None = None
    tol: float = 1e-6
    max_iter: int = 500
    solver: str | Callable[..., Any] = "auto"
    n_init: int = 1
    method: str = "auto"
    refit: str | None = None
    transform_method: str = "auto"
    init: str | npt.ArrayLike = "auto"
    dtype: npt.DTypeLike | None = None
    memory_limit: int | str | None = None
    device: str = "cpu"
    random_state: Any = None
    verbose: int = 0


@dataclass(eq=False, repr=False)
class FitParameters(CommonParameters, WeightParameters):
    """Parameters of a fit; in a signature, those of the last base come first."""


@dataclass(eq=False, repr=False)
class SearchParameters(CommonParameters, ComparedWeightParameters):
    """Parameters of a choice of the weights by cross-validation."""


@dataclass(frozen=True)
class ExploreDefaults:
    """Grid of the settings explorer, and how often it splits the samples into halves."""

    sparsity: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    smoothness: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    n_splits: int = 3


# Values that the default grid gets on the side where the choice lies on its edge.
FURTHER_SPARSITY = (0.1, 0.3, 0.98)

FIT = FitParameters()
SEARCH = SearchParameters()
EXPLORE = ExploreDefaults()
