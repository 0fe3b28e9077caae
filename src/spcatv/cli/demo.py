"""`spca-tv demo`: the paper's simulated images, then simulated cohorts on real brains through files."""

from __future__ import annotations

import argparse

from spcatv.cli.kinds import InputError
from spcatv.cli.progress import show_warnings
from spcatv.cli.saying import show_page
from spcatv.progress import SILENT, listening
from spcatv.progress.printing import LinePrinter


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
    with show_warnings(), listening(SILENT if arguments.quiet else LinePrinter(steps=False)):
        reports = run_demo(arguments.output, spca_tv=main, parts=arguments.only or PARTS, seed=arguments.seed)
    if arguments.open:
        for report in reports:
            show_page(report)
