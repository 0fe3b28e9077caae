"""`spca-tv report`: one HTML page about a model, which a browser shows without a network."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spcatv.cli.kinds import check_output_file, input_errors
from spcatv.cli.tables import read_table
from spcatv.model import ModelError
from spcatv.results import read_results, report_file

if TYPE_CHECKING:
    from spcatv.report import Column


def run(arguments: argparse.Namespace) -> None:
    """Create the page and write it."""
    # imported here: reports need an extra
    from spcatv.report import ReportError, generate_report

    output: Path = arguments.output or report_file(arguments.model)
    check_output_file(output, overwrite=arguments.overwrite, example="report.html")
    with input_errors(ModelError):
        results = read_results(arguments.model)
    errors: list[type[Exception]] = [ReportError]
    if results.saved.kind != "SPCATV":
        from spcatv.images import ImageError

        errors.append(ImageError)
    with input_errors(*errors):
        page = generate_report(
            results,
            title=arguments.title,
            groups=_column(arguments.groups),
            variable=_column(arguments.variable),
            atlas=arguments.atlas,
            atlas_names=arguments.atlas_names,
            background=arguments.background,
        )
    page.save_as_html(output)
    if not arguments.quiet:
        print(f"Report: {output}")
    if arguments.open:
        webbrowser.open(output.resolve().as_uri())


def _column(given: Sequence[str] | None) -> Column | None:
    """A column of a table, under its name."""
    if given is None:
        return None
    from spcatv.report import Column

    file, name = given
    return Column(name, read_table(Path(file)).column(name))
