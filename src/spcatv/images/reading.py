"""What happens to images while they are read: smoothing, resampling, and the cleaning of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spcatv.estimator.parameters import check_switch

# how the features of a run are scaled: not at all, by their standard deviation, or as percent of their mean
SCALINGS = ("none", "zscore_sample", "psc")
AUTO = "auto"
_SWITCHES = {True: "zscore_sample", False: "none", None: "none"}
# what standardize_runs does by default, in words
SCALED = "every run centred and scaled to unit variance"


@dataclass(frozen=True)
class Reading:
    """How images are read, in a fit and for new images.

    A run is an image with several volumes. Cleaning treats every run by itself, in the order of
    `nilearn.signal.clean`: trends, filters, confounds, scale.

    Examples
    --------
    >>> from spcatv.images import make_reading
    >>> reading = make_reading(smoothing_fwhm=6, high_pass=0.01, t_r=2.0)
    >>> reading.filters, reading.centres_runs
    (True, True)
    >>> settled = reading.settled(any_series=True)
    >>> settled.standardize_runs, settled.cleans
    ('zscore_sample', True)
    >>> make_reading(smoothing_fwhm=6).described()
    'smoothed with a kernel of 6 mm (FWHM)'
    """

    smoothing_fwhm: float | None = None  # width of a Gaussian kernel at half its maximum, in mm
    resample: bool = False  # whether images on other grids are resampled; otherwise they are refused
    # one of SCALINGS, or "auto": "zscore_sample" if any image is a time series, otherwise "none"
    standardize_runs: str = AUTO
    detrend: bool = False  # whether the linear trend of every feature is removed
    high_pass: float | None = None  # cutoff of the high-pass filter, in Hz
    low_pass: float | None = None  # cutoff of the low-pass filter, in Hz
    t_r: float | None = None  # seconds between volumes; None takes the time that each file states
    run_confounds: tuple[str, ...] = ()  # columns, patterns or strategies (`spcatv.images.run_confounds`)

    @property
    def filters(self) -> bool:
        """Whether a filter is applied, which needs the time between volumes."""
        return self.high_pass is not None or self.low_pass is not None

    @property
    def cleans(self) -> bool:
        """Whether anything is done to runs; "auto" must be settled first."""
        return self.standardize_runs != "none" or self.detrend or self.filters or bool(self.run_confounds)

    @property
    def centres_runs(self) -> bool:
        """Whether every feature of a run has mean zero afterwards."""
        return self.standardize_runs not in ("none", AUTO) or self.detrend or self.high_pass is not None

    def settled(self, any_series: bool) -> Reading:
        """The same with "auto" decided: runs are standardised if any image is a time series."""
        if self.standardize_runs != AUTO:
            return self
        return replace(self, standardize_runs="zscore_sample" if any_series else "none")

    def described(self) -> str:
        """What is done, in words; empty if nothing is."""
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


def make_reading(
    *,
    smoothing_fwhm: Any = None,
    resample: Any = False,
    standardize_runs: Any = AUTO,
    detrend: Any = False,
    high_pass: Any = None,
    low_pass: Any = None,
    t_r: Any = None,
    run_confounds: Any = None,
) -> Reading:
    """Check the parameters of an estimator that have these names.

    `standardize_runs` may be True or False as well, and `run_confounds` one word or several.

    Raises
    ------
    TypeError, ValueError
        Names the parameter.

    Examples
    --------
    >>> from spcatv.images import make_reading
    >>> reading = make_reading(smoothing_fwhm=6, standardize_runs=False)
    >>> reading.smoothing_fwhm, reading.standardize_runs
    (6.0, 'none')
    """
    is_switch = standardize_runs is None or isinstance(standardize_runs, (bool, np.bool_))
    scaling = _SWITCHES[standardize_runs] if is_switch else standardize_runs
    if not isinstance(scaling, str) or scaling not in (*SCALINGS, AUTO):
        raise ValueError(
            "standardize_runs must be True, False, 'auto', 'zscore_sample' or 'psc', got "
            f"{standardize_runs!r}"
        )
    reading = Reading(
        smoothing_fwhm=_positive("smoothing_fwhm", smoothing_fwhm),
        resample=_switch("resample", resample),
        standardize_runs=scaling,
        detrend=_switch("detrend", detrend),
        high_pass=_positive("high_pass", high_pass),
        low_pass=_positive("low_pass", low_pass),
        t_r=_positive("t_r", t_r),
        run_confounds=_words(run_confounds),
    )
    if (
        reading.high_pass is not None
        and reading.low_pass is not None
        and reading.high_pass >= reading.low_pass
    ):
        raise ValueError(
            f"high_pass ({reading.high_pass:g} Hz) must be below low_pass ({reading.low_pass:g} Hz): "
            "frequencies between the two are kept"
        )
    return reading


def _switch(name: str, value: Any) -> bool:
    check_switch(name, value)
    return bool(value)


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
    return tuple(words)
