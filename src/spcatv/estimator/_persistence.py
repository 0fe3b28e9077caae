"""Model folders of fitted estimators: methods of all that have them, and SPCATV as a `SavedModel`."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spcatv._util.types import Array
from spcatv._util.warn import warn_user
from spcatv.decomposition import ComponentDiagnostics
from spcatv.estimator._validation import check_parameters
from spcatv.estimator.verdicts import Reproducibility
from spcatv.model import (
    ModelError,
    SavedModel,
    checked,
    pack,
    read_model,
    recordable,
    unpack,
    write_model,
)
from spcatv.problem.penalties import PENALTY_CLASSES
from spcatv.structure import Structure

Arrays = dict[str, Array]
Estimator = TypeVar("Estimator")
recordable(ComponentDiagnostics)

# Fitted attributes that are numbers, without the underscore at the end, and their types.
NUMBERS: dict[str, Any] = {
    **dict.fromkeys(("l1", "l2", "tv"), float | tuple[float, ...]),
    **dict.fromkeys(("n_iter", "n_features_in"), int),
}
# Fitted attributes that are lists of records or names.
RECORDS: dict[str, Any] = {
    "diagnostics": tuple[ComponentDiagnostics, ...],
    "reproducibility": tuple[Reproducibility, ...],
    "feature_names_in": tuple[str, ...],
}
# Fitted attributes that are arrays of floating point numbers, with their shapes: K components, P features.
ARRAYS: Mapping[str, str] = {
    "components": "KP",
    "patterns": "KP",
    "mean": "P",
    "singular_values": "K",
    "explained_variance": "K",
    "explained_variance_ratio": "K",
    "global_loading": "P",
    "mixing": "KK",
}
# Fitted attributes that some models do not have.
OPTIONAL = ("reproducibility", "feature_names_in", "global_loading", "mixing")
# Parameters that depend on the computer, and are not saved.
NOT_SAVED = ("device",)
# Parameter `structure` if it is the structure of the fit, which is not written twice.
FITTED_STRUCTURE = {"type": "fitted structure"}
# Defaults that replace functions and objects of users' classes, which a folder cannot keep.
REPLACEMENTS = {"solver": "auto", "penalty": "tv", "random_state": None}


class ModelFolderMixin:
    """Methods of estimators that can be saved as a model folder."""

    _kind: ClassVar[str]  # of the model folder

    def save(self, folder: str | os.PathLike[str], *, inputs: Mapping[str, Any] | None = None) -> Path:
        """Write the fitted model as a folder of JSON and arrays (docs/model-folder.md).

        Parameters
        ----------
        folder : path
            A folder that does not exist, is empty, or holds another model, which is replaced; a crash leaves
            the old one or the new one.
        inputs : mapping, default=None
            Description of the data of the fit, to be stored with the model: anything that JSON can hold,
            such as ``{"X": {"name": "X.npy", "sha256": spcatv.model.file_sha256("X.npy")}}``.

        Returns
        -------
        Path
            `folder`. The model of images has its loading maps in ``maps/``.
        """
        check_is_fitted(self, "components_")
        return write_model(folder, self._saved(inputs or {}), extras=self._write_extras)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a model that `save` has written. Everything is checked, and nothing in it is executed.

        Parameters
        ----------
        folder : path
            A model folder.

        Returns
        -------
        Self
            Fitted, with the same scores and reconstructions. A `solver` that was a function comes back as
            "auto", a `structure` that was one as the structure that it made, a mask or surface in memory as
            that of the fit, and a search as the model that it has chosen.
        """
        return cls.restore(read_model(folder, kind=cls._kind))

    @classmethod
    def restore(cls, saved: SavedModel) -> Self:
        """Return the fitted model that a model folder describes, as `load` does.

        Parameters
        ----------
        saved : SavedModel
            Contents of a model folder (`spcatv.model.read_model`).

        Returns
        -------
        Self
            Fitted.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.model import read_model
        >>> folder = SPCATV(1).fit([[1.0, 2.0, 0.0], [3.0, 5.0, 1.0], [2.0, 1.0, 7.0]]).save("model")
        >>> SPCATV.restore(read_model(folder)).components_.shape
        (1, 3)
        """
        with saved.naming_source():
            return cls._restored(saved)

    @abstractmethod
    def _saved(self, inputs: Mapping[str, Any]) -> SavedModel:
        """Describe the fitted model by JSON and arrays."""

    @classmethod
    @abstractmethod
    def _restored(cls, saved: SavedModel) -> Self:
        """Return the fitted model that `_saved` has described."""

    def _write_extras(self, folder: Path) -> None:
        """Write further files into a new model folder."""


