"""Verdicts on the components: which of them two random halves of the samples both find (`--n-splits`)."""

from __future__ import annotations

from typing import Any

from spcatv.cli.number import parts_of
from spcatv.cli.options import FitOptions, SelectOptions
from spcatv.estimator import SPCATV
from spcatv.results import SampleSet
from spcatv.stability import SplitHalves, split_halves

AUTO = "auto"
AUTO_SPLITS = 10
# Halves of fewer samples say little, and fewer than six groups have no ten different halves.
LEAST_SAMPLES = 10
LEAST_GROUPS = 6
# Values of the data matrix up to which the splits, each about as long as the fit itself, are made unasked.
MOST_VALUES = 50_000_000


def verdicts(
    options: FitOptions | SelectOptions, samples: SampleSet, model: SPCATV, groups: Any
) -> tuple[SplitHalves | None, str]:
    """Compare random halves of the samples as often as `--n-splits` asks for.

    "auto" makes ten splits where the data allow it. Samples of one group stay in one half. Returns the
    halves, None if none were fitted; and the verdicts, one line per component, or the reason why there are
    none.
    """
    if options.n_splits == 0:
        return None, ""
    reason = _objection(samples, groups) if options.n_splits == AUTO else ""
    if not reason:
        n_splits = AUTO_SPLITS if options.n_splits == AUTO else int(options.n_splits)
        parts = parts_of(options, samples, groups)
        try:
            halves = split_halves(
                model, samples.matrix, n_splits=n_splits, random_state=options.seed, **parts
            )
            found = halves.reproducibility
            return halves, "\n".join(f"Component {item.component + 1}: {item.sentence}" for item in found)
        except ValueError as error:  # the fit of all samples has gone well, and is kept
            reason = str(error)
    return None, f"Not known which components are reproducible: {reason}."


def _objection(samples: SampleSet, groups: Any) -> str:
    """Why no halves are compared unless a number of splits is given; empty if they are."""
    n_samples, n_features = samples.matrix.shape
    if n_samples < LEAST_SAMPLES:
        return f"random halves of {n_samples} samples say little (--n-splits N compares them all the same)"
    if groups is not None and len(set(groups)) < LEAST_GROUPS:
        return (
            f"random halves of {len(set(groups))} groups of samples say little (--n-splits N compares them "
            "all the same)"
        )
    if n_samples * n_features > MOST_VALUES:
        return (
            f"the data are large ({n_samples:,} x {n_features:,}), and every split into random halves takes "
            "about as long as the fit; ask for some with --n-splits N"
        )
    return ""
