"""The regions of a component as a table: where each one peaks, how large it is, what it weighs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray, IntArray
from spcatv.metrics import threshold_loadings
from spcatv.report.atlas import FeatureLabels
from spcatv.report.places import Part
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions


@dataclass(frozen=True)
class Cluster:
    """A connected region of one sign.

    Attributes
    ----------
    part : str
        Where it is: "volume", "left hemisphere", ...
    peak : tuple of float
        Coordinates of the largest loading in absolute value, in millimetres or as indices.
    peak_feature : int
        Its place among the features.
    peak_loading, mean_loading : float
        The loading there, and the mean over the region.
    size : float
        In `unit`.
    unit : str
        "mm³", "mm²", "pixels", ...
    n_features : int
        Voxels, vertices or cells.
    share : float
        Of the component's sum of squares.
    label : str
        Name at the peak by the atlas; empty without an atlas, or outside of its labels.
    composition : tuple of (str, float)
        What the region is made of by the atlas: names and shares of its size, largest first.
    selected : float or None
        How often its features are selected in resampled fits, mean over those of the region that are in
        the thresholded support, which is what "selected" means in a resampled fit, too; None if none is.
    found : float or None
        Share of resampled fits that find it again: its heaviest part, where the thresholded support
        falls apart.
    """

    part: str
    peak: tuple[float, ...]
    peak_feature: int
    peak_loading: float
    mean_loading: float
    size: float
    unit: str
    n_features: int
    share: float
    label: str = ""
    composition: tuple[tuple[str, float], ...] = ()
    selected: float | None = None
    found: float | None = None


def cluster_table(
    structure: Structure,
    loading: npt.ArrayLike,
    parts: Sequence[Part],
    labels: FeatureLabels | None = None,
    selection_frequency: npt.ArrayLike | None = None,
    found: npt.ArrayLike | None = None,
) -> tuple[Cluster, ...]:
    """The connected regions of a loading, the heaviest first.

    Parameters
    ----------
    structure : Structure
        Who is whose neighbour (`spcatv.structure.regions.connected_regions`).
    loading : array-like of shape (n_features,)
        One component.
    parts : sequence of Part
        Where the features are.
    labels : FeatureLabels, default=None
        Their anatomical names.
    selection_frequency : array-like of shape (n_features,), default=None
        How often each feature is selected in resampled fits.
    found : array-like of shape (n_features,), default=None
        How often the thresholded region of each feature is found again in them; NaN in no region.

    Returns
    -------
    tuple of Cluster
    """
    values = np.asarray(loading, dtype=np.float64)
    frequency = None if selection_frequency is None else np.asarray(selection_frequency, dtype=np.float64)
    again = None if found is None else np.asarray(found, dtype=np.float64)
    # resampled fits are compared on supports without the loadings that add next to nothing
    heavy = threshold_loadings(values) != 0
    starts = np.array([part.start for part in parts])
    total = float(np.square(values).sum())
    table = []
    for features in connected_regions(structure, values):
        part = parts[int(np.searchsorted(starts, features[0], side="right")) - 1]
        peak = int(features[np.argmax(np.abs(values[features]))])
        table.append(
            Cluster(
                part=part.name,
                peak=tuple(float(x) for x in part.coords[peak - part.start]),
                peak_feature=peak,
                peak_loading=float(values[peak]),
                mean_loading=float(values[features].mean()),
                size=float(part.measure[features - part.start].sum()),
                unit=part.unit,
                n_features=len(features),
                share=float(np.square(values[features]).sum()) / total,
                label="" if labels is None else labels.name_of(peak),
                composition=() if labels is None else labels.composition(features, part),
                selected=_mean(frequency, features[heavy[features]]),
                found=_mean(again, np.array([peak])[heavy[[peak]]]),
            )
        )
    return tuple(table)


def _mean(values: FloatArray | None, features: IntArray) -> float | None:
    if values is None or len(features) == 0:
        return None
    mean = float(values[features].mean())
    return mean if np.isfinite(mean) else None
