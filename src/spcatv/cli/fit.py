"""`spca-tv fit`: from files to components, scores and a model on disk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spcatv.cli.folder import claimed_folder
from spcatv.cli.inputs import Source
from spcatv.cli.interruption import rerun_hint_on_interrupt
from spcatv.cli.options import FitOptions
from spcatv.cli.outputs import Outcome, summary_text, write_outcome
from spcatv.cli.progress import show_warnings
from spcatv.cli.request import Request, add_command, checked_request
from spcatv.cli.sparsity import check_sparsity, found_text, warn_if_missed
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters
from spcatv.progress import StageStarted, listening, tell
from spcatv.selection import alpha_for_sparsity

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DESCRIPTION = """\
Find a few components of images (NIfTI, GIFTI, FreeSurfer, CIFTI-2) or of an array:
coherent regions that vary together. Writes maps, scores, figures of merit and the
model into a folder."""
EXAMPLES = """\
examples:
  spca-tv fit 'maps/*.nii.gz' --output results
  spca-tv fit 'maps/*.nii.gz' --sparsity 0.9 --output results
  spca-tv fit participants.tsv --mask gm.nii.gz --confounds participants.tsv \\
      --confounds-columns age,sex --output results
  spca-tv fit 'subjects/*/surf/?h.thickness.mgh' --surface lh.pial rh.pial --output results
  spca-tv fit --array X.npy --shape 100,100 --output results
  spca-tv fit --config results/desc-SPCATV_config.toml --output again
"""


def add_parser(commands: Subparsers) -> argparse.ArgumentParser:
    """Declare the command and its options."""
    return add_command(
        commands,
        FitOptions,
        help="find the components of images or of an array",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )


def run(arguments: argparse.Namespace) -> None:
    """Fit, and write the results."""
    request = checked_request(arguments, FitOptions, _checked)
    display = request.display()
    with (
        rerun_hint_on_interrupt(request.output, arguments.argv),
        claimed_folder(request.output, overwrite=request.options.overwrite) as folder,
    ):
        with show_warnings(), display, listening(display):
            outcome = _fit(request)
        write_outcome(outcome, folder, config=request.config)
    if not request.quiet:
        print(summary_text(outcome, request.output))


def _checked(options: FitOptions, sources: Sequence[Source]) -> FitOptions:
    check_parameters(SPCATV(**options.model_parameters(), dtype=options.dtype))
    check_sparsity(options, (options.l1_ratio,))
    return options


def _fit(request: Request[FitOptions]) -> Outcome:
    """Read the samples, and fit them."""
    options = request.options
    data = request.read()
    model = SPCATV(structure=data.structure, dtype=data.dtype, **options.model_parameters())
    if options.sparsity is None:
        return Outcome(data, model.fit(data.matrix), (data.report,))
    tell(StageStarted("Searching for alpha"))
    choice = alpha_for_sparsity(model, data.matrix, options.sparsity)
    warn_if_missed(choice)
    return Outcome(data, choice.model, (data.report, found_text(choice)))
