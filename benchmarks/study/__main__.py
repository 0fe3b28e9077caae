"""Repeat the real-data study: ``python -m benchmarks.study``.

Every fit is stored at once under ``benchmarks/results/study``: a run that was stopped continues where it was.
The numbers go to ``docs/study/results.json``, and from there into the tables of
``docs/study/index.md`` and ``docs/comparison.md``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.report import write
from benchmarks.reproduce.realdata import DATA, QUICK_DATA
from benchmarks.reproduce.store import run_all
from benchmarks.study.fits import DENSE, Piece, do, methods_at, opened, pieces, stored
from benchmarks.study.measures import measure
from benchmarks.study.page import MAIN, filled
from benchmarks.study.pictures import draw_maps

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "study"
PAGE = ROOT / "docs" / "study"
COMPARISON = "comparison.md"  # beside the folder of the study: it shows some of the numbers, too
PACKAGES = ("numpy", "scipy", "scikit-learn", "nilearn")
N_DIGITS = 5  # significant, of the numbers in the file
LIST = re.compile(r"\[[^][{}]*\]")  # of numbers: one line each


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes, of one thread each (2)")
    parser.add_argument("--no-fits", action="store_true", help="report what is stored, and fit nothing")
    parser.add_argument("--no-pictures", action="store_true", help="leave the pictures as they are")
    parser.add_argument(
        "--quick", action="store_true", help="tiny simulated data, to try the code; needs --page"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the stored fits")
    parser.add_argument("--page", type=Path, default=PAGE, help="folder of index.md (docs/study)")
    options = parser.parse_args(arguments)
    if options.quick and options.page == PAGE:
        parser.error("--quick would overwrite the study by tiny data: give --page another folder")
    if not (options.page / "index.md").is_file():
        parser.error(f"{options.page} has no index.md: give --page a copy of docs/study")
    if options.jobs == 0:
        parser.error("--jobs must be a number of processes, or -1 for one per core")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the fits that are missing, then write numbers, tables and pictures."""
    options = parse(arguments)
    names = present(QUICK_DATA if options.quick else DATA)
    if not options.no_fits:
        missing = [piece for piece in pieces(names) if stored(options.output, piece, options.quick) is None]
        work = [(options.output, piece, options.quick) for piece in missing]
        run_all(do, work, jobs=options.jobs, say=lambda line: print(line, flush=True))
    results = {
        "run": {**_run(options.quick), **_cost(options.output, names, options.quick)},
        "data": {name: measure(options.output, name, quick=options.quick) for name in names},
    }
    write_page(options.page, results)
    if not options.no_pictures:
        for name in names:
            draw(options.output, options.page, name, quick=options.quick)


def present(known: Sequence[str]) -> list[str]:
    """Return the known data sets, and exit if one is missing."""
    for name in known:
        try:
            opened(name, name in QUICK_DATA)
        except FileNotFoundError as missing:
            raise SystemExit(
                f"the data set {name} is missing: there is no {missing.filename}. "
                "Set SPCATV_DATA to the folder of the data (docs/study/index.md says where they come from)."
            ) from None
    return list(known)


def write_page(folder: Path, results: dict[str, Any]) -> None:
    """Write ``results.json``, and the generated parts of the pages from what it says."""
    text = LIST.sub(lambda found: " ".join(found[0].split()), json.dumps(_short(results), indent=1)) + "\n"
    pages = [page for page in (folder / "index.md", folder.parent / COMPARISON) if page.is_file()]
    contents = {page: filled(page.read_text(encoding="utf-8"), json.loads(text)) for page in pages}
    for path, content in {folder / "results.json": text, **contents}.items():
        write(path, content)


def draw(output: Path, folder: Path, name: str, *, quick: bool) -> None:
    """Draw the maps of all methods that have been fitted to all rows of a data set."""
    found = {}
    for zeros in (0.0, MAIN):
        for method in methods_at(zeros):
            record = stored(output, Piece(name, method.key, zeros, "all"), quick)
            if record is not None:
                found[method.label] = record
    if len(found) > 1 or DENSE.label not in found:
        draw_maps(folder / f"maps-{name}.png", name, opened(name, quick), found)


def _run(quick: bool) -> dict[str, Any]:
    return {
        "command": "python -m benchmarks.study" + (" --quick" if quick else ""),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
    }


def _cost(output: Path, names: Sequence[str], quick: bool) -> dict[str, float]:
    """Fits of the study, those of them that are stored, and the processor time that these took."""
    found = [stored(output, piece, quick) for piece in pieces(names)]
    seconds = [record.values["cpu_seconds"] for record in found if record is not None]
    return {"n_planned": len(found), "n_fitted": len(seconds), "cpu_seconds": float(sum(seconds))}


def _short(value: Any) -> Any:
    """Round all numbers."""
    if isinstance(value, float):
        return float(f"{value:.{N_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
