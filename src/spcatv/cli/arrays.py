"""Fields other than brain images: arrays in .npy, .npz, .csv or .tsv files, one sample per row."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.atomic_files import file_state, open_regular
from spcatv._util.tables import SPREADSHEETS
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.cli.config import Options
from spcatv.cli.inputs import FIELD_SUFFIXES, numbered, refuse_empty
from spcatv.cli.parser import InputError, input_errors
from spcatv.data import checked_memory_limit, row_blocks
from spcatv.data.memory import Budget, bytes_text
from spcatv.data.outliers import BlankError, ImageQualityWarning, Wording, sample_quality
from spcatv.estimator import SPCATV
from spcatv.model import SavedModel, file_sha256
from spcatv.model.folder import opened_npz
from spcatv.results.layout import COMPONENT_MAPS, MODEL
from spcatv.results.read import restore_model
from spcatv.results.write import SampleSet, write_json
from spcatv.structure import GridStructure, Structure, grid

TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Values of an array that are checked at a time.
BLOCK_ENTRIES = 1 << 22
# Largest magnitude whose squares float64 has room for, with some to spare for sums of them.
LARGEST = 1e145
ARRAY_SUFFIXES = (".npy", ".npz", *TEXT_DELIMITERS)
# Compare samples with each other up to this number of samples and of bytes.
MOST_COMPARED = 20_000
MOST_BYTES = 1 << 31
WORDING = Wording("sample", "samples", "features", "the field", "", alike=False)


@dataclass(frozen=True, eq=False)
class ArraySamples(SampleSet):
    """An array that was read; the matrix holds its usable features."""

    files: dict[str, Path]  # the input files: "array", and "mask" if there is one
    states: dict[str, tuple[int, int, int]]  # `file_state` of each before it was read
    # number of features of the mask that were left out: constant, NaN or infinite in some sample
    n_dropped: int

    @property
    def summary(self) -> str:
        """Summary of the samples and features, in one line."""
        places = "no neighbours"
        if isinstance(self.structure, GridStructure):
            places = f"a field of {_times(self.structure.labels.shape)} cells"
        dropped = f", {self.n_dropped:,} left out (constant, NaN or infinite)" if self.n_dropped else ""
        n_samples, n_features = self.matrix.shape
        size = f"{n_samples} samples of {n_features:,} features"
        return f"Read {size} ({places}{dropped}) from {self.files['array']}"

    def write_model(self, model: SPCATV, folder: Path) -> None:
        """Write the model folder, with the hashes of the input files, and the loadings as a .npy file."""
        inputs = {kind: {"name": str(path), "sha256": file_sha256(path)} for kind, path in self.files.items()}
        for kind, path in self.files.items():  # an array is read block by block until the fit ends
            if file_state(path) != self.states[kind]:
                raise InputError(f"{path} was changed while it was read; nothing was written. Try again")
        model.save(folder / MODEL, inputs=inputs)
        about = "Loadings of unit norm, one component per entry of the first axis; NaN outside the mask."
        self.write_maps(model.components_, folder, COMPONENT_MAPS, {"Description": about})

    def write_maps(self, maps: FloatArray, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write maps as a .npy file in the shape of the field, one map per entry of the first axis."""
        fields = maps if self.structure is None else on_the_field(maps, self.structure)
        np.save(folder / f"{stem}.npy", fields, allow_pickle=False)
        write_json(folder / f"{stem}.json", {**about, "Shape": list(fields.shape)})


def read_array(options: Options) -> ArraySamples:
    """Read the array that `options` name, leave out features that cannot be used, and find the structure."""
    if options.array is None:
        raise InputError("no array: name one with --array")
    file = options.array
    files = {"array": file} if options.mask is None else {"array": file, "mask": Path(options.mask)}
    states = {kind: file_state(path) for kind, path in files.items() if path.is_file()}
    data = _load_samples(file)
    if len(data) < 2:
        raise InputError(f"{file} holds {len(data)} sample; at least two are needed")
    labels = _labels(options, data.shape[1:])
    limit = checked_memory_limit(options.memory)
    _check_room(data, labels, limit, options)
    X = data_matrix(data, labels, file)
    if options.dtype is not None and not isinstance(X, np.memmap):  # a map is converted block by block
        X = X.astype(options.dtype, copy=False)
    elif X.dtype.kind != "f" and Budget(limit).allows_whole(8 * X.size, X.shape[1]):
        X = np.asarray(X, np.float64)
    names = numbered(file, len(X))
    kept = _usable(X, options)
    if labels is None and not kept.all():
        raise InputError(
            f"{int((~kept).sum())} of {X.shape[1]} features of {file} are constant, NaN or infinite in some "
            "sample; take these columns out, or give the shape of the field with --shape, on which they can "
            "be left out"
        )
    _warn_of_bad_samples(X, names)
    if labels is not None and not kept.all():
        labels = labels.copy()
        labels[labels != 0] = np.where(kept, labels[labels != 0], 0)
        _check_room(X, labels, limit, options)
        X = _copied(X, kept)
    return ArraySamples(
        matrix=X,
        names=names,
        structure=_field_structure(labels, options),
        dtype=options.dtype,
        files=files,
        states=states,
        n_dropped=int(np.count_nonzero(~kept)),
    )


