"""`spca-tv demo`: the paper's simulated images, then simulated cohorts on real brains through files."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from spcatv.cli.kinds import InputError, Subparsers
from spcatv.cli.progress import show_warnings
from spcatv.progress import SILENT, listening
from spcatv.progress.printing import LinePrinter


def add_parser(commands: Subparsers) -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "demo",
        help="see the method at work on simulated images and cohorts",
        description=(
            "Three parts, each with a table and a picture. dots: the images of the paper; PCA, elastic-net "
            "PCA and SPCA-TV are compared on held-out images and with the truth. volume, surface: simulated "
            "cohorts on the grey matter of the MNI152 template and on the cortex of fsaverage5, written as "
            "NIfTI and GIFTI files, fitted with `spca-tv fit`, read again, and shown by `spca-tv report`. "
            "Nothing is downloaded."
        ),
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for pictures, tables and files, made if needed (default: ./demo-output)",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of the simulated data, an integer >= 0 (default: 0)",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=("dots", "volume", "surface"),
        metavar="PART",
        help="run this part only: dots, volume or surface (may be given several times)",
    )
    parser.add_argument("--open", action="store_true", help="show the reports in the browser at the end")
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    return parser


def run(arguments: argparse.Namespace) -> None:
    """Run the demonstration."""
    # imported here, so that every command costs only what it needs itself
    from spcatv.cli import main
    from spcatv.demo import PARTS, prepare_folder, run_demo

    try:
        prepare_folder(arguments.output)
    except OSError as error:
        raise InputError(
            f"cannot write to the output folder {arguments.output} ({error.strerror}); "
            "choose another with --output"
        ) from error
    with show_warnings(), listening(SILENT if arguments.quiet else LinePrinter()):
        reports = run_demo(arguments.output, spca_tv=main, parts=arguments.only or PARTS, seed=arguments.seed)
    if arguments.open:
        for report in reports:
            webbrowser.open(report.resolve().as_uri())


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if seed < 0:
        raise argparse.ArgumentTypeError(f"a seed is an integer >= 0, got {text!r}")
    return seed
