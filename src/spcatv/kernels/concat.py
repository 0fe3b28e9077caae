"""The kernel for feature sets side by side, each in the layout that suits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.kernels.base import ExactShares, GapShares, LoadingTerms, StepSizes, Workspace
from spcatv.structure import ConcatStructure


class ConcatWorkspace:
    """Workspaces of the parts of a `ConcatStructure`, which are independent: the operator is block diagonal.

    `make` makes the workspace of a part.
    """

    def __init__(
        self,
        structure: ConcatStructure,
        terms: LoadingTerms,
        dtype: npt.DTypeLike,
        make: Callable[[Any, LoadingTerms, npt.DTypeLike], Workspace],
    ) -> None:
        parts = structure.parts
        self._parts = [make(part, terms, dtype) for part in parts]
        self._features = np.cumsum([part.n_features for part in parts])[:-1].tolist()
        self._rows = np.cumsum([part.n_rows for part in parts])[:-1].tolist()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the state."""
        return self._parts[0].dtype

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        for part, piece in zip(self._parts, np.split(y, self._features), strict=True):
            part.set_target(piece)

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k."""
        for part in self._parts:
            part.set_weights(coupling, threshold)

    def set_state(self, v: FloatArray, dual: FloatArray) -> None:
        """Take v and a dual variable."""
        pieces = zip(self._parts, np.split(v, self._features), np.split(dual, self._rows), strict=True)
        for part, v_piece, dual_piece in pieces:
            part.set_state(v_piece, dual_piece)

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        for part in self._parts:
            part.clear()

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on every part."""
        for part in self._parts:
            part.advance(n_iter, steps)

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w: the shares of the parts add up."""
        shares = np.array([part.gap_shares() for part in self._parts])
        return GapShares(*(float(total) for total in shares.sum(axis=0)))

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the exact gap in float64."""
        shares = [part.exact_shares(use_minimizer) for part in self._parts]
        return ExactShares(
            np.concatenate([share.pull for share in shares]),
            sum(share.structured_value for share in shares),
            sum(share.structured_gap for share in shares),
            sum(share.conjugate for share in shares),
        )

    def get_v(self) -> FloatArray:
        """Return the iterate v."""
        return np.concatenate([part.get_v() for part in self._parts])

    def get_w(self) -> FloatArray:
        """Return the minimiser w of the last look."""
        return np.concatenate([part.get_w() for part in self._parts])

    def get_dual(self) -> FloatArray:
        """Return the dual variable."""
        return np.concatenate([part.get_dual() for part in self._parts])
