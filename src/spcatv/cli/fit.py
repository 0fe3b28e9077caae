"""`spca-tv fit`: from files to components, scores and a model on disk."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spcatv.cli.arrays import fit_array
from spcatv.cli.config import config_text, read_config
from spcatv.cli.errors import InputError
from spcatv.cli.folder import claimed_folder
from spcatv.cli.images import fit_images
from spcatv.cli.inputs import Row, Source, sample_files
from spcatv.cli.options import FitOptions, add_arguments, add_speech, effective_options
from spcatv.cli.outputs import CONFIG_NAME, Outcome, summary_text, write_outcome
from spcatv.cli.progress import Display, choose_display, set_up_log, show_warnings
from spcatv.estimator import SPCATV
from spcatv.parameters import check_parameters
from spcatv.watching import watched_by

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DESCRIPTION = """\
Find a few components of images (NIfTI, GIFTI, FreeSurfer, CIFTI-2) or of an array:
coherent regions that vary together. Writes maps, scores, figures of merit and the
model into a folder."""
EXAMPLES = """\
examples:
  spca-tv fit 'maps/*.nii.gz' --output results
  spca-tv fit participants.tsv --mask gm.nii.gz --confounds participants.tsv \\
      --confounds-columns age,sex --output results
  spca-tv fit 'subjects/*/surf/?h.thickness.mgh' --surface lh.pial rh.pial --output results
  spca-tv fit --array X.npy --shape 100,100 --output results
  spca-tv fit --config results/desc-SPCATV_config.toml --output again
"""


def add_parser(commands: Subparsers) -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "fit",
        help="find the components of images or of an array",
        usage="spca-tv fit IMAGES... --output DIR [options]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "images",
        nargs="*",
        metavar="IMAGES",
        help="files, folders, patterns in quotes, text files of paths (.txt, one a line), or tables (.tsv, "
        ".csv) with a column of paths",
    )
    of_the_run = add_arguments(parser)
    of_the_run.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file that holds any of these options"
    )
    add_speech(of_the_run)
    return parser


@dataclass(frozen=True)
class Request:
    """What to do, checked as far as that goes without reading data.

    Attributes
    ----------
    options : FitOptions
        Effective options.
    rows : tuple of tuple of Path, or None
        The files of every sample; ``None`` for an array.
    output : Path
        Where the results shall be.
    config : str
        The effective configuration.
    """

    options: FitOptions
    rows: tuple[Row, ...] | None
    output: Path
    config: str


def run(arguments: argparse.Namespace) -> None:
    """Fit, and write the results."""
    configured = read_config(arguments.config) if arguments.config is not None else {}
    quiet = bool(arguments.quiet or configured.get("quiet", False))
    verbose = int(arguments.verbose or configured.get("verbose", 0))
    set_up_log(verbose)
    request = checked_request(vars(arguments), configured)
    options = request.options
    display = choose_display(options.n_components, options.tol, quiet=quiet, verbose=verbose)
    with (
        _says_how_to_go_on(request.output, arguments.argv),
        claimed_folder(request.output, overwrite=options.overwrite) as folder,
    ):
        with show_warnings(), display, watched_by(display):
            outcome = _fit(request, display)
        write_outcome(outcome, folder, config=request.config)
    if not quiet:
        print(summary_text(outcome, request.output))


def checked_request(given: dict[str, Any], configured: dict[str, Any]) -> Request:
    """Put the options together and check them, the model's parameters and that the files are there.

    Parameters
    ----------
    given : dict
        What the command line holds.
    configured : dict
        What the configuration file holds.

    Returns
    -------
    Request

    Raises
    ------
    InputError
        For the first thing that is wrong.
    """
    options = effective_options(given, configured)
    sources: Sequence[Source] = given["images"] or configured.get("images", [])
    if sources and options.array is not None:
        if "array" in given and not given["images"]:
            sources = []  # the command line goes before the file, whatever the kind of input
        elif given["images"] and "array" not in given:
            options = effective_options(given, {**configured, "array": None})
        else:
            raise InputError("give either images or --array, not both")
    if options.output is None:
        raise InputError("no output folder: name one with --output DIR")
    try:
        check_parameters(SPCATV(**options.model_parameters(), dtype=options.dtype))
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
    rows = None
    if options.array is None:
        _refuse(options, ("shape", "voxel_size", "periodic"), "--array")
        rows = sample_files(sources, path_column=options.path_column)
        if options.surface is not None and options.template is not None:
            raise InputError("give either --surface or --template, not both")
    else:
        _refuse(options, ("surface", "template", "confounds", "path_column"), "images")
        if options.standardize:
            raise InputError("--standardize goes with images; standardise the array yourself")
    config = config_text(options, rows, name=CONFIG_NAME)
    return Request(options, rows, options.output, config)


def _refuse(options: FitOptions, names: Sequence[str], needed: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} goes with {needed} only")


def _fit(request: Request, display: Display) -> Outcome:
    if request.rows is None:
        return fit_array(request.options)
    return fit_images(request.options, request.rows, display)


@contextmanager
def _says_how_to_go_on(output: Path, argv: Sequence[str]) -> Iterator[None]:
    """Turn an interruption, from the keyboard or by a scheduler, into a line that helps."""
    try:
        with _termination_interrupts():
            yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"interrupted; nothing was written to {output}. To start again: {shlex.join(['spca-tv', *argv])}"
        ) from error


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let a request to terminate (SIGTERM) end the work as Ctrl-C does, so that it leaves nothing behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
