"""Confounds of runs: one table per run, given or found beside it as fMRIPrep writes them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import entities_of
from spcatv._util.tables import LARGEST_TABLE
from spcatv._util.types import FloatArray
from spcatv.images.loading import ImageError, is_path, open_stream, reading
from spcatv.images.runs import Run

# how the tables of fMRIPrep end, and those of its versions before 20.2
ENDINGS = ("desc-confounds_timeseries.tsv", "desc-confounds_timeseries.csv", "desc-confounds_regressors.tsv")
# strategies by the names and with the columns of nilearn.interfaces.fmriprep.load_confounds
STRATEGIES: dict[str, tuple[str, ...]] = {
    "motion": ("trans_[xyz]*", "rot_[xyz]*"),
    "wm_csf": ("white_matter", "csf"),
    "global_signal": ("global_signal",),
    "high_pass": ("cosine*",),
}
# strategies that may find no column: fMRIPrep writes cosines for long runs only
MAY_BE_EMPTY = ("high_pass",)
# a strategy also removes the volumes before the scanner was steady, by one column for each
NOT_STEADY = "non_steady_state*"
REFUSED = {
    "scrub": "it would drop volumes",
    "compcor": "name the columns, such as 'a_comp_cor_0[0-4]'",
    "ica_aroma": "name the columns, such as 'aroma_motion_*'",
    "tedana": "give the tables themselves, confounds=[...]",
}


def is_per_run(confounds: Any) -> bool:
    """Whether confounds are a list with one table per image, rather than one table with a row per image."""
    return isinstance(confounds, (list, tuple)) and any(_is_table(item) for item in confounds)


def _is_table(item: Any) -> bool:
    return is_path(item) or hasattr(item, "columns") or (item is not None and np.ndim(item) == 2)


def check_words(words: Sequence[str]) -> None:
    """Refuse strategies of nilearn that cannot be used here."""
    for word in words:
        if word in REFUSED:
            raise ValueError(f"run_confounds: the strategy {word!r} cannot be used: {REFUSED[word]}")


def beside(run: Run) -> Path | None:
    """The table of fMRIPrep in the folder of a run, of which all entities but ``desc`` are the run's."""
    if not run.files:
        return None
    file = run.files[0]
    own = _entities(file)
    tables = [table for ending in ENDINGS for table in sorted(file.parent.glob(f"*_{ending}"))]
    fitting = [table for table in tables if _entities(table) and _entities(table) <= own]
    return max(fitting, key=lambda table: len(_entities(table)), default=None)


def _entities(file: Path) -> set[tuple[str, str]]:
    return {(key, value) for key, value in entities_of(str(file)).items() if key != "desc"}


def run_tables(runs: Sequence[Run], words: Sequence[str], given: Any = None) -> list[FloatArray | None]:
    """The confounds of every run, shape (n_volumes, n_confounds), or None for a run without.

    The words are columns, patterns of columns or strategies; without any, there are no confounds. `given`
    holds one table per run (path, DataFrame, array of two dimensions, or None for a run without confounds);
    by default, those beside the runs.
    """
    if not words:
        return [None] * len(runs)
    if given is None:
        return [_selected(_found(run), words, run) for run in runs]
    if len(given) != len(runs):
        raise ImageError(
            f"confounds: {len(given)} tables were given for {len(runs)} images; give one per image, None "
            "for an image without"
        )
    return [
        None if table is None else _selected(table, words, run)
        for table, run in zip(given, runs, strict=True)
    ]


def _found(run: Run) -> Path:
    table = beside(run)
    if table is None:
        raise ImageError(
            f"{run.name}: there is no table of confounds beside it (..._{ENDINGS[0]} with the same "
            "entities); give one table per run (confounds=[...])"
        )
    return table


def _selected(table: Any, words: Sequence[str], run: Run) -> FloatArray:
    """The columns of a table that the words name, each once."""
    import pandas as pd

    source = str(table) if is_path(table) else f"the confounds of {run.name}"
    if is_path(table):
        frame = _read(Path(table).expanduser())
    else:
        frame = table if hasattr(table, "columns") else pd.DataFrame(np.asarray(table))
    names = [str(name) for name in frame.columns]
    chosen = [name for name in names if name in _matches(names, words, source)]
    values = frame.iloc[:, [names.index(name) for name in chosen]]
    return _checked(values, source, chosen, run)


def _matches(names: Sequence[str], words: Sequence[str], source: str) -> set[str]:
    found: set[str] = set()
    for word in words:
        patterns = STRATEGIES.get(word, (word,))
        matched = {name for name in names for pattern in patterns if _fits(name, pattern)}
        if not matched and word not in MAY_BE_EMPTY:
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ImageError(
                f"{source}: no column is called or matches {word!r}; there are {known}, "
                f"and the strategies {', '.join(STRATEGIES)}"
            )
        found |= matched
        if word in STRATEGIES:
            found |= {name for name in names if fnmatchcase(name, NOT_STEADY)}
    return found


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _read(path: Path) -> Any:
    import pandas as pd

    if not path.is_file():
        raise ImageError(
            f"{path}: no such file; the confounds of a run are a table, TSV or CSV with a header"
        )
    with reading(path):
        with open_stream(path) as opened:
            content = opened.read(LARGEST_TABLE + 1)
            if len(content) > LARGEST_TABLE:
                raise ImageError(f"{path}: is too large for a table: more than {LARGEST_TABLE:,} bytes")
        comma = ".csv" in path.suffixes
        return pd.read_csv(io.BytesIO(content), sep="," if comma else "\t", na_values=["n/a"])


def _checked(frame: Any, source: str, names: Sequence[str], run: Run) -> FloatArray:
    try:
        values = np.array(frame, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ImageError(f"{source}: the confounds of a run must be numbers ({error})") from error
    if len(values) != run.n_samples:
        raise ImageError(
            f"{source}: has {len(values)} rows, but {run.name} has {run.n_samples} volumes; one row per "
            "volume is needed"
        )
    if len(values) > 1:
        # derivatives have no value for the first volume; nilearn takes that of the second, too
        values[0] = np.where(np.isfinite(values[0]), values[0], values[1])
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = map(int, wrong[0])
        raise ImageError(
            f"{source}: {len(wrong)} values are missing or infinite, first in row {row + 1}, column "
            f"{names[column]!r}"
        )
    return values
