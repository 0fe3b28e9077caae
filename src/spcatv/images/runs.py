"""Runs: images with several volumes, each cleaned by itself with `nilearn.signal.clean`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.files import read_text
from spcatv._util.types import FloatArray
from spcatv.images.loading import ImageError
from spcatv.images.reading import Reading

# the residual of a feature counts as rounding error below this many units in the last place of its values
ROUNDING = 8
# values that are cleaned at a time: a run is cut into blocks of features, which do not depend on each other
BLOCK_VALUES = 2**22
SECONDS = {"msec": 1e-3, "usec": 1e-6}
# nilearn's Butterworth filter has this order, twice that between two cutoffs; SciPy extends a run at both
# ends by three times one more than the order, and the run must be longer
FILTER_ORDER, EXTENSION = 5, 3
# a header that states no unit means seconds, unless that is absurd
LONGEST = 100.0


class RunWarning(UserWarning):
    """Runs were treated in a way that was not explicitly asked for.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import RunWarning
    >>> warnings.filterwarnings("ignore", category=RunWarning)
    """


@dataclass(frozen=True)
class Run:
    """One image and the samples that it holds: rows ``start <= row < stop`` of the data matrix."""

    name: str  # file name, or place in the list
    start: int
    stop: int
    files: tuple[Path, ...] = ()  # empty for an image in memory
    t_r: float | None = None  # seconds between volumes, if the image states it
    series: bool = False  # whether its volumes are taken at successive times, as far as its format tells

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.stop - self.start

    def moved(self, by: int) -> Run:
        """The same run at another place in the data matrix."""
        return replace(self, start=self.start + by, stop=self.stop + by)


def consecutive(
    images: Iterable[tuple[str, int, Sequence[Path | None], float | None, bool]],
) -> tuple[Run, ...]:
    """Runs one after the other, from the name, number of samples, files, t_r and kind of every image.

    An image with one sample is no time series, whatever its kind.
    """
    runs: list[Run] = []
    stop = 0
    for name, n_samples, files, t_r, series in images:
        start, stop = stop, stop + n_samples
        known = () if None in files else tuple(file for file in files if file is not None)
        runs.append(Run(name, start, stop, known, t_r, series and n_samples > 1))
    return tuple(runs)


def header_t_r(step: float, unit: str) -> float | None:
    """Seconds between volumes, from the time step of a header and its unit; None if it states none."""
    seconds = float(step) * SECONDS.get(unit, 1.0)
    known = unit in SECONDS or unit == "sec"
    return seconds if seconds > 0 and (known or seconds < LONGEST) else None


def check_runs(runs: Sequence[Run], reading: Reading, confounds: Sequence[FloatArray | None]) -> None:
    """Refuse runs that cannot be cleaned as asked for, before their values are read; names the first."""
    if not reading.cleans:
        return
    if not runs:
        raise ImageError(f"images of this kind have no runs that could be cleaned ({reading.described()})")
    for run, table in zip(runs, confounds, strict=True):
        if run.n_samples < 2:
            raise ImageError(
                f"{run.name}: is a single volume, and runs are cleaned as a whole ({reading.described()}); "
                "give runs of several volumes only, or ask for no cleaning (standardize_runs=False, "
                "--no-standardize-runs, and no filter, detrending or confounds of runs)"
            )
        _check_degrees(run, reading, table)
        if reading.filters:
            _check_length(run, reading)
            _check_cutoff(run, reading)


def clean_runs(
    X: FloatArray, runs: Sequence[Run], reading: Reading, confounds: Sequence[FloatArray | None]
) -> None:
    """Clean every run of X (n_samples, n_features) by itself, in place; `check_runs` comes first.

    The confounds of a run have shape (n_volumes, n_confounds), or are None. An ImageError names a run that
    cannot be cleaned.
    """
    for run, table in zip(runs, confounds, strict=True):
        t_r = time_step(run, reading)
        rows = X[run.start : run.stop]
        width = max(1, BLOCK_VALUES // run.n_samples)
        for first in range(0, X.shape[1], width):
            rows[:, first : first + width] = _cleaned(
                rows[:, first : first + width], run, reading, table, t_r
            )


def _cleaned(
    values: FloatArray, run: Run, reading: Reading, confounds: FloatArray | None, t_r: float | None
) -> FloatArray:
    """Some features of a run, cleaned; shape (n_volumes, n_features)."""
    from nilearn.signal import clean

    before = values.astype(np.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on parameters whose names and values change
            after = clean(
                before.copy(),
                detrend=reading.detrend,
                standardize=False,
                confounds=confounds if confounds is not None and confounds.size else None,
                low_pass=reading.low_pass,
                high_pass=reading.high_pass,
                t_r=t_r,
            )
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ImageError(f"{run.name}: its {run.n_samples} volumes cannot be cleaned: {reason}") from error
    return _scaled(np.asarray(after), before, reading.standardize_runs, float(np.finfo(values.dtype).eps))


def _scaled(after: FloatArray, before: FloatArray, how: str, precision: float) -> FloatArray:
    """Centre and scale features of a run, by the names of `SCALINGS`.

    Features of which nothing but rounding errors is left become constant: these must not be scaled up.
    """
    mean, level = before.mean(axis=0), after.mean(axis=0)
    rounding = ROUNDING * precision * (np.abs(mean) + before.std(axis=0))
    centred: FloatArray = after - level
    spread = centred.std(axis=0, ddof=1)
    centred[:, spread <= rounding] = 0
    if how == "none":
        return centred + np.where(np.abs(level) <= rounding, 0, level)
    size = spread if how == "zscore_sample" else np.abs(mean) / 100
    return centred / np.where(size > rounding, size, np.inf)


def _check_degrees(run: Run, reading: Reading, confounds: FloatArray | None) -> None:
    """Refuse to fit a run by as many regressors as it has volumes: only rounding errors would be left."""
    n_confounds = 0 if confounds is None else confounds.shape[1]
    used = 1 + int(reading.detrend) + n_confounds
    if n_confounds and used >= run.n_samples:
        raise ImageError(
            f"{run.name}: has {run.n_samples} volumes, but {n_confounds} confounds are to be removed: "
            "nothing would be left; choose fewer columns (run_confounds=, --run-confounds)"
        )


def _check_length(run: Run, reading: Reading) -> None:
    """Refuse to filter a run that is shorter than what SciPy extends it by."""
    both = reading.high_pass is not None and reading.low_pass is not None
    needed = EXTENSION * (FILTER_ORDER * (2 if both else 1) + 1) + 1
    if run.n_samples < needed:
        names = "high_pass and low_pass" if both else "high_pass" if reading.low_pass is None else "low_pass"
        raise ImageError(
            f"{run.name}: has {run.n_samples} volumes, and {names} {'need' if both else 'needs'} at least "
            f"{needed}; leave such runs out (exclude=, --exclude), or filter none: detrend=True (--detrend) "
            "removes slow drifts from runs of any length"
        )


def _check_cutoff(run: Run, reading: Reading) -> None:
    """Refuse to remove all frequencies that the volumes of a run can show."""
    t_r = _t_r(run, reading)
    if reading.high_pass is not None and reading.high_pass >= 0.5 / t_r:
        raise ImageError(
            f"{run.name}: a volume every {t_r:g} s shows frequencies up to {0.5 / t_r:g} Hz, and high_pass "
            f"({reading.high_pass:g} Hz) removes them all; lower it (--high-pass), or correct t_r (--t-r)"
        )


def time_step(run: Run, reading: Reading) -> float | None:
    """Seconds between the volumes of a run; None if nothing depends on them."""
    return _t_r(run, reading) if reading.filters else None


def _t_r(run: Run, reading: Reading) -> float:
    found = reading.t_r or stated_t_r(run)
    if not found:
        raise ImageError(
            f"{run.name}: does not state the time between its volumes, which a filter needs; give it in "
            "seconds (t_r=, --t-r)"
        )
    return found


def common_t_r(runs: Sequence[Run], reading: Reading) -> float | None:
    """Return the seconds between volumes, as given or as all runs state them; None if they differ."""
    times = {reading.t_r or stated_t_r(run) for run in runs if run.n_samples > 1}
    rounded = {None if seconds is None else round(float(seconds), 6) for seconds in times}
    return rounded.pop() if len(rounded) == 1 else None


def stated_t_r(run: Run) -> float | None:
    """Seconds between volumes as the run or the JSON file beside it states them; None if they do not."""
    return run.t_r or _sidecar_t_r(run.files)


def _sidecar_t_r(files: Sequence[Path]) -> float | None:
    """The RepetitionTime of the JSON file beside a run, as BIDS has it."""
    for file in files:
        sidecar = file.with_name(file.name.split(".")[0] + ".json")
        try:
            content: Any = json.loads(read_text(sidecar, "JSON file", ImageError))
            return float(content["RepetitionTime"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
