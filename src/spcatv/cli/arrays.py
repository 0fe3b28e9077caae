"""Fields that are no brain images: arrays in .npy, .npz, .csv or .tsv files, a sample a row."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.cli.errors import InputError
from spcatv.cli.options import CommonOptions
from spcatv.cli.outputs import COMPONENTS_STEM, write_json
from spcatv.estimator import SPCATV
from spcatv.model import file_sha256
from spcatv.structure import GridStructure, Structure, grid

TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
ARRAY_SUFFIXES = (".npy", ".npz", *TEXT_DELIMITERS)


@dataclass(frozen=True, eq=False)
class Field:
    """Samples of a field, and where its features are.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The features that can be used.
    labels : ndarray of int of the field's shape, or None
        0 outside of the mask; ``None`` for features without a place.
    names : tuple of str
        One a sample.
    n_dropped : int
        Features of the mask that are constant, NaN or infinite in some sample, and were left out.
    """

    X: FloatArray
    labels: IntArray | None
    names: tuple[str, ...]
    n_dropped: int


def read_field(options: CommonOptions) -> Field:
    """Read the array that `options` name, and leave out what cannot be used.

    Raises
    ------
    InputError
        If a file cannot be read, shapes do not fit, or nothing is left; the message names the file.
    """
    file = _array_file(options)
    data = load_array(file)
    if data.ndim < 2:
        raise InputError(
            f"{file} has shape {data.shape}; an array needs a sample a row, at least two dimensions"
        )
    if len(data) < 2:
        raise InputError(f"{file} holds {len(data)} sample; at least two are needed")
    labels = _labels(options, data.shape[1:])
    X = rows_of(data, labels, file)
    if options.dtype is not None:
        X = X.astype(options.dtype, copy=False)
    kept = _usable(X, options)
    if not kept.all():
        if labels is None:
            raise InputError(
                f"{int((~kept).sum())} of {X.shape[1]} features of {file} are constant, NaN or infinite in "
                "some sample; take these columns out, or give the shape of the field with --shape, on which "
                "they can be left out"
            )
        labels = labels.copy()
        labels[labels != 0] = np.where(kept, labels[labels != 0], 0)
        X = X[:, kept]
    names = tuple(f"{file}[{row}]" for row in range(len(X)))
    return Field(X, labels, names, int(np.count_nonzero(~kept)))


def _array_file(options: CommonOptions) -> Path:
    if options.array is None:
        raise InputError("no array: name one with --array")
    return options.array


def load_array(file: Path) -> Array:
    """Read an array of numbers from a .npy, .npz, .csv or .tsv file; nothing in it is executed."""
    suffix = file.suffix.lower()
    if suffix not in ARRAY_SUFFIXES:
        raise InputError(f"{file} is no array; the formats are {', '.join(ARRAY_SUFFIXES)}")
    try:
        if suffix == ".npy":
            data = np.load(file, mmap_mode="r", allow_pickle=False)
        elif suffix == ".npz":
            data = _only_array(file)
        else:
            data = _text_array(file, TEXT_DELIMITERS[suffix])
    except FileNotFoundError as error:
        raise InputError(f"no such file: {file}") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {file} as an array: {error}") from error
    if data.dtype.kind not in "fiub":
        raise InputError(f"{file} does not hold real numbers, but {data.dtype}")
    return np.asarray(data)


def _only_array(file: Path) -> Array:
    with np.load(file, allow_pickle=False) as archive:
        name = archive.files[0] if len(archive.files) == 1 else "X"
        if name not in archive.files:
            raise InputError(
                f"{file} holds {len(archive.files)} arrays ({', '.join(archive.files)}); keep one, or call "
                "it X"
            )
        return np.asarray(archive[name])


def _text_array(file: Path, delimiter: str) -> FloatArray:
    with file.open(encoding="utf-8-sig") as lines:
        first = lines.readline().strip().split(delimiter)
    try:
        list(map(float, first))
        header = 0
    except ValueError:
        header = 1  # names of the columns
    return np.loadtxt(file, delimiter=delimiter, skiprows=header, ndmin=2, encoding="utf-8-sig")


def _labels(options: CommonOptions, data_shape: tuple[int, ...]) -> IntArray | None:
    """The mask of the field, 1 everywhere where none is given; None if the field has no shape."""
    shape = options.shape or (data_shape if len(data_shape) > 1 else None)
    if len(data_shape) > 1 and shape != data_shape:
        raise InputError(
            f"--shape {_times(shape)} is not the shape of a sample in {options.array}, which is "
            f"{_times(data_shape)}"
        )
    if options.mask is None:
        return None if shape is None else np.ones(shape, dtype=np.int32)
    mask = load_array(Path(options.mask))
    if shape is not None and mask.shape != shape:
        raise InputError(
            f"the mask {options.mask} has shape {_times(mask.shape)}, but the field has {_times(shape)}"
        )
    try:
        return grid(mask).labels
    except (ValueError, TypeError) as error:
        raise InputError(f"{options.mask} cannot be used as a mask: {error}") from error


def _times(shape: tuple[int, ...] | None) -> str:
    return " x ".join(map(str, shape or ()))


def rows_of(data: Array, labels: IntArray | None, file: Path) -> FloatArray:
    """The samples as rows over the mask.

    Parameters
    ----------
    data : ndarray of shape (n_samples, n_features) or (n_samples, n_0, n_1, ...)
        Rows over the mask, flattened fields, or fields.
    labels : ndarray of int, or None
        Mask of the field; ``None`` takes the rows as they are.
    file : Path
        For the message.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
    """
    X = data.reshape(len(data), -1)
    if X.dtype.kind != "f":
        X = X.astype(np.float64)
    if labels is None or X.shape[1] == np.count_nonzero(labels) != labels.size:
        return X
    if X.shape[1] != labels.size:
        inside = int(np.count_nonzero(labels))
        cells = f"{_times(labels.shape)} = {math.prod(labels.shape)}"
        of_mask = "" if inside == labels.size else f", of which {inside} in the mask"
        raise InputError(f"{file} has {X.shape[1]} values a sample, but the field has {cells} cells{of_mask}")
    return X if labels.all() else X[:, labels.reshape(-1) != 0]


def _usable(X: FloatArray, options: CommonOptions) -> BoolArray:
    """Which features vary and are finite in every sample; one rule says what is done about the others."""
    kept: BoolArray = np.asarray(np.isfinite(X).all(axis=0))
    kept[kept] = (X[:, kept] != X[:1, kept]).any(axis=0)
    n_bad = int(np.count_nonzero(~kept))
    what = f"of {X.shape[1]} features of {options.array} are constant, NaN or infinite in some sample"
    if n_bad == X.shape[1]:
        raise InputError(f"all {what}")
    if n_bad and options.bad_features == "raise":
        raise InputError(f"{n_bad} {what}; leave them out with a mask, or with --bad-features drop")
    return kept


def field_structure(field: Field, options: CommonOptions) -> Structure | None:
    """Who is whose neighbour; None for features without a place."""
    if field.labels is None:
        for name in ("voxel_size", "periodic"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} needs the shape of the field: give --shape")
        return None
    axes = range(field.labels.ndim)
    periodic = options.periodic or ()
    if not set(periodic) <= set(axes):
        raise InputError(f"--periodic: the field has the axes 0 to {axes[-1]}, got {max(periodic)}")
    try:
        return grid(field.labels, voxel_size=options.voxel_size, periodic=[axis in periodic for axis in axes])
    except ValueError as error:
        raise InputError(str(error)) from error


def on_the_field(rows: FloatArray, structure: Structure) -> FloatArray:
    """Put rows over the mask back in their places, NaN outside of it.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
    structure : Structure
        Of the model: a grid knows the places.

    Returns
    -------
    ndarray of shape (n_rows, n_0, n_1, ...), or as `rows` without places
    """
    if not isinstance(structure, GridStructure):
        return rows
    values = np.full((len(rows), *structure.labels.shape), np.nan, dtype=rows.dtype)
    values[:, structure.labels != 0] = rows
    return values


@dataclass(frozen=True, eq=False)
class ArrayData:
    """An array that was read (`spcatv.cli.outputs.Data`).

    Attributes
    ----------
    field : Field
    structure : Structure or None
        Who is whose neighbour; None for features without a place.
    dtype : str or None
        Precision that was asked for.
    files : dict of str to Path
        The files by what they are: the array, and the mask if there is one.
    """

    field: Field
    structure: Structure | None
    dtype: str | None
    files: dict[str, Path]

    @property
    def matrix(self) -> FloatArray:
        """The data matrix, shape (n_samples, n_features)."""
        return self.field.X

    @property
    def names(self) -> tuple[str, ...]:
        """One a sample."""
        return self.field.names

    @property
    def report(self) -> str:
        """What was read."""
        field = self.field
        places = "no neighbours" if field.labels is None else f"a field of {_times(field.labels.shape)} cells"
        dropped = f", {field.n_dropped:,} left out (constant, NaN or infinite)" if field.n_dropped else ""
        n_samples, n_features = field.X.shape
        size = f"{n_samples} samples of {n_features:,} features"
        return f"Read {size} ({places}{dropped}) from {self.files['array']}"

    def write_components(self, model: SPCATV, folder: Path) -> None:
        """Write the loadings as a .npy file."""
        about = "Loadings of unit norm, a component along the first axis; NaN outside of the mask."
        self.write_maps(model.components_, folder, COMPONENTS_STEM, {"Description": about})

    def write_maps(self, rows: FloatArray, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write maps as a .npy file of the field's shape, a map along the first axis."""
        maps = rows if self.structure is None else on_the_field(rows, self.structure)
        np.save(folder / f"{stem}.npy", maps, allow_pickle=False)
        write_json(folder / f"{stem}.json", {**about, "Shape": list(maps.shape)})

    def save(self, model: SPCATV, folder: Path) -> None:
        """Write the model folder, with the hashes of the files."""
        model.save(
            folder,
            inputs={
                kind: {"name": str(path), "sha256": file_sha256(path)} for kind, path in self.files.items()
            },
        )


