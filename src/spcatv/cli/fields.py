"""Fields of NetCDF files and Zarr stores: read with xarray, written as NetCDF with their coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import natural_groups
from spcatv._util.types import FloatArray
from spcatv.cli.config import Options
from spcatv.cli.inputs import SampleFiles, numbered, refuse_empty
from spcatv.cli.parser import InputError, input_errors
from spcatv.data import checked_memory_limit
from spcatv.estimator import SPCATV
from spcatv.model import SavedModel
from spcatv.results.layout import COMPONENT_MAPS, MODEL
from spcatv.results.read import restore_model
from spcatv.results.write import SampleSet, write_json

MAPS_TEXT = "Loading maps in the units of the data, one per component, with coordinates; NaN where left out."


@dataclass(frozen=True, eq=False)
class FieldSamples(SampleSet):
    """Field that was read from NetCDF files or Zarr stores."""

    field: Any  # the result of `spcatv.xarray.read_field`
    parameters: dict[str, Any]  # parameters of `XarraySPCATV` that `SPCATV` does not have
    files: tuple[Path, ...]

    @property
    def summary(self) -> str:
        """Summary of the samples and cells, in one line."""
        sizes = " x ".join(f"{name} {size}" for name, size in self.field.template.sizes.items())
        n_samples, n_cells = self.matrix.shape
        source = str(self.files[0]) if len(self.files) == 1 else f"{len(self.files)} files"
        n_left_out = self.field.mask.size - n_cells
        left_out = f", {n_left_out:,} left out (NaN in some sample, or weight 0)" if n_left_out else ""
        around = "".join(f", {name} goes around" for name in self.field.periodic_dims)
        name = self.field.name or "the field"
        read = f"Read {n_samples} samples of {name} on {n_cells:,} cells"
        return f"{read} ({sizes}{left_out}{around}) from {source}"

    def write_model(self, model: SPCATV, folder: Path) -> None:
        """Write the model folder of an `XarraySPCATV`, and its maps with coordinates."""
        from spcatv.xarray import XarraySPCATV

        fitted = XarraySPCATV(model, **self.parameters).adopt_fit(model, self.field)
        fitted.save(folder / MODEL, inputs={"fields": [str(file) for file in self.files]})
        _write_netcdf(fitted.components_, folder, COMPONENT_MAPS, {"Description": MAPS_TEXT})

    def write_maps(self, maps: Any, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write other maps on the grid, with coordinates."""
        import xarray

        numbers = xarray.Dataset(coords={"component": np.arange(1, len(maps) + 1)})
        fields = replace(self.field, weights=None).maps(np.asarray(maps), ("component",), numbers)
        _write_netcdf(fields.rename("maps"), folder, stem, about)


def read_fields(options: Options, samples: Sequence[SampleFiles]) -> FieldSamples:
    """Read the variable that `options` name from one file or store, or from several, one after the other."""
    from spcatv.xarray import read_field

    files = tuple(file for (file,) in samples)
    dim = options.dim or ("time",)
    array = open_fields(files, options.variable, dim)
    limit = checked_memory_limit(options.memory)
    parameters = {} if options.weights is None else {"weights": options.weights}
    with input_errors(ValueError, TypeError, ImportError):
        if limit is not None and array.nbytes > limit:
            array = array.chunk({dim[0]: "auto"})
        if options.bad_features == "drop" and array.dtype.kind == "f" and set(dim) <= set(array.dims):
            finite = np.isfinite(array)
            kept = finite.all(dim)
            if bool((kept < finite.any(dim)).any()):
                array = array.where(kept)
        field = read_field(array, dim, **parameters)
    columns = sample_columns(array, dim)
    if columns and len(set(zip(*columns.values(), strict=True))) < len(field.matrix):
        raise InputError(
            f"two samples have the same {' and '.join(columns)}: a file is given twice, or in parts"
        )
    names = _names(files, array, columns, len(field.matrix))
    return FieldSamples(
        matrix=field.matrix,
        names=names,
        structure=field.structure,
        dtype=options.dtype,
        groups=natural_groups(names),
        columns=columns,
        field=field,
        parameters=parameters,
        files=files,
    )


