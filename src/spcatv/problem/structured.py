"""The structured term ``c h(A v)`` of a problem, whatever its loss is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.structure import Structure
from spcatv.structure.penalty import StructuredPenalty


def has_structured_term(structure: Structure, weight: float) -> bool:
    """Whether ``weight * h(A v)`` can differ from 0; if not, a loading problem has a closed form."""
    return weight > 0 and structure.norm_squared() > 0


class StructuredProblem:
    """A problem with the term ``c h(A v)``."""

    structure: Structure  # the operator A and its groups
    tv: float  # the weight c

    @property
    def structured_penalty(self) -> StructuredPenalty:
        """The function h."""
        raise TypeError(f"{type(self).__name__} must define structured_penalty")

    @property
    def has_structure(self) -> bool:
        """Whether there is a structured term."""
        return has_structured_term(self.structure, self.tv)

    def structured_value(self, v: FloatArray) -> float:
        """``c h(A v)``."""
        if not self.has_structure:
            return 0.0
        return self.tv * self.structured_penalty.value_at(self.structure, v)

    def structured_gap(self, v: FloatArray, alpha: FloatArray) -> float:
        """Dual share of the gap, ``s = c ( h(Av) + h*(alpha) - alpha'Av )``."""
        if not self.has_structure:
            return 0.0
        return self.tv * self.structured_penalty.slack(self.structure, self.structure.forward(v), alpha)

    def _checked_dual(self, alpha: npt.ArrayLike) -> FloatArray:
        """Return a dual variable as a float64 vector; compiled loops do not check its length."""
        dual = np.asarray(to_host(alpha), dtype=np.float64)
        if dual.shape != (self.structure.n_rows,):
            raise ValueError(
                f"alpha must have shape ({self.structure.n_rows},), one entry per row of the operator; got "
                f"{dual.shape}"
            )
        return dual

    def feasible(self, alpha: npt.ArrayLike) -> FloatArray:
        """Return the closest feasible dual variable, shape (n_rows,)."""
        return self.structured_penalty.project(self.structure, self._checked_dual(alpha))

    def dual_pull(self, alpha: npt.ArrayLike) -> FloatArray:
        """``c A'alpha``, how the dual variable pulls on v; shape (n_features,)."""
        if not self.has_structure:
            return np.zeros(self.structure.n_features)
        return self.tv * self.structure.adjoint(np.asarray(alpha, dtype=np.float64))

    def dual_point(self, rows: FloatArray, mu: float) -> FloatArray:
        """``alpha_mu``, the maximiser of ``alpha'z - h*(alpha) - mu/2 ||alpha||^2`` at ``z = A v``."""
        return self.structured_penalty.dual_point(self.structure, rows, mu)

    def structured_lipschitz(self, mu: float) -> float:
        """Lipschitz constant of ``v -> c A'alpha_mu(v)``, such as ``c ||A||^2 / mu``."""
        if not self.has_structure:
            return 0.0
        return self.tv * self.structure.norm_squared() * self.structured_penalty.smoothed_lipschitz(mu)

    def smoothing_constant(self) -> float:
        """M of the penalty: smoothing with mu changes h by at most ``mu M``; 0 where nothing is smoothed."""
        return self.structured_penalty.smoothing_constant(self.structure) if self.has_structure else 0.0

    def smoothing_error(self, mu: float) -> float:
        """``c mu M``: by how much F and its smoothed version may differ."""
        return self.tv * mu * self.smoothing_constant()
