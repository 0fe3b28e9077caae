"""`spca-tv report`: one HTML page about a model, which a browser shows without a network."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spcatv._util.matching import match_rows
from spcatv._util.text_table import read_table
from spcatv.cli.kinds import Subparsers, check_output_file, input_errors
from spcatv.cli.progress import show_warnings
from spcatv.model import ModelError
from spcatv.results import read_results, report_file
from spcatv.results.folder import REPORT

if TYPE_CHECKING:
    from spcatv.report import Column

EPILOG = """\
examples:
  spca-tv report results
  spca-tv report results --groups participants.tsv diagnosis --variable participants.tsv age
  spca-tv report results --atlas aal.nii.gz --atlas-names aal.tsv --title 'Grey matter' --open
"""


def add_parser(commands: Subparsers) -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "report",
        help="make a page about a model: maps, regions, scores, certificates",
        description=(
            "Write one HTML file about a model: what was run, interactive maps and regions of every "
            "component, scores, explained variance, certificates, and selection and stability where the "
            "folder has them. The file needs no network."
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="folder that `spca-tv fit` or `spca-tv select` has written"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the page (default: {REPORT} among the results, or MODEL_report.html beside a model)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    parser.add_argument("--title", metavar="TEXT", help="heading of the page")
    parser.add_argument(
        "--groups", nargs=2, metavar=("TSV", "COLUMN"), help="labels of the samples, which colour the scores"
    )
    parser.add_argument(
        "--variable", nargs=2, metavar=("TSV", "COLUMN"), help="numbers to draw the scores against"
    )
    parser.add_argument(
        "--atlas",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="label images that name regions: NIfTI for voxels; GIFTI or .annot for surfaces, left, right",
    )
    parser.add_argument(
        "--atlas-names", type=Path, metavar="FILE", help="table of the labels of the atlas: number and name"
    )
    parser.add_argument(
        "--background",
        metavar="FILE",
        help="picture behind volumes: an image, 'template' (MNI152) or 'mean' (default: the template if the "
        "mask lies in its brain)",
    )
    parser.add_argument("--open", action="store_true", help="show the page in the web browser")
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    return parser


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
    names = () if results.scores is None else results.scores.names
    with input_errors(*errors), show_warnings():
        page = generate_report(
            results,
            title=arguments.title,
            groups=_column(arguments.groups, names),
            variable=_column(arguments.variable, names),
            atlas=arguments.atlas,
            atlas_names=arguments.atlas_names,
            background=arguments.background,
        )
    page.save_as_html(output)
    if not arguments.quiet:
        print(f"Report: {output}")
    if arguments.open:
        webbrowser.open(output.resolve().as_uri())


def _column(given: Sequence[str] | None, samples: Sequence[str]) -> Column | None:
    """A column of a table under its name, with one value per sample."""
    if given is None:
        return None
    from spcatv.report import Column

    file, name = given
    table = read_table(Path(file))
    cells = table.column(name)
    if not samples:
        return Column(name, cells)  # refused later: there are no scores to show it with
    match = match_rows(table, samples)
    match.warn_about_order()
    return Column(name, [cells[row] for row in match.rows])
