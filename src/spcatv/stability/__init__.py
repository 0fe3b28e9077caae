"""Verdicts of random halves and bootstrap frequencies of resamples (docs/method.md section 6.6).

Resampled fits and fits of random halves, each matched to the fit of all samples. The tests of significance
are at hand here, too.
"""

from __future__ import annotations

from spcatv.estimator.verdicts import Reproducibility
from spcatv.significance import PairedTest, paired_t_test, sign_flip_test
from spcatv.stability.halves import SplitHalves, split_halves
from spcatv.stability.resampling import Bootstrap, Region, bootstrap_components

__all__ = [
    "Bootstrap",
    "PairedTest",
    "Region",
    "Reproducibility",
    "SplitHalves",
    "bootstrap_components",
    "paired_t_test",
    "sign_flip_test",
    "split_halves",
]
