"""Base class of the map viewers, and the packing of arrays for the browser."""

from __future__ import annotations

import base64
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, FloatArray
from spcatv.report.figures import DIVERGING, new_figure, shared_top

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

# inches
PANEL_WIDTH = 2.3
IMAGE_WIDTH = 4.4


@dataclass(frozen=True)
class ViewFrame:
    """Description of a view for the template of the page."""

    kind: str
    name: str
    caption: str
    planes: tuple[str, ...] = ()  # names of the directions of slices
    # the edges of each slice, left and right
    ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    presets: tuple[str, ...] = ()  # names of the directions from which a surface can be seen
    shapes: tuple[str, ...] = ()  # names of the shapes in which a surface can be seen


class View(ABC):
    """Picture of features in their places.

    `kind` names it for the script and the style sheet of the page. In a figure, `n_panels` panels side by
    side, each of width over height `aspect`, show one component.
    """

    kind: ClassVar[str]
    aspect: float = 1.15

    @property
    @abstractmethod
    def n_panels(self) -> int:
        """Number of panels for one component."""

    @abstractmethod
    def payload(self) -> dict[str, Any]:
        """Return the data from which the script of the page draws."""

    @abstractmethod
    def frame(self) -> ViewFrame:
        """Return the description of the view for the page."""

    @abstractmethod
    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw a loading of shape (P,) into `n_panels` panels."""

    def shown(self, loading: FloatArray) -> FloatArray:
        """Return the entries of a loading that the view shows."""
        return loading

    def top(self, loadings: FloatArray) -> float:
        """Return the end of a scale for loadings of shape (n, P)."""
        return shared_top(loadings)

    def figure(self, views: Sequence[View], loadings: FloatArray, numbers: Sequence[int]) -> Figure:
        """Draw components with one colour scale: one row each, or several per row if each is one panel."""
        per_component = sum(view.n_panels for view in views)
        alone = per_component == 1
        side_by_side = max(1, round(len(numbers) ** 0.5)) if alone else 1
        n_rows, n_columns = -(-len(numbers) // side_by_side), per_component * side_by_side
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        width = min(10.0, (IMAGE_WIDTH if alone else PANEL_WIDTH) * n_columns + 0.6)
        side = (width - 0.6) / n_columns if alone else PANEL_WIDTH
        top = self.top(loadings[list(numbers)])
        norm = Normalize(-top, top)
        with new_figure(width, (side / self.aspect + 0.25) * n_rows + 0.7) as figure:
            grid = figure.subplots(n_rows, n_columns, squeeze=False)
            for axes in grid.flat:
                axes.set_axis_off()
            for own, k in zip(grid.reshape(-1, per_component), numbers, strict=False):
                panels = iter(own)
                for view in views:
                    view.draw([next(panels) for _ in range(view.n_panels)], loadings[k], norm)
                name = f"component {k + 1}"
                if alone:
                    own[0].set_title(name)
                else:  # beside the first panel
                    place: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 10}
                    own[0].text(-0.04, 0.5, name, transform=own[0].transAxes, **place)
            shape: dict[str, Any] = {"orientation": "horizontal", "shrink": 0.5, "aspect": 30, "pad": 0.02}
            bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=list(grid.flat), extend="both", **shape)
            bar.set_label("loading (zero is not coloured)")
        return figure


def packed(array: Array) -> str:
    """Compress the bytes of an array (little-endian, C order) with zlib, and encode them in base64."""
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(plain.tobytes(), 9)).decode("ascii")


def packed_steps(array: Array) -> str:
    """Pack integers as differences from one to the next, which compress far better for long runs."""
    values = np.ascontiguousarray(array, dtype=np.int32).ravel()
    return packed(np.diff(values, prepend=np.int32(0)).astype(np.int32))


def packed_map(values: npt.ArrayLike, bits: int = 16) -> dict[str, Any]:
    """Pack a map as 16-bit or 8-bit multiples of a step; zeros stay zero, and nothing else becomes zero.

    Values above half a step are off by at most half a step.
    """
    kind = np.dtype(f"i{bits // 8}")
    exact = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(exact).max(initial=0.0))
    step = largest / np.iinfo(kind).max if largest > 0 else 1.0
    whole = np.round(exact / step)
    whole = np.where((whole == 0) & (exact != 0), np.sign(exact), whole)
    return {"step": step, "bits": bits, "values": packed(whole.astype(kind))}
