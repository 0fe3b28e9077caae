"""Preprocessing of images while they are read: smoothing, resampling, and the cleaning of runs.

A run is an image with several volumes. Each is cleaned by itself with `nilearn.signal.clean`.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.estimator._validation import check_switch
from spcatv.images.files import ImageError

if TYPE_CHECKING:
    from spcatv.images.spaces.base import Run

# strategies of nilearn.interfaces.fmriprep.load_confounds that cannot be used, and why
REFUSED = {"scrub": "it would drop volumes", "tedana": "give the tables themselves, confounds=[...]"}
# scales of the features of a run: none, their standard deviation, or percent of their mean
SCALINGS = ("none", "zscore_sample", "psc")
AUTO = "auto"
_SWITCHES = {True: "zscore_sample", False: "none", None: "none"}
# description of "zscore_sample", which is the default for time series
SCALED = "every run centred and scaled to unit variance"
# residuals of a feature below this many units in the last place of its values count as rounding errors
ROUNDING = 8
# values that are cleaned at a time: features do not depend on each other
BLOCK_VALUES = 2**22
# nilearn's Butterworth filter has this order, twice that between two cutoffs. SciPy extends a run at both
# ends by three times one more than the order, and the run must be longer.
FILTER_ORDER, EXTENSION = 5, 3


class RunWarning(UserWarning):
    """Runs were treated by a default that depends on the images.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import RunWarning
    >>> warnings.filterwarnings("ignore", category=RunWarning)
    """


@dataclass(eq=False, repr=False)
class ReadingParameters:
    """Parameters of the estimators of images only."""

    _: KW_ONLY
    mask: Any = None
    surface: Any = None
    bad_features: str = "drop"
    standardize: bool = False
    smoothing_fwhm: float | None = None
    resample: bool = False
    target_affine: Any = None
    standardize_runs: bool | str = "auto"
    detrend: bool = False
    high_pass: float | None = None
    low_pass: float | None = None
    t_r: float | None = None
    run_confounds: str | Sequence[str] | None = None
    cache: str | os.PathLike[str] | None = None


def _positive(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, (bool, str)) or not np.isscalar(value):
        raise TypeError(f"{name} must be a number or None, got {value!r}")
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"{name} must be above 0, or None, got {value!r}")
    return number


def _words(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    words: Sequence[Any] = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(word, str) and word.strip() for word in words):
        raise TypeError(f"run_confounds must be names of columns or of strategies, got {value!r}")
    for word in words:
        if word in REFUSED:
            raise ValueError(f"run_confounds: the strategy {word!r} cannot be used: {REFUSED[word]}")
    return tuple(words)


@dataclass(frozen=True)
class Reading:
    """Preprocessing of the images of a fit, and of new images; a wrong value is refused.

    Cleaning treats every run by itself, in the order of `nilearn.signal.clean`: trends, filters, confounds,
    scale. The values may be those of the parameters of `ImageSPCATV`: True or False for `standardize_runs`,
    one word or several for `run_confounds`.

    Examples
    --------
    >>> from spcatv.images import Reading
    >>> reading = Reading(smoothing_fwhm=6, high_pass=0.01, t_r=2.0)
    >>> reading.filters, reading.centres_runs
    (True, True)
    >>> settled = reading.settled(any_series=True)
    >>> settled.standardize_runs, settled.cleans
    ('zscore_sample', True)
    >>> Reading(smoothing_fwhm=6, standardize_runs=False).described()
    'smoothed with a kernel of 6 mm (FWHM)'
    """

    smoothing_fwhm: float | None = None  # width of a Gaussian kernel at half its maximum, in mm
    resample: bool = False  # resample images on other grids; otherwise they are refused
    # one of SCALINGS, or "auto": "zscore_sample" if any image is a time series, otherwise "none"
    standardize_runs: Any = AUTO
    detrend: bool = False  # remove the linear trend of every feature
    high_pass: float | None = None  # cutoff of the high-pass filter, in Hz
    low_pass: float | None = None  # cutoff of the low-pass filter, in Hz
    t_r: float | None = None  # seconds between volumes; None takes the time that each file states
    run_confounds: tuple[str, ...] = ()  # columns, patterns or strategies (`spcatv.images.confounds`)

    def __post_init__(self) -> None:
        """Refuse wrong values, and bring the others to one form."""
        given = self.standardize_runs
        is_switch = given is None or isinstance(given, (bool, np.bool_))
        scaling = _SWITCHES[given] if is_switch else given
        if not isinstance(scaling, str) or scaling not in (*SCALINGS, AUTO):
            raise ValueError(
                f"standardize_runs must be True, False, 'auto', 'zscore_sample' or 'psc', got {given!r}"
            )
        for name in ("resample", "detrend"):
            check_switch(name, getattr(self, name))
            object.__setattr__(self, name, bool(getattr(self, name)))
        for name in ("smoothing_fwhm", "high_pass", "low_pass", "t_r"):
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        object.__setattr__(self, "standardize_runs", scaling)
        object.__setattr__(self, "run_confounds", _words(self.run_confounds))
        high, low = self.high_pass, self.low_pass
        if high is not None and low is not None and high >= low:
            raise ValueError(
                f"high_pass ({high:g} Hz) must be below low_pass ({low:g} Hz): frequencies between the two "
                "are kept"
            )

    @property
    def filters(self) -> bool:
        """True if runs are filtered, which needs the time between volumes."""
        return self.high_pass is not None or self.low_pass is not None

    @property
    def cleans(self) -> bool:
        """True if runs are cleaned at all; "auto" must be settled first."""
        return self.standardize_runs != "none" or self.detrend or self.filters or bool(self.run_confounds)

    @property
    def centres_runs(self) -> bool:
        """True if every feature of a run has mean zero afterwards."""
        return self.standardize_runs not in ("none", AUTO) or self.detrend or self.high_pass is not None

    def settled(self, any_series: bool) -> Reading:
        """Return the same with "auto" settled: runs are standardised if any image is a time series."""
        if self.standardize_runs != AUTO:
            return self
        return replace(self, standardize_runs="zscore_sample" if any_series else "none")

    def described(self) -> str:
        """Return a description of the steps; empty if there are none."""
        steps = []
        if self.smoothing_fwhm is not None:
            steps.append(f"smoothed with a kernel of {self.smoothing_fwhm:g} mm (FWHM)")
        if self.run_confounds:
            which = "" if self.run_confounds == ("*",) else f" ({', '.join(self.run_confounds)})"
            steps.append(f"confounds{which} removed from every run")
        if self.detrend:
            steps.append("every run detrended")
        if self.filters:
            cutoffs = {"high-pass": self.high_pass, "low-pass": self.low_pass}
            which = " and ".join(
                f"{name} {value:g} Hz" for name, value in cutoffs.items() if value is not None
            )
            steps.append(f"every run filtered ({which})")
        if self.standardize_runs == "zscore_sample":
            steps.append(SCALED)
        if self.standardize_runs == "psc":
            steps.append("every run in percent of its mean")
        return ", ".join(steps)


NOTHING = Reading(standardize_runs="none")


def check_runs(runs: Sequence[Run], reading: Reading, confounds: Sequence[FloatArray | None]) -> None:
    """Refuse runs that cannot be cleaned, before their values are read."""
    if not reading.cleans:
        return
    for run, table in zip(runs, confounds, strict=True):
        if run.n_samples < 2:
            raise ImageError(
                f"{run.name}: is a single volume, and runs are cleaned as a whole ({reading.described()}); "
                "give runs of several volumes only, or turn cleaning off (standardize_runs=False, "
                "and no filter, detrending or confounds of runs)"
            )
        _check_degrees(run, reading, table)
        if reading.filters:
            _check_filter(run, reading)


def clean_run(X: FloatArray, run: Run, reading: Reading, confounds: FloatArray | None) -> None:
    """Clean the samples of a run, shape (n_volumes, n_features), in place; `check_runs` comes first."""
    if not reading.cleans:
        return
    width = max(1, BLOCK_VALUES // run.n_samples)
    for first in range(0, X.shape[1], width):
        part = slice(first, first + width)
        X[:, part] = _cleaned(X[:, part], run, reading, confounds)


def _cleaned(values: FloatArray, run: Run, reading: Reading, confounds: FloatArray | None) -> FloatArray:
    """Return some features of a run, cleaned; shape (n_volumes, n_features)."""
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
                t_r=time_step(run, reading),
            )
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ImageError(f"{run.name}: its {run.n_samples} volumes cannot be cleaned: {reason}") from error
    return _scaled(np.asarray(after), before, reading.standardize_runs, float(np.finfo(values.dtype).eps))


def _scaled(after: FloatArray, before: FloatArray, how: str, precision: float) -> FloatArray:
    """Centre and scale features of a run, by the names of `SCALINGS`; rounding errors become constant."""
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
            "nothing would be left; choose fewer columns (run_confounds=)"
        )


def _check_filter(run: Run, reading: Reading) -> None:
    """Refuse a run that is too short for SciPy, or a filter that removes all frequencies of a run."""
    both = reading.high_pass is not None and reading.low_pass is not None
    needed = EXTENSION * (FILTER_ORDER * (2 if both else 1) + 1) + 1
    if run.n_samples < needed:
        one = "high_pass" if reading.low_pass is None else "low_pass"
        names = "high_pass and low_pass need" if both else f"{one} needs"
        raise ImageError(
            f"{run.name}: has {run.n_samples} volumes, and {names} at least {needed}; leave such runs out "
            "(exclude=), or filter none: detrend=True removes slow drifts from runs "
            "of any length"
        )
    t_r = time_step(run, reading)
    if reading.high_pass is not None and t_r is not None and reading.high_pass >= 0.5 / t_r:
        raise ImageError(
            f"{run.name}: a volume every {t_r:g} s shows frequencies up to {0.5 / t_r:g} Hz, and high_pass "
            f"({reading.high_pass:g} Hz) removes them all; lower it, or correct t_r"
        )


def time_step(run: Run, reading: Reading) -> float | None:
    """Return the seconds between the volumes of a run; None if nothing depends on them."""
    if not reading.filters:
        return None
    found = reading.t_r or run.t_r
    if not found:
        raise ImageError(
            f"{run.name}: does not state the time between its volumes, which a filter needs; give it in "
            "seconds (t_r=)"
        )
    return found


def common_t_r(runs: Sequence[Run], reading: Reading) -> float | None:
    """Return the seconds between volumes, as given or as all runs state them; None if they differ."""
    times = {reading.t_r or run.t_r for run in runs if run.n_samples > 1}
    rounded = {None if seconds is None else round(float(seconds), 6) for seconds in times}
    return rounded.pop() if len(rounded) == 1 else None
