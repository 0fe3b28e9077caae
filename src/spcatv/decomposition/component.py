"""One component: its loading vector and scores, what is known about it, and the form that users see."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import CentredData
from spcatv.decomposition.weights import LoadingPenalty, Request, SparsityTarget, Weights
from spcatv.kernels.vectors import counts

# A component is global from these shares and correlations on (docs/method.md section 1.4).
GLOBAL_SHARE = 0.85
GLOBAL_CORRELATION = 0.8


@dataclass(frozen=True, eq=False)
class Component:
    """Loading vector and scores, each the best for the other, with the certified gap."""

    v: FloatArray  # loading vector as the problem gives it, shape (P,): l2 sets its length
    u: FloatArray  # ``Xv / ||Xv||``, shape (N,); zeros if v is zero
    converged: bool  # whether ``gap <= tol * scale``
    # absolute weights of the penalties
    weights: Weights = field(default_factory=lambda: Weights(0.0, 0.0, 0.0))
    scores_norm: float = 0.0  # ``||Xv||``
    objective: float = 0.0  # penalised objective ``f(u, v)``
    # exact duality gap of v, or of the smoothed map behind it, for u, in units of F (``f / l2``)
    gap: float = 0.0
    # what the gap is relative to: ``1/2 ||y||^2`` for u, or less for maps of little contrast (section 7.4)
    scale: float = 0.0
    objectives: tuple[float, ...] = ()  # after every alternation
    inexactness: tuple[float, ...] = ()  # certified gap of the v-step of every alternation, in units of f
    n_inner_iter: int = 0  # iterations of the loading solver, all alternations together
    n_passes: int = 0  # passes over the data
    # ``X_0'u`` for the data X_0 before deflation, shape (P,); empty if v is zero
    back: FloatArray = field(default_factory=lambda: np.zeros(0))
    # warm start: feasible dual variable of the last v-step, shape (n_rows,); empty unless the plan keeps it
    dual: FloatArray = field(default_factory=lambda: np.zeros(0))
    first_loss: float = 0.0  # warm start: growth of the relative gap of the first v-step with its new scores
    target_sparsity: float | None = None  # wanted sparsity; None for given weights
    smoothness: float | None = None  # smoothness used for a wanted sparsity
    jump: float = 0.0  # share of the features that enter or leave a loading of a wanted sparsity at once

    @cached_property
    def is_empty(self) -> bool:
        """Return whether the loading vector is zero."""
        return not bool(self.v.any())

    @property
    def n_alternations(self) -> int:
        """Alternations done."""
        return len(self.objectives)


def empty_component(shape: tuple[int, int], request: Request | None = None) -> Component:
    """Return the component of N x P data that have nothing left to explain."""
    n_samples, n_features = shape
    component = Component(v=np.zeros(n_features), u=np.zeros(n_samples), converged=True)
    if isinstance(request, LoadingPenalty):
        return replace(component, weights=request.weights)
    if isinstance(request, SparsityTarget):
        return replace(component, target_sparsity=request.sparsity, smoothness=request.smoothness)
    return component


@dataclass(frozen=True)
class ComponentDiagnostics:
    """Diagnostics of one fitted component.

    Attributes
    ----------
    objective : float
        Penalised objective ``f(u, v)`` (docs/method.md section 1.2).
    gap, relative_gap : float
        Exact duality gap for its scores of the loading vector, or of the smoothed map that it is the
        threshold of (docs/method.md section 7.3), and its share of the scale.
    error_bound : float
        Upper bound on the distance of the unit loading vector to the exact one for its scores, `l1` and `tv`.
    n_alternations, n_inner_iter : int
        Alternations of u and v; iterations of the loading solver in all of them.
    seconds : float
        Wall-clock time.
    converged : bool
        Whether the relative gap is within the tolerance.
    sparsity : float
        Share of the loadings that are exactly zero.
    n_nonzero, n_certain : int
        Loadings that are not zero, and those that are surely not zero in the exact solution for
        these scores and weights (``|v_j| > sqrt(gap)``).
    objectives, inexactness : tuple of float
        Objective after every alternation, and the certified inexactness of its loading vector.
    l1, tv : float
        Absolute weights of the l1 norm and of the structured penalty.
    target_sparsity : float or None
        The wanted share of zeros; None in the penalised model.
    smoothness : float or None
        The smoothness used, lower than the wanted one where that would make the share of zeros jump too
        far; None in the penalised model.
    jump : float
        Share of the features that enter or leave the loading at once at the weight found; 0 if none do.
    same_sign : float
        Share of the features whose covariance with the scores has the more frequent sign; 0 for a component
        that is zero.
    global_correlation : float
        Absolute correlation of the scores with the mean over features of each sample.
    n_passes : int
        Passes over the data that the alternation took.
    """

    objective: float
    gap: float
    relative_gap: float
    error_bound: float
    n_alternations: int
    n_inner_iter: int
    seconds: float
    converged: bool
    sparsity: float
    n_nonzero: int
    n_certain: int
    objectives: tuple[float, ...]
    inexactness: tuple[float, ...]
    l1: float
    tv: float
    target_sparsity: float | None = None
    smoothness: float | None = None
    jump: float = 0.0
    same_sign: float = 0.0
    global_correlation: float = 0.0
    n_passes: int = 0

    def __str__(self) -> str:
        if self.is_empty:
            return f"is empty: its loading is zero, {self.seconds:.2f} s"
        return (
            f"{'converged' if self.converged else 'NOT converged'}: objective {self.objective:.8g}, "
            f"relative gap {self.relative_gap:.2e}, {self.n_alternations} alternations, "
            f"{100 * self.sparsity:.1f} % zeros, {self.seconds:.2f} s"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def in_units(self, unit: float, *, grows: bool) -> ComponentDiagnostics:
        """Return the same for data that are `unit` times larger; `grows` if the loading grows with them."""
        factor = unit**2 if grows else unit
        return replace(
            self,
            objective=factor * self.objective,
            gap=self.gap * (unit**2 if grows else 1.0),
            objectives=tuple(factor * value for value in self.objectives),
            inexactness=tuple(factor * value for value in self.inexactness),
            l1=unit * self.l1,
            tv=unit * self.tv,
        )

    @property
    def is_empty(self) -> bool:
        """Return whether the loading is zero: no variance was left, or the penalty leaves nothing.

        An empty component is neither converged nor sparse, whatever its other figures say.
        """
        return self.n_nonzero == 0

    @property
    def is_global(self) -> bool:
        """Return whether nearly all features vary with the scores, and the scores follow the sample means."""
        return self.same_sign >= GLOBAL_SHARE and self.global_correlation >= GLOBAL_CORRELATION

    def global_remark(self, number: int) -> str:
        """Say that component `number` is global, and what can be done about it; empty if it is not."""
        if not self.is_global:
            return ""
        return (
            f"Component {number} is global: {100 * self.same_sign:.0f} % of the features vary with "
            "it in the same direction, and its scores follow the mean of each sample "
            f"(r = {self.global_correlation:.2f}). "
            'global_signal="regress" removes this mean.'
        )


def diagnose(
    component: Component,
    seconds: float,
    data: CentredData,
    loading: FloatArray,
    scores: FloatArray,
    pattern: FloatArray,
) -> ComponentDiagnostics:
    """Describe a component.

    `data` are those before deflation. The unit `loading` (P,), the `scores` (N,) and their `pattern`
    ``X'u`` (P,) are those that users see; objective and certificate are those of the penalised problem.
    """
    n_features = component.v.size
    distance = float(np.sqrt(component.gap))
    n_certain = component.v.size - counts(component.v, distance)[0]
    n_nonzero = n_features - counts(loading, 0.0)[0]
    length = float(np.linalg.norm(component.v))
    same = {name.name for name in fields(Component)} & {name.name for name in fields(ComponentDiagnostics)}
    return ComponentDiagnostics(
        **{name: getattr(component, name) for name in same},
        relative_gap=component.gap / component.scale if component.scale > 0 else 0.0,
        error_bound=_unit_distance(distance, length),
        n_alternations=component.n_alternations,
        seconds=seconds,
        sparsity=1.0 - n_nonzero / n_features,
        n_nonzero=n_nonzero,
        n_certain=n_certain,
        l1=component.weights.l1,
        tv=component.weights.tv,
        same_sign=max(float(np.mean(pattern > 0)), float(np.mean(pattern < 0))),
        global_correlation=_correlation(scores, data.global_signal),
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    """Return absolute correlation; 0 if one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return min(abs(float(a @ b)) / lengths, 1.0) if lengths > 0 else 0.0


def _unit_distance(distance: float, length: float) -> float:
    """Return a bound on the distance of unit vectors, given the length and distance of the vectors."""
    if length == 0:
        return 0.0
    # the angle between the two is largest for a tangent
    return 2.0 * float(np.sin(0.5 * np.arcsin(distance / length))) if distance < length else 2.0


def unit_loading(v: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Scale v to unit norm, the first entry of largest magnitude positive; zeros stay zeros."""
    length = float(np.linalg.norm(v)) or 1.0
    top, bottom = int(v.argmax()), int(v.argmin())
    rises = (float(v[top]), -top) >= (-float(v[bottom]), -bottom)
    unit = np.divide(v, length if rises else -length, out=out)
    return np.add(unit, 0.0, out=unit)  # -0 becomes 0
