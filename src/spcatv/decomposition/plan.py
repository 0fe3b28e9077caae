"""Settings of a fit, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spcatv._util.parameters import Init
from spcatv._util.types import FloatArray
from spcatv.decomposition.component import Component, ComponentDiagnostics
from spcatv.decomposition.starts import DIFFUSED_DIRECTIONS, SPARE_DIRECTIONS, JointStart
from spcatv.decomposition.weights import Weights
from spcatv.solvers import Solver

T = TypeVar("T")
# Singular vectors of X, and of X diffused, that init="structured" compares.
STRUCTURED_STARTS = 3
# Where the penalty kills the leading singular vector, this many further ones are tried.
SPARE_STARTS = 2


@dataclass(frozen=True)
class Plan:
    """Settings of a fit other than data and penalties."""

    tol: float  # largest duality gap relative to the scale of each loading problem
    max_iter: int  # most alternations per component
    method: str | Solver  # loading solver
    dtype: npt.DTypeLike  # working precision of the loading solver
    init: Init | FloatArray  # where the alternation starts: a rule, loadings (K, P), or scores (K, N)
    n_init: int  # starts compared
    joint: bool  # whether all components are fitted at once
    refit: bool = False  # whether a deflation fits loadings again on their supports, without penalties
    keep_warm_start: bool = False  # whether the components keep what fits with other weights start from

    @property
    def n_starts(self) -> int:
        """Number of singular vectors of a residual that are starts, without spare ones."""
        return max(self.n_init, STRUCTURED_STARTS) if self._is_structured else self.n_init

    @property
    def n_directions(self) -> int:
        """Singular vectors of a residual that starts are taken from."""
        n_directions = self.n_starts + (2 * SPARE_DIRECTIONS if self.joint else SPARE_STARTS)
        return max(n_directions, DIFFUSED_DIRECTIONS) if self._is_structured else n_directions

    @property
    def _is_structured(self) -> bool:
        return isinstance(self.init, str) and self.init == "structured"

    def gives_loadings(self, shape: tuple[int, int]) -> bool:
        """Return whether the array given as `init` holds loadings (K, P), and not scores (K, N)."""
        return isinstance(self.init, np.ndarray) and self.init.shape[1] == shape[1]


@dataclass(frozen=True, eq=False)
class Decomposition:
    """K components of a data matrix."""

    # unit loading vectors with a deterministic sign, shape (K, P); zeros where the penalty killed one
    components: FloatArray
    # norms of the scores of a deflation, or of the patterns of a joint fit, shape (K,)
    singular_values: FloatArray
    patterns: FloatArray  # ``X'u`` for the unit scores of every component, shape (K, P)
    # C such that the training scores of a joint fit are ``X V' C``, shape (K, K); None for a deflation
    mixing: FloatArray | None
    diagnostics: tuple[ComponentDiagnostics, ...]  # those of the penalised loadings
    weights: tuple[Weights, ...]  # absolute weights of the penalties, one per component
    fitted: tuple[Component, ...]  # the components with their warm starts; empty unless the plan keeps them
    start: JointStart | None = None  # what a joint fit started from, if the plan keeps warm starts

    def in_units(self, unit: float) -> Decomposition:
        """Return the components of data that are `unit` times larger, without warm starts.

        Where the l2 of a loading problem grows with the data, the length of the loading stays. Where it is
        fixed (a wanted sparsity), the loading grows as well. Objectives are l2 times the square of that
        length, gaps are the square of it.
        """
        if unit == 1.0:
            return self
        is_fixed = [record.target_sparsity is not None for record in self.diagnostics]
        return replace(
            self,
            singular_values=unit * self.singular_values,
            patterns=unit * self.patterns,
            diagnostics=tuple(
                record.in_units(unit, grows=fixed)
                for record, fixed in zip(self.diagnostics, is_fixed, strict=True)
            ),
            weights=tuple(
                Weights(unit * own.l1, own.l2 if fixed else unit * own.l2, unit * own.tv)
                for own, fixed in zip(self.weights, is_fixed, strict=True)
            ),
            fitted=(),
            start=None,
        )


class Journal(Protocol):
    """Keeps results by their names (`spcatv.model.checkpoint.Stage`)."""

    def recall(self, name: str, make: Callable[[], T], /) -> T:
        """Return the result of that name, or else a new one, which is kept."""

    def forget(self, prefix: str, /) -> None:
        """Drop the results whose names begin so."""
