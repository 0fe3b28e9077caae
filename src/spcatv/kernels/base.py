"""What a kernel is: the state of the primal-dual iteration in a memory layout of its own.

A `Workspace` holds v, the dual variable and y as arrays laid out for one kind of structure, and
does two things to them: primal-dual iterations and the shares of the exact gap (docs/method.md
sections 3.3 and 3.6). Everything that decides (step sizes, stopping) stays in the solver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray, IntArray
from spcatv.kernels.compiled import kernel
from spcatv.structure import Structure


def no_lower_bound(dtype: np.dtype[Any]) -> float:
    """A lower clip bound below all entries: it makes soft thresholding one-sided, for loadings >= 0."""
    return -0.25 * float(np.finfo(dtype).max)


# How the dual variable is kept in its set: group by group, entry by entry, or by damping alone.
ISOTROPIC, ANISOTROPIC, GRAPHNET = 0, 1, 2

# Below this share of active chunks or blocks an iteration leaves the others out.
WORTH_LEAVING_OUT = 0.8


class Setting(NamedTuple):
    """The weights of a loading problem: ``c`` (tv), ``k`` (l1), and its two variants."""

    tv: float
    l1: float
    positive: bool
    graphnet: bool


def kind_of_dual(setting: Setting, isotropic: bool) -> int:
    """How the dual variable of a setting is kept in its set."""
    if setting.graphnet:
        return GRAPHNET
    return ISOTROPIC if isotropic else ANISOTROPIC


class Steps(NamedTuple):
    """Primal step tau, dual step sigma, relaxation rho of the primal-dual iteration."""

    tau: float
    sigma: float
    rho: float


class GapShares(NamedTuple):
    """Pieces of the exact gap for the two candidates: the iterate v and the minimiser w of its dual.

    ``gap(v) = structured_v + smooth_v``; ``gap(w) = structured_w``; ``dual = scale - w_squared - penalty``
    where ``penalty`` is zero but for GraphNet.
    """

    structured_v: float
    smooth_v: float
    structured_w: float
    w_squared: float
    dual_penalty: float

    @property
    def gap_v(self) -> float:
        """Exact gap of the iterate v."""
        return self.structured_v + self.smooth_v

    @property
    def gap_w(self) -> float:
        """Exact gap of the minimiser w of the dual point."""
        return self.structured_w


class ExactShares(NamedTuple):
    """What the exact gap of a candidate needs, in float64, whatever the precision of the state.

    Attributes
    ----------
    pull : ndarray of shape (n_features,)
        ``c A'alpha``.
    structured_value : float
        ``c h(Ax)``.
    structured_gap : float
        ``c ( h(Ax) + h*(alpha) - alpha'Ax )``.
    conjugate : float
        ``c h*(alpha)``: zero but for GraphNet.
    """

    pull: FloatArray
    structured_value: float
    structured_gap: float
    conjugate: float


def conjugate(tv: float, graphnet: bool, alpha: FloatArray) -> float:
    """``c h*(alpha)`` of a feasible alpha in any layout: ``c/4 ||alpha||^2`` for GraphNet, else 0."""
    return 0.25 * tv * float(np.square(alpha, dtype=np.float64).sum()) if graphnet else 0.0


def feasible_factor(dtype: np.dtype[Any]) -> float:
    """How far below 1 a group's norm must aim to be at most 1 after rounding to `dtype`."""
    return 1.0 - 4.0 * float(np.finfo(dtype).eps)


@kernel
def _pick(source: Any, index: Any, out: Any) -> None:
    for j in range(len(index)):
        out[j] = source[index[j]]


@kernel
def put(source: Any, index: Any, out: Any) -> None:
    """``out[index] = source`` in the precision of `out`."""
    for j in range(len(index)):
        out[index[j]] = source[j]


def picked(source: FloatArray, index: IntArray, dtype: npt.DTypeLike = np.float64) -> FloatArray:
    """``source[index]`` in another precision, without a copy in between."""
    out = np.empty(len(index), dtype=dtype)
    _pick(source, index, out)
    return out


Layout = TypeVar("Layout")


def remembered(structure: Structure, make: Callable[[Any], Layout]) -> Layout:
    """``make(structure)``, made once: a structure never changes, and neither does its memory layout."""
    name = f"_layout_{make.__name__}"
    if name not in structure.__dict__:
        structure.__dict__[name] = make(structure)
    layout: Layout = structure.__dict__[name]
    return layout


class Workspace(Protocol):
    """State and moves of the primal-dual iteration for one structure, one dtype, one setting."""

    def set_target(self, y: FloatArray) -> None:
        """Take a new y (shape (n_features,)); v and the dual variable stay."""

    def set_state(self, v: FloatArray, alpha: FloatArray) -> None:
        """Take v (n_features,) and a feasible dual variable (n_rows,)."""

    def clear(self) -> None:
        """Set v and the dual variable to zero."""

    def advance(self, n_iter: int, steps: Steps) -> None:
        """Do `n_iter` primal-dual iterations."""

    def gap_shares(self) -> GapShares:
        """Look at the gap of v and of w for the dual variable as it is (it must be feasible)."""

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """The shares of the last look's w (or of v) in float64, after the dual variable is made feasible.

        Groups of the dual variable that rounding has left outside of their balls are pulled back, so
        that `get_alpha` gives a variable that is feasible to the last digit.
        """

    def get_v(self) -> FloatArray:
        """The iterate v, shape (n_features,), as float64."""

    def get_w(self) -> FloatArray:
        """The minimiser w of the last look at the gap, shape (n_features,), as float64."""

    def get_alpha(self) -> FloatArray:
        """The dual variable in the order of ``structure.matrix``, shape (n_rows,), in the working dtype."""