def score_fields(
    saved: SavedModel, samples: Sequence[SampleFiles], options: Options
) -> tuple[tuple[str, ...], FloatArray, dict[str, list[str]]]:
    """Return names, scores (n_samples, K) and coordinates of the samples of new files on the same grid."""
    model = restore_model(saved)
    files, dim = tuple(file for (file,) in samples), tuple(map(str, model.sample_dims_))
    array = open_fields(files, options.variable or model._field.name, dim)
    with input_errors(ValueError, TypeError):
        scores = model.transform(array)
    values = np.asarray(scores.transpose(*dim, "component")).reshape(-1, scores.sizes["component"])
    columns = sample_columns(array, dim)
    return _names(files, array, columns, len(values)), values, columns


def _names(
    files: Sequence[Path], array: Any, columns: dict[str, list[str]], n_samples: int
) -> tuple[str, ...]:
    """Return names such as "sst.nc[1997-12-01]", with numbers where samples have no coordinates."""
    source = files[0] if len(files) == 1 else array.name
    named = tuple(f"{source}[{', '.join(row)}]" for row in zip(*columns.values(), strict=True))
    return named or numbered(source, n_samples)


def open_fields(files: Sequence[Path], variable: str | None, dim: Sequence[str]) -> Any:
    """Open a variable of some files, which follow each other along the first dimension of the samples."""
    arrays = [_open(file, variable, dim) for file in files]
    if len(arrays) == 1:
        return arrays[0]
    import xarray

    try:
        return xarray.concat(arrays, dim[0], join="exact")
    except ValueError as error:
        raise InputError(f"the files cannot be joined along {dim[0]}: {error}") from error


def _open(file: Path, variable: str | None, dim: Sequence[str]) -> Any:
    try:
        import xarray
    except ImportError as error:
        raise InputError('NetCDF and Zarr need xarray: pip install "spca-tv[xarray]"') from error
    refuse_empty(file)
    try:
        dataset = xarray.open_dataset(file, **({"engine": "zarr"} if file.is_dir() else {}))
    except Exception as error:  # decoders raise nearly anything for a damaged file
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"cannot read {file} as NetCDF or Zarr: {reason}") from error
    if variable is not None and variable in dataset.variables:
        return dataset[variable]
    known = ", ".join(map(str, dataset.data_vars)) or "none"
    if variable is not None:
        raise InputError(f"{file} has no variable {variable}; its variables are {known}")
    usable = [name for name, array in dataset.data_vars.items() if set(dim) < set(array.dims)]
    if len(usable) != 1:
        which = ", ".join(map(str, usable)) or f"none has the dimension {dim[0]} of samples and another one"
        more = "" if usable else f"; name the dimension of samples with --dim (of {', '.join(dataset.dims)})"
        raise InputError(f"{file} holds the variables {known}; name one with --variable ({which}){more}")
    return dataset[usable[0]]


def sample_columns(array: Any, dim: Sequence[str]) -> dict[str, list[str]]:
    """Return the coordinates of the samples as columns of a table."""
    import xarray

    coords = [array.coords[name] for name in dim if name in array.coords]
    spread = xarray.broadcast(*coords, array.isel(dict.fromkeys(set(array.dims) - set(dim), 0)))
    return {
        str(coord.name): [_text(value) for value in values.transpose(*dim).values.ravel()]
        for coord, values in zip(coords, spread, strict=False)
    }


def _text(value: Any) -> str:
    """Return a coordinate as text; a time without its empty part of a day."""
    return str(value).removesuffix(".000000000").removesuffix("T00:00:00").removesuffix(" 00:00:00")


def _write_netcdf(maps: Any, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
    maps.drop_encoding().assign_attrs(description=about["Description"]).to_netcdf(folder / f"{stem}.nc")
    write_json(folder / f"{stem}.json", about)
