"""Saving a fitted ImageSPCATV as a model folder, and loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from spcatv._util.types import Array
from spcatv.data import Adjustment
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import estimator_state, restore_estimator
from spcatv.images.confounds import ConfoundFit
from spcatv.images.dataset import Cohort, InputFile, Preparation, checked_dtype
from spcatv.images.files import is_path
from spcatv.images.preprocessing import Reading, ReadingParameters
from spcatv.images.quality import DropReport
from spcatv.images.spaces import space_named
from spcatv.model import (
    ModelError,
    SavedModel,
    checked,
    current_versions,
    file_sha256,
    pack,
    recordable,
    unpack,
)
from spcatv.model.folder import IMAGE_PACKAGES

Arrays = dict[str, Array]
MAPS = "maps"
# parameters that may be objects, which the fitted space replaces
OBJECTS = ("mask", "surface")
# parameters that SPCATV does not have, and those of them that are fields of `Reading`
OWN = tuple(item.name for item in fields(ReadingParameters))
READING = tuple(item.name for item in fields(Reading))
KEPT = tuple(name for name in OWN if name != "cache")  # a folder of one computer
FITTED_SPACE = {"type": "fitted space"}
for _kind in (InputFile, DropReport, Reading, ConfoundFit):
    recordable(_kind)


def fitted_state(model: Any, inputs: Mapping[str, Any]) -> SavedModel:
    """Describe a fitted ImageSPCATV by JSON and arrays."""
    preparation: Preparation = model.preparation_
    state = estimator_state(model.estimator_, {**_inputs(model), **inputs})
    of_images, arrays = _preparation_state(preparation)
    of_images["names"] = list(model.input_names_)
    of_images["files"] = pack(list(model.input_files_), "files")[0]
    of_images["mask_report"] = model.mask_report_
    of_images["reading_report"] = model.reading_report_
    of_images["dropped"] = pack(model.dropped_, "dropped")[0]
    own, own_arrays = _own_parameters(model)
    return SavedModel(
        kind=model._kind,
        parameters={**state.parameters, **own},
        fitted={**state.fitted, "images": of_images},
        arrays={**state.arrays, **arrays, **own_arrays},
        inputs=state.inputs,
        versions=current_versions(*IMAGE_PACKAGES),
    )


def write_maps(model: Any, folder: Path) -> None:
    """Write the loading maps of a fitted ImageSPCATV below ``maps/``."""
    maps = folder / MAPS
    maps.mkdir()
    model.space_.write(model.components_, maps, metadata=map_metadata(model))


def map_metadata(model: Any) -> dict[str, Any]:
    """Return a description of the maps for the ``.json`` file beside them."""
    return {
        "Description": "Loadings of structured sparse PCA (l1 + l2 + total variation), one map per "
        "component, each of unit norm; zero outside the mask",
        "Units": "arbitrary",
        "Mask": model.mask_report_,
        "NumberOfFeatures": int(model.n_features_in_),
        "Standardized": bool(model.standardize),
        "Reading": model.reading_report_,
        "ExplainedVarianceRatio": [float(ratio) for ratio in model.explained_variance_ratio_],
        "Penalties": {name: np.asarray(getattr(model, f"{name}_")).tolist() for name in ("l1", "l2", "tv")},
    }


def _inputs(model: Any) -> dict[str, Any]:
    """Return names and SHA-256 of the files that the model was fitted to."""
    inputs: dict[str, Any] = {
        "images": [{"name": file.name, "sha256": file.sha256} for file in model.input_files_]
    }
    for name in OBJECTS:
        files = _files(getattr(model, name))
        if files:
            inputs[name] = [{"name": str(path), "sha256": file_sha256(path)} for path in files]
    confounds = model.preparation_.confounds
    if confounds is not None:
        inputs["confounds regressed out"] = list(confounds.columns) or confounds.described()
    return inputs


def _files(value: Any) -> list[Path]:
    """Return the files that a mask or surface parameter names."""
    if isinstance(value, Mapping):
        value = list(value.values())
    items = value if isinstance(value, (list, tuple)) else [value]
    return [Path(item).expanduser() for item in items if is_path(item) and Path(item).expanduser().is_file()]


def _own_parameters(model: Any) -> tuple[dict[str, Any], Arrays]:
    packed: dict[str, Any] = {}
    arrays: Arrays = {}
    for name in KEPT:
        value = getattr(model, name)
        items = value if isinstance(value, (list, tuple)) else [value]
        if name in OBJECTS and not all(item is None or is_path(item) for item in items):
            packed[name] = FITTED_SPACE
        else:
            packed[name], of_parameter = pack(value, f"parameters.{name}")
            arrays |= of_parameter
    return packed, arrays


def _preparation_state(preparation: Preparation) -> tuple[dict[str, Any], Arrays]:
    values, arrays = preparation.space.state()
    reading, _ = pack(preparation.reading, "reading")
    confounds, of_confounds = pack(preparation.confounds, "confounds")
    state: dict[str, Any] = {
        "space": {**values, "kind": preparation.space.kind},
        "dtype": preparation.dtype,
        "standardized": preparation.scale is not None,
        "confounds": confounds,
        "reading": reading,
        "t_r": preparation.t_r,
    }
    kept = {f"space.{name}": array for name, array in arrays.items()} | of_confounds
    if preparation.scale is not None:
        kept["scale"] = preparation.scale
    return state, kept


def restore_fitted(saved: SavedModel) -> tuple[dict[str, Any], SPCATV, Cohort]:
    """Return the parameters, the SPCATV and the Cohort, without X, that `fitted_state` has described."""
    plain = {name: value for name, value in saved.parameters.items() if name not in OWN}
    estimator = restore_estimator(SPCATV, replace(saved, kind="SPCATV", parameters=plain))
    try:
        state = saved.fitted["images"]
        preparation = _read_preparation(state, saved.arrays)
        _check_sizes(preparation, int(estimator.n_features_in_))
        files = unpack(state["files"], saved.arrays)
        cohort = Cohort(
            X=None,
            preparation=preparation,
            adjustment=Adjustment(),
            names=tuple(str(name) for name in state["names"]),
            files=checked(files, tuple[InputFile, ...], "the list of files"),
            mask_report=str(state["mask_report"]),
            dropped=checked(unpack(state["dropped"], saved.arrays), DropReport, "the dropped features"),
            reading_report=str(state["reading_report"]),
        )
        parameters = {
            name: value for name, value in estimator.get_params(deep=False).items() if name != "structure"
        }
        for name in KEPT:
            given = saved.parameters[name]
            stands_in = {"mask": preparation.space.as_mask, "surface": preparation.space.as_surface}
            parameters[name] = stands_in[name]() if given == FITTED_SPACE else unpack(given, saved.arrays)
    except (KeyError, IndexError, TypeError, ValueError, HeaderDataError, WrapStructError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"the model is damaged: its images cannot be described ({error})") from error
    return parameters, estimator, cohort


def _read_preparation(state: dict[str, Any], arrays: Mapping[str, Array]) -> Preparation:
    described = state["space"]
    prefix = "space."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    confounds, reading = (unpack(state[name], arrays) for name in ("confounds", "reading"))
    return Preparation(
        space=space_named(described["kind"]).from_state(described, own),
        confounds=checked(confounds, ConfoundFit | None, "the confounds"),
        scale=arrays["scale"] if state["standardized"] else None,
        dtype=checked_dtype(state["dtype"]),
        reading=checked(reading, Reading, "the settings of reading"),
        t_r=checked(state["t_r"], float | None, "t_r of the images"),
    )


def _check_sizes(preparation: Preparation, n_features: int) -> None:
    """Check that everything with one value per feature has as many values as there are features."""
    counts = {"its mask": preparation.space.n_features}
    if preparation.scale is not None:
        counts["its scale"] = len(preparation.scale)
    if preparation.confounds is not None:
        rows, columns = np.shape(preparation.confounds.slopes)
        counts["its confounds"] = columns
        if np.shape(preparation.confounds.mean) != (rows,):
            raise ModelError(f"the model has slopes of {rows} confounds, but other means")
    for what, count in counts.items():
        if count != n_features:
            raise ModelError(f"the model has {n_features} features, but {what} has {count}")
