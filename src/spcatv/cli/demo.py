"""`spca-tv demo`: the paper's simulation, three methods, a table and a picture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from spcatv.cli.errors import InputError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "demo",
        help="compare PCA, elastic-net PCA and SPCA-TV on simulated images",
        description=(
            "Simulate images with three known components, fit PCA, elastic-net PCA and SPCA-TV on half of "
            "them, compare them on the other half and with the truth, and save the table and a picture."
        ),
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for loadings.png and table.tsv, made if needed (default: ./demo-output)",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="seed of the simulated data, an integer >= 0 (default: 0)",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    return parser


def run(arguments: argparse.Namespace) -> None:
    """Run the demonstration."""
    # imported here, so that every command costs only what it needs itself
    from spcatv.demo import prepare_folder, run_demo

    try:
        prepare_folder(arguments.output)
    except OSError as error:
        raise InputError(
            f"cannot write to the output folder {arguments.output} ({error.strerror}); "
            "choose another with --output"
        ) from error
    run_demo(arguments.output, seed=arguments.seed, say=_say_nothing if arguments.quiet else _say)


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if seed < 0:
        raise argparse.ArgumentTypeError(f"a seed is an integer >= 0, got {text!r}")
    return seed


def _say(line: str) -> None:
    print(line, flush=True)  # progress must show while the work goes on, also through a pipe


def _say_nothing(line: str) -> None:
    pass
