"""Latitudes and longitudes by the CF conventions of climate data: units, standard names, usual names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import Array
from spcatv._util.warn import warn_user

CIRCLE = 360.0  # degrees
# Largest difference between equal steps, as a share of a step: coordinates are often float32.
STEP_TOLERANCE = 1e-2
UNITS = {
    "longitude": {"degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese"},
    "latitude": {"degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"},
}
NAMES = {"longitude": {"longitude", "lon", "long"}, "latitude": {"latitude", "lat"}}


class RepeatedMeridianWarning(UserWarning):
    """Warning about longitudes that go around the globe and repeat the first one at the end.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.xarray import RepeatedMeridianWarning
    >>> warnings.filterwarnings("error", category=RepeatedMeridianWarning)
    """


@dataclass(frozen=True)
class GridAxis:
    """Axis of a grid with coordinates, for pictures and tables."""

    name: str
    labels: tuple[str, ...]  # the coordinate of every cell
    kind: str  # "latitude", "longitude", or "" for any other axis
    # 1 if coordinates rise, or depths fall, from cell to cell; -1 for the opposite; 0 for neither
    direction: int


def grid_axes(template: Any) -> tuple[GridAxis, ...]:
    """Describe the dimensions of a DataArray; a dimension without coordinates counts its cells from 0."""
    axes = []
    for name in template.dims:
        coordinate, known = template[name], name in template.coords
        values, attributes = coordinate.values, coordinate.attrs
        steps = np.diff(values) if known and values.dtype.kind in "fi" and len(values) > 1 else np.zeros(2)
        direction = int((steps > 0).all()) - int((steps < 0).all())
        axes.append(
            GridAxis(
                str(name),
                labels_of(values),
                next((kind for kind in NAMES if known and is_coordinate(kind, name, attributes)), ""),
                -direction if attributes.get("positive") == "down" else direction,
            )
        )
    return tuple(axes)


def labels_of(values: Array) -> tuple[str, ...]:
    """Return the values of a coordinate as text, dates without trailing zeros."""
    if values.dtype.kind == "M":
        return tuple(
            np.datetime_as_string(values, unit="D" if (values == values.astype("M8[D]")).all() else "s")
        )
    return tuple(f"{value:g}" if values.dtype.kind == "f" else str(value) for value in values)


def is_coordinate(kind: str, name: Any, attributes: Mapping[Any, Any]) -> bool:
    """Return whether a coordinate is a "latitude" or a "longitude", in degrees.

    Its attributes `standard_name` and `units` decide. Its name decides where it has neither.
    """
    standard_name, units = (str(attributes.get(key, "")).lower() for key in ("standard_name", "units"))
    if standard_name:
        return standard_name == kind and not units.startswith("rad")
    if units.startswith("degree") and units not in ("degree", "degrees"):
        return units in UNITS[kind]
    return str(name).lower() in NAMES[kind] and not units.startswith("rad")


def periodic_dims(template: Any, periodic: Any) -> tuple[Any, ...]:
    """Return the periodic dimensions of a DataArray: the named ones, or all longitudes ("auto")."""
    dims, coords = template.dims, template.coords
    if isinstance(periodic, str) and periodic == "auto":
        return tuple(name for name in dims if name in coords and _goes_around(name, coords[name]))
    named = (periodic,) if isinstance(periodic, str) else tuple(periodic or ())
    if not set(named) <= set(dims):
        raise ValueError(
            f"periodic must be 'auto', None, or name dimensions of the grid, {dims}; got {periodic!r}"
        )
    return named


def _goes_around(name: Any, coordinate: Any) -> bool:
    """Return whether a coordinate holds longitudes that go around the globe once, in equal steps."""
    is_longitude = is_coordinate("longitude", name, coordinate.attrs)
    if coordinate.dtype.kind not in "fiu" or not is_longitude or coordinate.size < 3:
        return False
    n, steps = coordinate.size, np.diff(coordinate.values.astype(np.float64))
    step = float(steps.mean())
    if step == 0 or not np.abs(steps - step).max() <= STEP_TOLERANCE * abs(step):
        return False
    # 1 for 0, 30, ..., 330, whose last step leads back to the first cell, and 13/12 for 0, 30, ..., 360
    circles = abs(step) * n / CIRCLE
    if abs(circles - n / (n - 1)) < STEP_TOLERANCE / n:
        warn_user(
            f"the last {name} repeats the first ({coordinate.values[[0, -1]]}): its cells count twice, and "
            f"the grid is not periodic; drop one with X.isel({name}=slice(None, -1))",
            RepeatedMeridianWarning,
        )
    return abs(circles - 1) < STEP_TOLERANCE / n


def coslat_weights(template: Any) -> Any:
    """Return ``sqrt(cos(latitude))``, whose square is proportional to the area of a cell; 0 at the poles."""
    found = [
        name
        for name, coordinate in template.coords.items()
        if coordinate.dims and is_coordinate("latitude", name, coordinate.attrs)
    ]
    if len(found) != 1:
        raise ValueError(
            f'weights="coslat" needs one coordinate of latitudes, and {found or "none"} of '
            f'{list(template.coords)} is one: set its attribute standard_name="latitude", or give an array'
        )
    latitude = template.coords[found[0]]
    if not np.nanmax(np.abs(latitude.values)) <= 90.0:
        raise ValueError(f"{found[0]!r} holds latitudes beyond 90 degrees: {latitude.values.max()}")
    weights = np.sqrt(np.cos(np.deg2rad(latitude.values.astype(np.float64))).clip(0.0))
    return latitude.copy(data=np.where(np.abs(latitude.values) >= 90.0, 0.0, weights))
