"""`spca-tv fit`: from files to components, scores and a model on disk."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spcatv._util.tables import aligned
from spcatv._util.warn import warn_user
from spcatv.cli.inputs import Source
from spcatv.cli.interruption import rerun_hint_on_interrupt
from spcatv.cli.options import FitOptions
from spcatv.cli.progress import show_warnings
from spcatv.cli.request import Request, add_command, check_sparsity, checked_request
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters
from spcatv.progress import StageStarted, listening, tell
from spcatv.results import SampleSet, claimed_folder, write_results
from spcatv.selection import SelectionWarning, SparsityChoice, alpha_for_sparsity

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
            samples, model, lines = _fit(request)
        metrics = write_results(folder, samples, model, config=request.config)
    if not request.quiet:
        print(summary_text(lines, metrics, request.output))


def _checked(options: FitOptions, sources: Sequence[Source]) -> FitOptions:
    check_parameters(SPCATV(**options.model_parameters(), dtype=options.dtype))
    check_sparsity(options, (options.l1_ratio,))
    return options


def _fit(request: Request[FitOptions]) -> tuple[SampleSet, SPCATV, list[str]]:
    """Read the samples and fit them; the lines say what was read and found."""
    options = request.options
    samples = request.read()
    model = SPCATV(structure=samples.structure, dtype=samples.dtype, **options.model_parameters())
    if options.sparsity is None:
        return samples, model.fit(samples.matrix), [samples.summary]
    tell(StageStarted("Searching for alpha"))
    choice = alpha_for_sparsity(model, samples.matrix, options.sparsity)
    _warn_if_missed(choice)
    return samples, choice.model, [samples.summary, _found_text(choice)]


def _warn_if_missed(choice: SparsityChoice) -> None:
    """Warn where no alpha gives the wanted share of zeros."""
    for number, search in enumerate(choice.searches, start=1):
        if not search.reached:
            where = f" of component {number}" if len(choice.searches) > 1 else ""
            warn_user(
                f"no alpha gives the share of zeros {search.target:g}{where}; closest is "
                f"{search.chosen.sparsity:.3f} at alpha {search.chosen.alpha:.4g}",
                SelectionWarning,
            )


def _found_text(choice: SparsityChoice) -> str:
    """The alphas that were found, in one line."""
    wanted = ", ".join(f"{100 * search.target:g} %" for search in choice.searches)
    alphas = ", ".join(f"{alpha:.4g}" for alpha in choice.alphas)
    n_fits = sum(len(search.evaluations) for search in choice.searches)
    return f"Found alpha {alphas} for {wanted} zeros in {n_fits} fits"


def summary_text(lines: Sequence[str], metrics: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """What to print at the end: what was read and done, the components, and where the results are.

    Parameters
    ----------
    lines : sequence of str
        What was read and done.
    metrics : sequence of mapping
        One per component, from `write_results`.
    folder : Path
        The results folder.
    """
    header = ("component", "variance", "zeros", "clusters", "relative gap", "converged", "seconds")
    rows = [
        (
            str(row["component"]),
            f"{100 * row['explained_variance_ratio']:.2f} %",
            f"{100 * row['sparsity']:.1f} %",
            "-" if row["n_clusters"] is None else str(row["n_clusters"]),
            f"{row['relative_gap']:.1e}",
            "yes" if row["converged"] else "NO",
            f"{row['seconds']:.2f}",
        )
        for row in metrics
    ]
    return "\n".join([*lines, "", aligned(header, rows), "", f"Results: {folder}"])
