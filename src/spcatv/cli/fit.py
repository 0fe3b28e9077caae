"""`spca-tv fit`: from files to components, scores and a model on disk."""

from __future__ import annotations

import argparse

import numpy as np

from spcatv._util.devices import check_device
from spcatv.cli.config import Options
from spcatv.cli.parser import input_errors
from spcatv.cli.pipeline import (
    Groups,
    Outcome,
    Request,
    announce,
    check_number,
    model_parameters,
    read_samples,
    run_command,
    verdicts,
    with_number,
)
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import check_parameters, check_some_left


def run(arguments: argparse.Namespace) -> None:
    """Fit, and write the results."""
    run_command(arguments, _checked, _fit)


def _checked(options: Options) -> Options:
    check_number(options)
    check_parameters(SPCATV(**model_parameters(options), dtype=options.dtype))
    check_device(options.device)
    return options


def _fit(request: Request) -> Outcome:
    """Read the samples, fit them, and compare random halves of them."""
    samples = read_samples(request)
    if request.options.sparsity is not None:
        with input_errors(ValueError):
            check_some_left(np.atleast_1d(request.options.sparsity), samples.matrix.shape[1])
    announce(request, samples)
    options, count = with_number(request.options, samples)
    model = SPCATV(structure=samples.structure, dtype=samples.dtype, **model_parameters(options))
    model.fit(samples.matrix)
    halves, verdict = verdicts(options, samples, model, samples.groups)
    return Outcome(samples, model, Groups(samples.groups), count, halves, verdict)
