"""Saving a fitted XarraySPCATV as a model folder, and loading it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from sklearn.base import clone

from spcatv._util.types import Array
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import estimator_state, restore_estimator
from spcatv.model import ModelError, SavedModel, checked, current_versions, pack, unpack
from spcatv.xarray.conversion import Field

if TYPE_CHECKING:
    from spcatv.xarray.estimator import XarraySPCATV

Arrays = dict[str, Array]
OWN = ("weights", "periodic")  # parameters that SPCATV does not have
NAMES = tuple[str, ...]


def fitted_state(model: XarraySPCATV, inputs: Mapping[str, Any]) -> SavedModel:
    """Describe a fitted XarraySPCATV by JSON and arrays."""
    if getattr(model.estimator_, "adjustment_", None) is not None:
        raise ModelError("a search with standardize=True cannot be saved; divide X by X.std(dim) instead")
    state = estimator_state(model._model(), inputs)
    grid, arrays = _grid_state(model)
    parameters = dict(state.parameters)
    if getattr(model.estimator, "structure", None) is None:  # the grid was found by the fit
        parameters["structure"] = None
    weights = model.weights
    if not (weights is None or isinstance(weights, str)):
        weights = model.weights_.fillna(0.0).values
    for name, value in zip(OWN, (weights, model.periodic), strict=True):
        parameters[name], of_parameter = pack(value, f"parameters.{name}")
        arrays |= of_parameter
    return replace(
        state,
        kind=model._kind,
        parameters=parameters,
        fitted={**state.fitted, "grid": grid},
        arrays={**state.arrays, **arrays},
        versions=current_versions("xarray"),
    )


def _grid_state(model: XarraySPCATV) -> tuple[dict[str, Any], Arrays]:
    """Describe the grid with its coordinates."""
    field = model._field
    arrays: Arrays = {"grid.cells": field.cells}
    if field.weights is not None:
        arrays["grid.weights"] = field.weights
    coords = []
    for number, (name, coordinate) in enumerate(field.template.coords.items()):
        described = {"name": str(name), "dims": list(coordinate.dims), "attrs": _plain(coordinate.attrs)}
        described |= _values_state(name, coordinate.values, f"grid.coords.{number}", arrays)
        coords.append(described)
    state = {
        "dims": list(field.template.dims),
        "shape": list(field.template.shape),
        "sample_dims": list(model.sample_dims_),
        "periodic_dims": list(model.periodic_dims_),
        "name": None if field.name is None else str(field.name),
        "attrs": _plain(field.attrs),
        "coords": coords,
    }
    return state, arrays


def _values_state(name: Any, values: Array, key: str, arrays: Arrays) -> dict[str, Any]:
    """Describe the values of a coordinate: numbers and text plainly, dates and NaN by their bits."""
    if values.dtype.kind in "biu" or (values.dtype.kind == "f" and np.isfinite(values).all()):
        arrays[key] = values
        return {"array": key}
    if values.dtype.kind in "fmM":
        arrays[key] = values.view(f"i{values.dtype.itemsize}")
        return {"array": key, "dtype": values.dtype.newbyteorder("=").str}
    listed = values.tolist()
    if not all(isinstance(value, str) for value in np.ravel(np.asarray(values, dtype=object))):
        raise ModelError(
            f"the coordinate {str(name)!r} holds neither numbers, dates nor text, and cannot be saved; drop "
            f"it before the fit with X.drop_vars({str(name)!r})"
        )
    return {"text": listed}


def _plain(attributes: Any) -> dict[str, Any]:
    """Return the attributes that JSON can hold; arrays become lists."""
    kept = {}
    for name, value in attributes.items():
        value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        with suppress(TypeError, ValueError):
            json.dumps(value, allow_nan=False)
            kept[str(name)] = value
    return kept


def restore_fitted(make: type[XarraySPCATV], saved: SavedModel) -> XarraySPCATV:
    """Return the fitted model that `fitted_state` has described."""
    plain = {name: value for name, value in saved.parameters.items() if name not in OWN}
    fitted = restore_estimator(SPCATV, replace(saved, kind="SPCATV", parameters=plain))
    state, arrays = checked(saved.fitted.get("grid"), dict[str, Any], "the grid"), saved.arrays
    template = _read_template(state, arrays)
    cells = arrays["grid.cells"]
    in_order = cells.dtype.kind == "i" and cells[0] >= 0 and (np.diff(cells) > 0).all()
    if not in_order or len(cells) != fitted.n_features_in_ or cells[-1] >= template.size:
        raise ModelError("the cells of the grid do not fit the components")
    name = checked(state["name"], str | None, "the name of the data")
    attrs = checked(state["attrs"], dict[str, Any], "the attributes of the data")
    sample_dims, periodic_dims = (checked(state[key], NAMES, key) for key in ("sample_dims", "periodic_dims"))
    own = {key: unpack(saved.parameters[key], arrays) for key in OWN}
    model = make(clone(fitted), **own)
    field = Field(None, template, cells, arrays.get("grid.weights"), name, attrs, sample_dims, periodic_dims)
    return model.adopt_fit(fitted, field)


def _read_template(state: dict[str, Any], arrays: Any) -> Any:
    """Return the DataArray of zeros on the grid."""
    coords = {}
    for described in checked(state["coords"], list[Any], "the coordinates"):
        if "text" in described:
            values = np.asarray(described["text"], dtype=str)
        else:
            values = arrays[described["array"]]
            values = values.view(described["dtype"]) if "dtype" in described else values
        coords[described["name"]] = (described["dims"], values, described["attrs"])
    shape = checked(state["shape"], tuple[int, ...], "the shape of the grid")
    return xr.DataArray(np.zeros(shape), coords, checked(state["dims"], NAMES, "the dimensions"))
