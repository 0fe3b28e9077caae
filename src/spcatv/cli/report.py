"""`spca-tv report`: a page about a model that a browser shows without any network."""

from __future__ import annotations

import argparse
import os
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spcatv.cli.errors import InputError
from spcatv.cli.folder import DESCRIPTION, MODEL, TAG
from spcatv.cli.models import model_folder, open_model
from spcatv.cli.tables import read_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

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
        help=f"the page (default: {TAG}report.html among the results, or MODEL_report.html beside a model)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it is there")
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
    """Make the page and write it."""
    output = _checked_output(arguments)
    saved = open_model(arguments.model)
    report, errors = _reporting(images=saved.kind != "SPCATV")
    with_files: dict[str, Any] = {
        "groups": _column(arguments.groups),
        "variable": _column(arguments.variable),
        "atlas": arguments.atlas,
        "atlas_names": arguments.atlas_names,
        "background": arguments.background,
    }
    try:
        page = report(arguments.model, title=arguments.title, **with_files)
    except errors as error:
        raise InputError(str(error)) from error
    page.save_as_html(output)
    if not arguments.quiet:
        print(f"Report: {output}")
    if arguments.open:
        webbrowser.open(output.resolve().as_uri())


def _reporting(*, images: bool) -> tuple[Callable[..., Any], tuple[type[Exception], ...]]:
    """What makes reports, and what it raises for wrong input; imported only when it is needed."""
    from spcatv.report import ReportError, generate_report

    if not images:
        return generate_report, (ReportError,)
    from spcatv.images import ImageError

    return generate_report, (ReportError, ImageError)


def _checked_output(arguments: argparse.Namespace) -> Path:
    """Where to write, if that is possible: asked before any work."""
    output: Path = arguments.output or default_output(arguments.model)
    if output.is_dir():
        raise InputError(f"the output {output} is a folder; name a file, such as {output / 'report.html'}")
    if output.exists() and not arguments.overwrite:
        raise InputError(
            f"the output {output} is there already; name another with --output, or replace it with "
            "--overwrite"
        )
    try:
        with tempfile.TemporaryFile(dir=output.parent or os.curdir):
            pass
    except OSError as error:
        raise InputError(f"cannot write {output} ({error.strerror}); choose another with --output") from error
    return output


def default_output(model: Path) -> Path:
    """Among the results that the model belongs to, or beside a model that stands alone.

    A model folder holds a model and nothing else, so that the page never goes into it.
    """
    inner = model_folder(model)
    results = inner.parent
    if inner.name == MODEL and (results / DESCRIPTION).is_file():
        return results / f"{TAG}report.html"
    return inner.with_name(f"{inner.resolve().name}_report.html")


def _column(given: Sequence[str] | None) -> Column | None:
    """A column of a table, under its name."""
    if given is None:
        return None
    from spcatv.report import Column

    file, name = given
    return Column(name, read_table(Path(file)).column(name))
