"""Defaults and allowed values of the parameters of the estimators.

Signatures, checks and the command line read them here. This module imports only the standard library, so that
`spca-tv --help` does not wait for kernels, scikit-learn or nilearn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

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
# Class in `spcatv.problem.penalties` of every penalty that has a name.
PENALTIES = {"tv": "TotalVariation", "graphnet": "GraphNet"}
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


@dataclass(frozen=True)
class FitDefaults:
    """Defaults of `spcatv.SPCATV`."""

    n_components: int = 3
    sparsity: float = 0.7
    smoothness: float = 1.0
    alpha: float | None = None
    l1_ratio: float = 0.25
    tv_ratio: float = 0.5
    penalty_units: str = "relative"
    penalty: str = "tv"
    positive: bool = False
    center: bool = True
    global_signal: str | None = None
    tol: float = 1e-6
    max_iter: int = 500
    solver: str = "auto"
    n_init: int = 1
    method: str = "auto"
    refit: str | None = None
    transform_method: str = "auto"
    init: str = "auto"


@dataclass(frozen=True)
class SearchDefaults:
    """Defaults of `spcatv.SPCATVCV` that differ from those of `spcatv.SPCATV`."""

    sparsity: tuple[float, ...] = (0.5, 0.7, 0.8, 0.9, 0.95)
    smoothness: tuple[float, ...] = (0.5, 1.0, 2.0)
    l1_ratio: tuple[float, ...] = (0.1, 0.25)
    tv_ratio: tuple[float, ...] = (0.25, 0.5, 0.7)
    n_alphas: int = 8
    smallest_alpha: float = 0.02
    rule: str = "one_se"
    min_sparsity: float = 0.5


FIT = FitDefaults()
SEARCH = SearchDefaults()
