"""Brain images on the command line: options go to `spcatv.images`, errors come back as one line."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spcatv._util.bids import files_of, samples_of_one_file
from spcatv._util.matching import match_rows
from spcatv._util.tables import read_table
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.cli.app import NO_HEMISPHERE
from spcatv.cli.config import Options
from spcatv.cli.inputs import SampleFiles, participants_of
from spcatv.cli.parser import InputError, input_errors
from spcatv.estimator import SPCATV
from spcatv.model import SavedModel
from spcatv.results.layout import MEAN, MODEL
from spcatv.results.read import restore_model
from spcatv.results.write import SampleSet, write_json
from spcatv.selection.components import MOST_COMPONENTS

if TYPE_CHECKING:
    from spcatv.images import Cohort, ImageSPCATV

ONE_FILE = (
    "{}: all {} samples are volumes of one file and count as separate samples: right if each is another "
    "person. If they are one run, neighbours in time are alike: folds are blocks of consecutive volumes, but "
    "resamples and halves draw single volumes; with several runs or people, whole runs or people stay "
    "together"
)
MEAN_TEXT = "Mean of the images as they were read, also outside the mask; NaN where most have no value."
# Default precision of images.
IMAGE_DTYPE = "float32"


@dataclass(frozen=True, eq=False)
class ImageSamples(SampleSet):
    """Images that were read."""

    cohort: Cohort
    parameters: dict[str, Any]  # parameters of `ImageSPCATV` that `SPCATV` does not have

    @property
    def summary(self) -> str:
        """Return a line about the images, and one about how confounds were matched."""
        from spcatv.images.preprocessing import AUTO, SCALED

        confounds = self.cohort.preparation.confounds
        told = (
            [] if confounds is None else [self.cohort.matched, f"removed: {confounds.described(levels=True)}"]
        )
        matched = f"\nConfounds: {'; '.join(filter(None, told))}" if told else ""
        remarks = self.cohort.reading_report.split("; ")
        if self.parameters["standardize_runs"] == AUTO:  # there was a warning
            remarks[0] = remarks[0].removesuffix(SCALED).rstrip(", ")
        reading = "".join(f"; {remark}" for remark in remarks if remark)
        n_images = len({tuple(files_of(name)) for name in self.names})
        volumes = "" if n_images == len(self.names) else f", {len(self.names)} volumes"
        images = "1 image" if n_images == 1 else f"{n_images} images"
        return f"Read {images}{volumes}: {self.cohort.mask_report}{reading}{matched}"

    def write_model(self, model: SPCATV, folder: Path) -> None:
        """Write the model folder of an `ImageSPCATV`, a copy of its loading maps, and the mean image."""
        from spcatv.images import ImageSPCATV
        from spcatv.images._persistence import MAPS

        shared = {name: value for name, value in model.get_params(deep=False).items() if name != "structure"}
        image_model = ImageSPCATV(**{**shared, **self.parameters})
        image_model.adopt_fit(model, self.cohort)
        image_model.save(folder / MODEL)
        for file in (folder / MODEL / MAPS).iterdir():
            shutil.copyfile(file, folder / file.name)
        if self.cohort.mean_img is not None:
            self.cohort.mean_img.to_filename(folder / MEAN)
            write_json((folder / MEAN).with_suffix("").with_suffix(".json"), {"Description": MEAN_TEXT})

    def write_maps(self, maps: FloatArray, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write maps as images in the space of the input, zero outside the mask."""
        self.cohort.space.write(maps, folder, stem, metadata=about)


def read_images(options: Options, samples: Sequence[SampleFiles]) -> ImageSamples:
    """Read the images: one file per sample, or the files of its two hemispheres."""
    # imported here: images need an extra
    from spcatv.images import Reading, read_cohort
    from spcatv.images._persistence import READING

    own: dict[str, Any] = {
        "mask": None if options.mask is None else str(options.mask),
        "surface": _surface(options),
        "target_affine": options.target_affine,
        "bad_features": options.bad_features,
        "standardize": options.standardize,
        "dtype": options.dtype or IMAGE_DTYPE,
    }
    asked = {name: getattr(options, name) for name in READING}
    asked["standardize_runs"] = "auto" if options.standardize_runs is None else options.standardize_runs
    with input_errors(ValueError, TypeError):
        reading = Reading(**asked)
    confounds = _confounds(options.confounds, options.confounds_columns, options.path_column)
    n_components = options.n_components if isinstance(options.n_components, int) else options.max_components
    with _named_errors(options.confounds):
        cohort = read_cohort(
            _plain(samples),
            confounds=confounds,
            exclude=options.exclude or (),
            reading=reading,
            cache=options.cache,
            memory_limit=options.memory,
            n_components=n_components or MOST_COMPONENTS,
            n_jobs=options.n_jobs,
            **own,
        )
    if samples_of_one_file(cohort.names):
        warn_user(ONE_FILE.format(samples[0][0].name, len(cohort.names)), UserWarning)
    return ImageSamples(
        matrix=cohort.X,
        names=cohort.names,
        structure=cohort.space.structure(),
        dtype=cohort.preparation.dtype,
        adjustment=cohort.adjustment,
        groups=cohort.groups,
        quality=cohort.quality,
        cohort=cohort,
        parameters={**own, **asked},
    )


def score_images(
    saved: SavedModel, samples: Sequence[SampleFiles], options: Options
) -> tuple[tuple[str, ...], FloatArray, str]:
    """Return names and scores (n_samples, K) of new images, and a remark on how confounds were matched.

    If the model was fitted with confounds, `options` names their table, by default the participants of a BIDS
    dataset, and their columns, by default the columns of the fit.
    """
    model: ImageSPCATV = restore_model(saved)
    model.set_params(cache=options.cache, memory_limit=options.memory or model.memory_limit)
    fitted = model.preparation_.confounds
    confounds, columns = options.confounds, options.confounds_columns
    if fitted is not None:
        confounds = confounds or participants_of(options.bids)
        columns = columns or fitted.columns or None
    with _named_errors(confounds):
        opened = model.preparation_.open(_plain(samples), options.exclude or ())
        table = _confounds(confounds, columns, options.path_column)
        scores = model.transform(opened, table)
        matched = ""
        if table is not None:
            matched = match_rows(table.table, opened.names, path_column=options.path_column).remark
    return opened.names, scores, matched


def _plain(samples: Sequence[SampleFiles]) -> list[Any]:
    """Return paths and pairs of paths, in the form that `spcatv.images` takes."""
    return [files[0] if len(files) == 1 else files for files in samples]


def _surface(options: Options) -> str | dict[str, str] | None:
    if options.surface is None:
        return options.template
    meshes = dict(zip(("left", "right"), options.surface, strict=True))
    return {side: str(mesh) for side, mesh in meshes.items() if mesh != NO_HEMISPHERE}


def _confounds(file: Path | None, columns: Sequence[str] | None, path_column: str | None) -> Any:
    """Return the table of confounds with the columns to use; None without a table."""
    if file is None:
        return None
    from spcatv.images.confounds import ConfoundColumns

    table = read_table(file)
    for name in columns or ():
        table.column(name)  # an error lists the columns
    return ConfoundColumns(table, None if columns is None else tuple(columns), path_column)


@contextmanager
def _named_errors(confounds: Path | None) -> Iterator[None]:
    """Turn an ImageError into an InputError that names the table of confounds as the user did."""
    from spcatv.images import ImageError

    try:
        yield
    except ImageError as error:
        message = str(error)
        if confounds is not None and message.startswith("confounds:"):
            message = f"{confounds}:{message.removeprefix('confounds:')}"
        raise InputError(message) from error
