"""Brain images on the command line: from the options to `spcatv.images`, and its errors back in a line."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib import effective_n_jobs

from spcatv._util.types import FloatArray
from spcatv.cli.errors import InputError
from spcatv.cli.inputs import Row
from spcatv.cli.options import NO_HEMISPHERE, CommonOptions
from spcatv.cli.outputs import COMPONENTS_STEM
from spcatv.cli.tables import Table, read_columns, read_table, selected_columns
from spcatv.estimator import SPCATV
from spcatv.structure import Structure

if TYPE_CHECKING:
    from spcatv.images import ImageSPCATV
    from spcatv.images.cohort import Cohort


CHUNK = 2**20

# precision of images, unless another is asked for
IMAGE_DTYPE = "float32"


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images that were read (`spcatv.cli.outputs.Data`).

    Attributes
    ----------
    cohort : Cohort
    structure : Structure
        Who is whose neighbour.
    parameters : dict
        What `ImageSPCATV` has and `SPCATV` has not.
    """

    cohort: Cohort
    structure: Structure
    parameters: dict[str, Any]

    @property
    def matrix(self) -> FloatArray:
        """The data matrix, shape (n_images, n_features)."""
        return self.cohort.X

    @property
    def dtype(self) -> str:
        """Precision of the data matrix."""
        return self.cohort.preparation.dtype

    @property
    def names(self) -> tuple[str, ...]:
        """One an image."""
        return self.cohort.names

    @property
    def report(self) -> str:
        """What was read."""
        n_dropped = self.cohort.dropped.n_dropped
        dropped = f", {n_dropped:,} of them dropped" if n_dropped else ""
        return f"Read {len(self.names)} images: {self.cohort.mask_report}{dropped}"

    def write_components(self, model: SPCATV, folder: Path) -> None:
        """Write the loadings as images in the space of the input."""
        from spcatv.images.saving import map_metadata

        self.write_maps(model.components_, folder, COMPONENTS_STEM, map_metadata(self._image_model(model)))

    def write_maps(self, rows: FloatArray, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write maps as images in the space of the input; zero outside of the mask."""
        self.cohort.space.write(rows, folder, stem, metadata=about)

    def save(self, model: SPCATV, folder: Path) -> None:
        """Write the model folder of an `ImageSPCATV`."""
        self._image_model(model).save(folder)

    def _image_model(self, model: SPCATV) -> ImageSPCATV:
        """The model as one of images."""
        from spcatv.images import ImageSPCATV

        shared = {name: value for name, value in model.get_params(deep=False).items() if name != "structure"}
        image_model = ImageSPCATV(**{**shared, **self.parameters})
        image_model.adopt_fit(model, self.cohort)
        return image_model


def read_images(options: CommonOptions, rows: Sequence[Row]) -> ImageData:
    """Read the images.

    Parameters
    ----------
    options : FitOptions or SelectOptions
        Effective options.
    rows : sequence of tuples of Path
        A file, or the files of two hemispheres, a sample.

    Returns
    -------
    ImageData
    """
    # imported here, so that arrays can be fitted without the extra
    from spcatv.images import read_cohort

    own: dict[str, Any] = {
        "mask": None if options.mask is None else str(options.mask),
        "surface": _surface(options),
        "bad_features": options.bad_features,
        "standardize": options.standardize,
        "dtype": options.dtype or IMAGE_DTYPE,
    }
    confounds = confounds_frame(options.confounds, options.confounds_columns, rows)
    with _named_errors(options.confounds), read_ahead(rows, options.n_jobs):
        cohort = read_cohort(_plain(rows), confounds=confounds, **own)
    return ImageData(cohort, cohort.space.structure(), own)


def score_images(
    folder: Path,
    rows: Sequence[Row],
    confounds: Path | None,
    columns: Sequence[str] | None,
) -> tuple[tuple[str, ...], FloatArray]:
    """Names and scores of new images on the components of a model.

    Parameters
    ----------
    folder : Path
        A model folder.
    rows : sequence of tuples of Path
        The new images.
    confounds : Path or None
        Their confounds, where the model was fitted with confounds.
    columns : sequence of str or None
        Columns of the confounds to use; by default those of the fit.

    Returns
    -------
    names : tuple of str
    scores : ndarray of shape (n_samples, n_components)
    """
    from spcatv.images import ImageSPCATV

    model = ImageSPCATV.load(folder)
    fitted = model.preparation_.confounds
    if columns is None and fitted is not None and fitted.columns:
        columns = fitted.columns
    names: list[str] = []

    def progress(number: int, total: int, name: str) -> None:
        names.append(name)

    with _named_errors(confounds):
        table = confounds_frame(confounds, columns, rows)
        scores = model.transform(_plain(rows), table, progress=progress)
    return tuple(names), scores


def _plain(rows: Sequence[Row]) -> list[Any]:
    """Paths, and pairs of paths, as `spcatv.images` takes them."""
    return [row[0] if len(row) == 1 else row for row in rows]


def _surface(options: CommonOptions) -> str | dict[str, str] | None:
    if options.surface is None:
        return options.template
    meshes = dict(zip(("left", "right"), options.surface, strict=True))
    return {side: str(mesh) for side, mesh in meshes.items() if mesh != NO_HEMISPHERE}


def confounds_frame(file: Path | None, columns: Sequence[str] | None, rows: Sequence[Row]) -> Any:
    """The chosen columns of a table as a DataFrame, so that the model knows their names; None for none."""
    if file is None:
        return None
    import pandas as pd  # comes with nilearn

    table = read_table(file)
    check_order(table, rows)
    names = selected_columns(table, columns)
    return pd.DataFrame(read_columns(table, names))


def check_order(table: Table, rows: Sequence[Row]) -> None:
    """Refuse a table whose own paths say that its rows are in another order than the images."""
    column = table.path_column()
    if column is None or len(table.rows) != len(rows):
        return  # nothing to compare; the number of rows is checked where that of the images is known
    for number, (cell, row) in enumerate(zip(table.column(column), rows, strict=True), start=1):
        if Path(cell).name not in {file.name for file in row}:
            raise InputError(
                f"{table.file}: row {number} is about {cell}, but image {number} is {row[0]}; put the rows "
                "in the order of the images, or name the images by this table"
            )


@contextmanager
def _named_errors(confounds: Path | None) -> Iterator[None]:
    """Turn what is wrong with the input into exit code 2, under the names that the user gave."""
    from spcatv.images import ImageError

    try:
        yield
    except ImageError as error:
        message = str(error)
        if confounds is not None and message.startswith("confounds:"):
            message = f"{confounds}:{message.removeprefix('confounds:')}"
        raise InputError(message) from error


@contextmanager
def read_ahead(rows: Sequence[Row], n_jobs: int) -> Iterator[None]:
    """Let threads read the files before they are needed: what is slow to reach is then in memory.

    The images themselves are decoded one by one, so that no two are held at the same time; a slow or
    distant disk no longer makes that wait.

    Parameters
    ----------
    rows : sequence of tuples of Path
        Files, in the order in which they will be needed.
    n_jobs : int
        Threads in all, the one that decodes included: 1 reads nothing ahead, -1 is one a core.
    """
    files = [file for row in rows for file in row]
    places = count()
    stop = threading.Event()

    def work() -> None:
        # next() on a counter is one step for Python: no two threads get the same file
        while not stop.is_set() and (place := next(places)) < len(files):
            _touch(files[place], stop)

    n_threads = min(effective_n_jobs(n_jobs) - 1, len(files))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _touch(file: Path, stop: threading.Event) -> None:
    """Read a file and forget it; what cannot be read is reported by whoever needs it."""
    try:
        with file.open("rb", buffering=0) as stream:
            while not stop.is_set() and stream.read(CHUNK):
                pass
    except OSError:
        return
