"""The number of components, chosen by what they explain of samples held out (`--n-components auto`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spcatv._util.parameters import PENALISED_PARAMETERS, TARGET_PARAMETERS
from spcatv.cli.kinds import InputError
from spcatv.cli.options import CommonOptions, OptionsKind
from spcatv.estimator import SPCATV
from spcatv.results import SampleSet
from spcatv.selection import ComponentCurve, component_curve
from spcatv.selection.components import most_components

AUTO = "auto"
N_FOLDS = 5


def check_number(options: CommonOptions) -> None:
    """Refuse options that do not go with the way in which the number of components is given."""
    if options.n_components != AUTO:
        if options.max_components is not None:
            raise InputError("--max-components goes with --n-components auto")
        return
    sparsity = getattr(options, "sparsity", None) if options.command == "fit" else None
    if np.ndim(sparsity or 0) > 0:
        raise InputError("--n-components auto takes one --sparsity for all components")


def with_number(
    options: OptionsKind, samples: SampleSet, groups: Any
) -> tuple[OptionsKind, ComponentCurve | None]:
    """The options with a number instead of "auto", and the curve that it was chosen by, if it was.

    `select` compares settings with the number that the default setting of `fit` gives.
    """
    if options.n_components != AUTO:
        return options, None
    parameters = options.model_parameters()
    if options.command != "fit":
        ways = (*TARGET_PARAMETERS, *PENALISED_PARAMETERS)
        parameters = {name: value for name, value in parameters.items() if name not in ways}
    n_blocks = samples.matrix.shape[0] if groups is None else len(set(groups))
    if n_blocks < 2:
        raise InputError("--n-components auto needs at least two groups of samples")
    most = options.max_components or most_components(n_blocks)
    try:
        curve = component_curve(
            SPCATV(structure=samples.structure, dtype=samples.dtype, **parameters),
            samples.matrix,
            max_components=most,
            cv=min(N_FOLDS, n_blocks),
            **parts_of(options, samples, groups),
        )
    except ValueError as error:
        raise InputError(f"--n-components auto: {error}") from error
    return replace(options, n_components=curve.choice.n_components), curve


def parts_of(options: CommonOptions, samples: SampleSet, groups: Any) -> dict[str, Any]:
    """How folds, resamples and halves treat their part of the samples, as arguments of the functions."""
    return {
        "groups": groups,
        "standardize": samples.adjustment.standardize,
        "confounds": samples.adjustment.confounds,
        "n_jobs": options.n_workers,
    }


def number_text(curve: ComponentCurve | None) -> list[str]:
    """The choice in words, in one line; no line if the number was given."""
    if curve is None:
        return []
    choice = curve.choice
    return [f"Number of components: {choice.n_components}. {choice.reason}"]