def estimator_state(estimator: Any, inputs: Mapping[str, Any]) -> SavedModel:
    """Describe a fitted SPCATV by JSON and arrays; `inputs` describe what it was fitted to.

    Instead of a function given as `structure`, the result holds the structure that the function made. A
    function given as `solver`, a penalty of a class of your own and a RandomState cannot be kept: the
    defaults replace them, with a warning.
    """
    check_parameters(estimator)
    found: dict[str, Any] = {name: getattr(estimator, f"{name}_", None) for name in (*ARRAYS, *RECORDS)}
    arrays: Arrays = {name: np.asarray(found[name]) for name in ARRAYS if found[name] is not None}
    structure, of_structure = pack(estimator.structure_, "structure")
    fitted: dict[str, Any] = {
        **{name: np.asarray(getattr(estimator, f"{name}_")).tolist() for name in NUMBERS},
        **{name: pack(list(found[name]), name)[0] for name in RECORDS if found[name] is not None},
        "structure": structure,
    }
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name not in NOT_SAVED:
            parameters[name], of_parameter = _pack_parameter(name, value, estimator.structure_)
            arrays |= of_parameter
    described = {"type": structure["type"], "sha256": _arrays_sha256(of_structure)}
    return SavedModel(
        kind="SPCATV",
        parameters=parameters,
        fitted=fitted,
        arrays=arrays | of_structure,
        inputs={"structure": described, **inputs},
    )


def restore_estimator(make: Callable[..., Estimator], saved: SavedModel) -> Estimator:
    """Make the fitted estimator that `estimator_state` has described, with the same numbers to the last bit.

    `make` is SPCATV or a subclass with the same parameters; the type and shape of every entry are checked.
    """
    structure = checked(unpack(saved.fitted.get("structure"), saved.arrays), Structure, "the structure")
    given = {
        name: structure if packed == FITTED_STRUCTURE else _unpack_parameter(packed, saved.arrays)
        for name, packed in saved.parameters.items()
    }
    try:
        estimator = make(**given)
        check_parameters(estimator)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the parameters of the model are not valid: {error}") from error
    for name, value in _read_fitted(saved, structure).items():
        setattr(estimator, f"{name}_", value)
    if (given.get("global_signal") is None) != ("global_loading" not in saved.arrays):
        raise ModelError("a model has an array 'global_loading' if, and only if, global_signal is set")
    return estimator


def _read_fitted(saved: SavedModel, structure: Structure) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, all checked."""
    found: dict[str, Any] = {"structure": structure, "reproducibility": None}
    for name, hint in {**NUMBERS, **RECORDS}.items():
        if name not in OPTIONAL or name in saved.fitted:
            found[name] = checked(unpack(saved.fitted.get(name), saved.arrays), hint, name)
    lengths = {"K": len(found["diagnostics"]), "P": found["n_features_in"]}
    for name in ("l1", "l2", "tv"):
        if isinstance(found[name], tuple):
            found[name] = np.asarray(found[name])
        if np.shape(found[name]) not in ((), (lengths["K"],)):
            raise ModelError(f"{name} of the model must be one number, or one number per component")
    for name, letters in ARRAYS.items():
        found[name] = array = saved.arrays.get(name)
        if array is None and name in OPTIONAL:
            continue
        if array is None or array.dtype.kind != "f":
            raise ModelError(f"the model has no array {name!r} of floating point numbers")
        expected = tuple(lengths[letter] for letter in letters)
        if array.shape != expected:
            raise ModelError(f"the array {name!r} has the shape {array.shape}, not {expected}")
    counts = {"its structure": structure.n_features}
    if "feature_names_in" in found:
        found["feature_names_in"] = np.asarray(found["feature_names_in"], dtype=object)
        counts["its list of names"] = len(found["feature_names_in"])
    for what, count in counts.items():
        if count != lengths["P"]:
            raise ModelError(f"the model has {lengths['P']} features, but {what} has {count}")
    return found


def _pack_parameter(name: str, value: Any, structure: Structure) -> tuple[Any, Arrays]:
    is_function = callable(value) and not isinstance(value, (Structure, type))
    if name == "structure" and (value is structure or is_function):
        return FITTED_STRUCTURE, {}
    is_own_penalty = name == "penalty" and type(value) not in (str, *PENALTY_CLASSES.values())
    is_generator = name == "random_state" and isinstance(value, np.random.RandomState)
    if is_own_penalty or is_generator or (name == "solver" and is_function):
        return {"type": "replaced", **_replaced(name, value)}, {}
    return pack(value, f"parameters.{name}")


def _replaced(name: str, value: Any) -> dict[str, Any]:
    """Warn that a folder cannot keep this value of a parameter, and record its name."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    was, by = f"{kind.__module__}.{kind.__qualname__}", REPLACEMENTS[name]
    warn_user(
        f"a model folder cannot keep the {name} {was}: loadings, scores and certificates are those of the "
        f"fit, but the loaded model has {name}={by!r}",
        UserWarning,
    )
    return {"by": by, "was": was}


def _unpack_parameter(state: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(state, dict) and state.get("type") == "replaced":
        return state.get("by")
    return unpack(state, arrays)


def _arrays_sha256(arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256 of names, types, shapes and contents."""
    hasher = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        hasher.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()
