"""Models of earlier schema versions, brought to the current one: one function per version.

A function gets what was read from a folder, with files and arrays checked but entries not yet: it changes
what it knows and leaves the rest to the checks that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spcatv.model.folder import ModelError
from spcatv.model.records import NUMBER, read_value
from spcatv.model.schema import SCHEMA_VERSION, SavedModel


def upgrade(saved: SavedModel, version: int) -> SavedModel:
    """Bring a model of the given schema version to the current one."""
    for old in range(version, SCHEMA_VERSION):
        saved = UPGRADES[old](saved)
    return saved


def _from_1(saved: SavedModel) -> SavedModel:
    """Version 1, which had two more forms than its number tells.

    The record of a joint refinement, which is dropped, also held arrays. Confounds that are text came later,
    too: without them there are no levels.
    """
    fitted = dict(saved.fitted)
    images = fitted.get("images")
    if isinstance(images, dict) and isinstance(images.get("confounds"), dict):
        fitted["images"] = {**images, "confounds": {"levels": {}, **images["confounds"]}}
    arrays = {name: array for name, array in saved.arrays.items() if not name.startswith("refinement.")}
    return _with_weights(_alpha_as_parameter(replace(saved, fitted=fitted, arrays=arrays)))


def _with_weights(saved: SavedModel) -> SavedModel:
    """Records of components had no weights, and nothing on a wanted sparsity, which came later."""
    records = saved.fitted.get("diagnostics")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        return saved
    weights = {
        name: weight if isinstance(weight := saved.fitted.get(name), list) else [weight] * len(records)
        for name in ("l1", "tv")
    }
    unknown = {"target_sparsity": None, "smoothness": None, "jump": 0.0}
    unknown |= {"same_sign": None, "global_correlation": None}
    with_weights = [
        {**{name: values[k] for name, values in weights.items()}, **unknown, **record}
        for k, record in enumerate(records[: min(map(len, weights.values()))])
    ]
    return replace(saved, fitted={**saved.fitted, "diagnostics": with_weights})


def _alpha_as_parameter(saved: SavedModel) -> SavedModel:
    """One alpha per component was an array of its own; alpha and the weights were those of the first."""
    arrays = dict(saved.arrays)
    alphas = arrays.pop("component_alphas", None)
    if alphas is None:
        return saved
    if alphas.dtype.kind != "f" or alphas.ndim != 1 or not (alphas > 0).all():
        raise ModelError("the array 'component_alphas' must hold one positive number per component")
    first = {name: read_value(NUMBER, saved.fitted.get(name), name) for name in ("l1", "l2", "tv")}
    # all weights are proportional to alpha
    weights = {name: (weight * alphas / alphas[:1]).tolist() for name, weight in first.items()}
    return replace(
        saved,
        parameters={**saved.parameters, "alpha": alphas.tolist()},
        fitted={**saved.fitted, **weights},
        arrays=arrays,
    )


def _from_2(saved: SavedModel) -> SavedModel:
    """Passes were not counted; nothing happened to images while they were read, nor could it be asked for."""
    records = saved.fitted.get("diagnostics")
    if isinstance(records, list):
        counted = [{"n_passes": None, **record} if isinstance(record, dict) else record for record in records]
        saved = replace(saved, fitted={**saved.fitted, "diagnostics": counted})
    images = saved.fitted.get("images")
    if not isinstance(images, dict):
        return saved
    nothing: dict[str, object] = dict.fromkeys(("smoothing_fwhm", "high_pass", "low_pass", "t_r"))
    nothing |= {"resample": False, "detrend": False}
    reading = {**nothing, "standardize_runs": "none", "run_confounds": []}
    asked = {
        **nothing,
        "standardize_runs": False,
        "run_confounds": None,
        "target_affine": None,
        "memory": None,
    }
    return replace(
        saved,
        parameters={**asked, **saved.parameters},
        fitted={**saved.fitted, "images": {"reading": reading, "reading_report": "", **images}},
    )


def _from_3(saved: SavedModel) -> SavedModel:
    """All components were fitted by deflation, and perhaps refined; patterns were not kept."""
    parameters = {name: value for name, value in saved.parameters.items() if name != "refine"}
    if parameters.get("transform_method") == "deflation":
        parameters["transform_method"] = "auto"
    fitted = {name: value for name, value in saved.fitted.items() if name != "refinement"}
    return replace(saved, parameters={**parameters, "method": "deflation"}, fitted=fitted)


UPGRADES: dict[int, Callable[[SavedModel], SavedModel]] = {1: _from_1, 2: _from_2, 3: _from_3}
