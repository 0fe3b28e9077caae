"""Huber-TV: total variation that is quadratic for small differences, so that ramps stay ramps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.problem.penalties.total_variation import UnitBallPenalty
from spcatv.structure import Structure


@dataclass(frozen=True)
class HuberTV(UnitBallPenalty):
    """``h(z) = sum_g huber(||z_g||_2)``, ``huber(t) = t^2 / (2 delta)`` up to delta, then ``t - delta/2``.

    Its conjugate is ``delta/2 ||dual||^2`` on the unit balls. With a small delta it is nearly total
    variation, with a large one nearly quadratic (docs/method.md section 3.10).

    Parameters
    ----------
    delta : float
        > 0: differences below it are smoothed, those above it may jump. In a `LoadingProblem`, and in
        `SPCATV` with `alpha`, in the unit of the operator rows. In `SPCATV` with a `sparsity`, the default,
        in units of the contrast of each component's own map, as `smoothness` is.

    Examples
    --------
    >>> from spcatv.problem import HuberTV
    >>> from spcatv.structure import grid
    >>> chain = grid(3)
    >>> HuberTV(delta=2.0).value(chain, chain.forward([0.0, 1.0, 4.0]))  # 1/4 + 2
    2.25
    """

    delta: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta) and self.delta > 0):
            raise ValueError(f"delta must be a finite number > 0, got {self.delta}")

    def in_units(self, unit: float) -> HuberTV:
        """Return the same with delta in other units."""
        return replace(self, delta=unit * self.delta)

    def value(self, structure: Structure, rows: FloatArray) -> float:
        """``sum_g huber(||z_g||_2)``."""
        norms = structure.group_norms(rows)
        inner = np.minimum(norms, self.delta)
        return float((inner * inner / (2 * self.delta) + (norms - inner)).sum())

    def conjugate(self, structure: Structure, dual: FloatArray) -> float:
        """``delta/2 ||dual||^2``."""
        return 0.5 * self.delta * float(dual @ dual)

    def dual_step(self, structure: Structure, dual: FloatArray, sigma: float) -> FloatArray:
        """Projection of ``dual / (1 + sigma delta)`` onto the unit balls."""
        return self.project(structure, dual / (1 + sigma * self.delta))

    def slope_at_zero(self, structure: Structure, rows: FloatArray) -> float:
        """0: the penalty is quadratic near zero."""
        return 0.0

    def slack(self, structure: Structure, rows: FloatArray, dual: FloatArray) -> float:
        """``delta/2 ||p - dual||^2 + (p - dual)'(z - delta p)`` for the maximiser p; both terms are >= 0."""
        best = self.project(structure, rows / self.delta)
        off = best - dual
        return 0.5 * self.delta * float(off @ off) + float(off @ (rows - self.delta * best))

    def smoothed_lipschitz(self, mu: float) -> float:
        """``1 / (mu + delta)``."""
        return 1.0 / (mu + self.delta)