def _check_room(data: Array, labels: IntArray | None, limit: int | None, options: Options) -> None:
    """Refuse to copy cells out of a file, for a mask or from another order, that exceed `--memory`."""
    if limit is None or labels is None or not isinstance(data, np.memmap):
        return
    if labels.all() and (data.ndim == 2 or data.flags.c_contiguous):
        return
    n_bytes = len(data) * int(np.count_nonzero(labels)) * _float_type(data).itemsize
    if n_bytes > limit:
        raise InputError(
            f"the cells of {options.array} that can be used take {bytes_text(n_bytes)}, more than --memory "
            f"{options.memory}: write an array of these cells alone, in C order, or raise --memory"
        )


def _warn_of_bad_samples(X: FloatArray, names: tuple[str, ...]) -> None:
    """Warn of samples that are unlike the others, or the same; a blank one is no error, unlike in images."""
    if len(X) > MOST_COMPARED or X.nbytes > MOST_BYTES:
        return
    try:
        sample_quality(X, names, WORDING)
    except BlankError as error:
        warn_user(str(error), ImageQualityWarning)


def _load_samples(file: Path) -> Array:
    data = load_array(file)
    if data.ndim < 2:
        raise InputError(
            f"{file} has shape {data.shape}; an array needs at least two dimensions, one sample per row"
        )
    if not data.size:
        raise InputError(f"{file} has shape {data.shape}: it holds no value")
    return data


def load_array(file: Path) -> Array:
    """Read an array of numbers from a .npy, .npz, .csv or .tsv file; nothing in the file is executed."""
    suffix = file.suffix.lower()
    if suffix in FIELD_SUFFIXES:
        raise InputError(f"{file} is read without --array: spca-tv fit {file}")
    if suffix in SPREADSHEETS:
        raise InputError(f"{file} is a spreadsheet; save it as CSV, and name the .csv file")
    if suffix not in ARRAY_SUFFIXES:
        raise InputError(f"{file} is not an array; the formats are {', '.join(ARRAY_SUFFIXES)}")
    try:
        refuse_empty(file)
        if suffix == ".npy":
            with open_regular(file) as opened:
                data = np.load(file, mmap_mode="r", allow_pickle=False)
                if data.size and data.offset + data.nbytes != os.fstat(opened.fileno()).st_size:
                    raise ValueError(f"its shape {data.shape} is not that of its content")
        elif suffix == ".npz":
            data = _only_array(file)
        else:
            data = _text_array(file, TEXT_DELIMITERS[suffix])
    except FileNotFoundError as error:
        raise InputError(f"no such file: {file}") from error
    except InputError:
        raise
    except Exception as error:  # NumPy and its decoders raise nearly anything for a damaged file
        raise InputError(f"cannot read {file} as an array: {error or type(error).__name__}") from error
    if data.dtype.kind not in "fiub":
        raise InputError(f"{file} does not hold real numbers, but {data.dtype}")
    return data


def _only_array(file: Path) -> Array:
    with opened_npz(file) as archive:
        names = archive.files
        if len(names) != 1 and "X" not in names:
            raise InputError(f"{file} holds {len(names)} arrays ({', '.join(names)}); keep one, or call it X")
        return np.asarray(archive[names[0] if len(names) == 1 else "X"])


def _text_array(file: Path, delimiter: str) -> FloatArray:
    with io.TextIOWrapper(open_regular(file), encoding="utf-8-sig") as lines:
        first = lines.readline().strip().split(delimiter)
    try:
        list(map(float, first))
        header = 0
    except ValueError:
        header = 1  # column names
    return np.loadtxt(file, delimiter=delimiter, skiprows=header, ndmin=2, encoding="utf-8-sig")


def _labels(options: Options, data_shape: tuple[int, ...]) -> IntArray | None:
    """Return the mask of the field, all ones if none is given; None if the field has no shape."""
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


