"""Cleaned runs of a matrix that lies on disk: a second store beside that of the rows as they were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.images.matrix import Storage, row_kind
from spcatv.images.reading import Reading
from spcatv.images.row_store import Origin, digest, open_store
from spcatv.images.rows import StoredRows
from spcatv.images.runs import clean_runs, time_step
from spcatv.images.space import Samples, Space


def cleaned_rows(
    X: StoredRows,
    samples: Samples,
    space: Space,
    reading: Reading,
    tables: Sequence[FloatArray | None],
    storage: Storage,
) -> StoredRows:
    """The cleaned rows of all runs, on disk; one run is in memory at a time.

    `X` holds the rows as they were read, of the features of `space`; `tables` the confounds of every run.
    """
    assert storage.cache is not None
    images = samples.images()
    assert images is not None
    origins = [
        Origin(
            run.name,
            run.files,
            run.n_samples,
            digest(image.made_with, time_step(run, reading), [] if table is None else np.asarray(table)),
        )
        for run, image, table in zip(samples.runs, images, tables, strict=True)
    ]

    def make(number: int) -> tuple[FloatArray, tuple[str, ...]]:
        run = samples.runs[number]
        rows = np.asarray(X[run.start : run.stop])
        clean_runs(rows, [run.moved(-run.start)], reading, [tables[number]])
        return rows, ()

    kind = row_kind(samples, space, str(X.dtype), cleaning=asdict(reading))
    rows = open_store(storage.cache, kind).complete(origins, make, lambda _: None, 1)
    return StoredRows.open(rows, storage.budget)
