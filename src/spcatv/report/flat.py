"""Fields of one and two dimensions, and features without a place, as they are shown: images and lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import IntArray
from spcatv.report.packing import packed_steps
from spcatv.structure import GridStructure


@dataclass(frozen=True, eq=False)
class ImageView:
    """A field of rows and columns.

    Attributes
    ----------
    index : ndarray of int, of shape (n_rows, n_columns)
        Number of the feature at a cell, counted from 1; 0 outside of the mask.
    """

    index: IntArray

    kind = "image"

    def payload(self) -> dict[str, Any]:
        """For the browser."""
        return {"kind": self.kind, "shape": list(self.index.shape), "index": packed_steps(self.index)}


@dataclass(frozen=True, eq=False)
class LineView:
    """Features along a line.

    Attributes
    ----------
    positions : ndarray of int, of shape (P,)
        Where each feature is.
    joined : bool
        Whether neighbours on the line are neighbours in the model.
    axis : str
        What the line is.
    names : tuple of str
        Of the features, where they have some.
    """

    positions: IntArray
    joined: bool
    axis: str
    names: tuple[str, ...] = ()

    kind = "line"

    def payload(self) -> dict[str, Any]:
        """For the browser."""
        return {
            "kind": self.kind,
            "positions": packed_steps(self.positions),
            "joined": self.joined,
            "axis": self.axis,
            "names": list(self.names),
        }


def flat_view(model: Any) -> ImageView | LineView:
    """The view of a model of a field that is neither a brain nor three-dimensional."""
    structure = model.structure_
    names = tuple(str(name) for name in getattr(model, "feature_names_in_", ()))
    if isinstance(structure, GridStructure):
        if structure.labels.ndim == 2:
            return ImageView(structure.feature_index() + 1)
        if structure.labels.ndim == 1:
            return LineView(np.flatnonzero(structure.labels), joined=True, axis="point", names=names)
    return LineView(np.arange(structure.n_features), joined=False, axis="feature", names=names)