def data_matrix(data: Array, labels: IntArray | None, file: Path) -> FloatArray:
    """Return the samples as rows over the features of the mask, shape (n_samples, n_features).

    `data` holds rows over the mask, flattened fields, or fields of shape (n_samples, n_0, n_1, ...). Without
    `labels`, the mask of the field, the rows are taken as they are.
    """
    X = data.reshape(len(data), -1)
    if X.dtype == np.bool_:
        X = X.view(np.uint8)
    if not isinstance(X, np.memmap):
        X = X.astype(_float_type(X), copy=False)
    if labels is None or X.shape[1] == np.count_nonzero(labels) != labels.size:
        return X
    if X.shape[1] != labels.size:
        inside = int(np.count_nonzero(labels))
        cells = f"{_times(labels.shape)} = {math.prod(labels.shape)}"
        of_mask = "" if inside == labels.size else f", of which {inside} in the mask"
        raise InputError(
            f"{file} has {X.shape[1]} values per sample, but the field has {cells} cells{of_mask}"
        )
    return X if labels.all() else _copied(X, labels.reshape(-1) != 0)


def _copied(X: Array, columns: BoolArray) -> FloatArray:
    """Copy some columns into memory as floats, a block of rows at a time."""
    copy: FloatArray = np.empty((len(X), int(np.count_nonzero(columns))), _float_type(X))
    for first, last in row_blocks(X.shape, BLOCK_ENTRIES):
        copy[first:last] = X[first:last][:, columns]
    return copy


def _float_type(X: Array) -> np.dtype[Any]:
    return X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)


def _check_magnitude(block: FloatArray, finite: BoolArray, first: int, options: Options) -> None:
    """Refuse samples, numbered from `first` on, with finite values that have no squares in float64."""
    if float(np.max(np.abs(block), where=finite, initial=0.0)) <= LARGEST:
        return
    of_sample = np.max(np.abs(block), axis=1, where=finite, initial=0.0).astype(np.float64)
    number = int(np.argmax(of_sample > LARGEST))
    raise InputError(
        f"{options.array}: sample {first + number} holds values of up to {of_sample[number]:.3g}; numbers up "
        f"to {LARGEST:g} can be squared in float64. The file is damaged, or needs a larger unit"
    )


def _usable(X: FloatArray, options: Options) -> BoolArray:
    """Return which features vary and are finite in every sample; `--bad-features` may refuse the others."""
    kept = np.ones(X.shape[1], dtype=bool)
    varies = np.zeros(X.shape[1], dtype=bool)
    for first, last in row_blocks(X.shape, BLOCK_ENTRIES):
        block = X[first:last].astype(_float_type(X), copy=False)
        finite = np.isfinite(block)
        _check_magnitude(block, finite, first, options)
        kept &= finite.all(axis=0)
        varies |= (block != X[0]).any(axis=0)
    kept &= varies
    n_bad = int(np.count_nonzero(~kept))
    what = f"of {X.shape[1]} features of {options.array} are constant, NaN or infinite in some sample"
    if n_bad == X.shape[1]:
        raise InputError(f"all {what}")
    if n_bad and options.bad_features == "raise":
        raise InputError(f"{n_bad} {what}; leave them out with a mask, or with --bad-features drop")
    return kept


def _field_structure(labels: IntArray | None, options: Options) -> Structure | None:
    """Return the structure of the field; None if features have no place."""
    if labels is None:
        for name in ("voxel_size", "periodic"):
            if getattr(options, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} needs the shape of the field: give --shape")
        return None
    axes = range(labels.ndim)
    periodic = options.periodic or ()
    if not set(periodic) <= set(axes):
        raise InputError(f"--periodic: the field has the axes 0 to {axes[-1]}, got {max(periodic)}")
    with input_errors(ValueError):
        return grid(labels, voxel_size=options.voxel_size, periodic=[axis in periodic for axis in axes])


def on_the_field(maps: FloatArray, structure: Structure) -> FloatArray:
    """Return maps (n_maps, P) in the shape of the field, NaN outside the mask; as they are without a grid."""
    if not isinstance(structure, GridStructure):
        return maps
    values = np.full((len(maps), *structure.labels.shape), np.nan, dtype=maps.dtype)
    values[:, structure.labels != 0] = maps
    return values


def score_array(saved: SavedModel, file: Path) -> tuple[tuple[str, ...], FloatArray]:
    """Names and scores (n_samples, K) of a new array, shaped as that of the fit or as rows over its mask."""
    model: SPCATV = restore_model(saved)
    data = _load_samples(file)
    structure = model.structure_
    X = data_matrix(data, structure.labels if isinstance(structure, GridStructure) else None, file)
    if X.shape[1] != model.n_features_in_:
        raise InputError(f"{file} has {X.shape[1]} features, but the model has {model.n_features_in_}")
    if not np.isfinite(X).all():
        number = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
        raise InputError(f"{file}: sample {number} holds NaN or infinite values inside the mask of the model")
    return numbered(file, len(X)), model.transform(X)