def read_array(options: CommonOptions) -> ArrayData:
    """Read the field that the options name, and find its structure."""
    field = read_field(options)
    files = {"array": _array_file(options)}
    if options.mask is not None:
        files["mask"] = Path(options.mask)
    return ArrayData(field, field_structure(field, options), options.dtype, files)


def score_array(folder: Path, file: Path) -> tuple[tuple[str, ...], FloatArray]:
    """Names and scores of the samples of a new array on the components of a model.

    Parameters
    ----------
    folder : Path
        A model folder.
    file : Path
        The new array: shaped as that of the fit, or its rows over the mask.

    Returns
    -------
    names : tuple of str
    scores : ndarray of shape (n_samples, n_components)
    """
    model = SPCATV.load(folder)
    data = load_array(file)
    if data.ndim < 2:
        raise InputError(
            f"{file} has shape {data.shape}; an array needs a sample a row, at least two dimensions"
        )
    structure = model.structure_
    X = rows_of(data, structure.labels if isinstance(structure, GridStructure) else None, file)
    if X.shape[1] != model.n_features_in_:
        raise InputError(f"{file} has {X.shape[1]} features, but the model has {model.n_features_in_}")
    if not np.isfinite(X).all():
        row = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
        raise InputError(f"{file}: sample {row} holds NaN or infinite values inside of the model's mask")
    return tuple(f"{file}[{row}]" for row in range(len(X))), model.transform(X)
