"""`spca-tv report`: one HTML page about a model, which a browser shows without a network."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spcatv._util.matching import match_rows
from spcatv._util.tables import read_table
from spcatv.cli.config import effective_options
from spcatv.cli.display import safe_print, show_page, show_warnings
from spcatv.cli.parser import check_output_file
from spcatv.cli.resume import rerun_hint_on_interrupt
from spcatv.results import read_results, report_file

if TYPE_CHECKING:
    from spcatv.report import Column


def run(arguments: argparse.Namespace) -> None:
    """Create the page and write it."""
    # imported here: reports need an extra
    from spcatv.report import generate_report

    options = effective_options(arguments)
    output = options.output or report_file(arguments.model)
    check_output_file(output, overwrite=options.overwrite, example="report.html")
    results = read_results(arguments.model)
    names = () if results.scores is None else results.scores.names
    with rerun_hint_on_interrupt(output, arguments.argv), show_warnings():
        groups, variable = (_column(getattr(options, name), names) for name in ("groups", "variable"))
        page = generate_report(
            results,
            title=options.title,
            groups=groups[0],
            variable=variable[0],
            atlas=options.atlas,
            atlas_names=options.atlas_names,
            background=options.background,
        )
        page.save_as_html(output)
    if not options.quiet:
        for title, (_, remark) in {"Groups": groups, "Variable": variable}.items():
            if remark:
                safe_print(f"{title}: {remark}")
        safe_print(f"Report: {output}")
    if options.open:
        show_page(output)


def _column(given: Sequence[str] | None, samples: Sequence[str]) -> tuple[Column | None, str]:
    """Return a column of a table with one value per sample, and a remark on how its rows were matched."""
    if given is None:
        return None, ""
    from spcatv.report import Column

    file, name = given
    table = read_table(Path(file))
    cells = table.column(name)
    if not samples:
        return Column(name, cells), ""  # refused later: there are no scores to show it with
    match = match_rows(table, samples, wanted=name, partial=True)
    match.warn_if_guessed()
    return Column(name, match.values(cells)), match.remark
