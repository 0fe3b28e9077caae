"""Measure speed and memory: ``python -m benchmarks [--quick] [--only SECTION] [--against results.json]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
# In the order in which they run; a section is the module of this name.
SECTIONS = ("kernel", "startup", "vstep", "fit", "path", "samples", "threads", "disk", "files", "gpu")
QUICK = ("kernel", "startup", "vstep", "fit", "path", "files")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute: few data sets, small files")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section (repeatable)")
    parser.add_argument("--repeats", type=int, default=None, help="interleaved repeats (3; quick: 1)")
    parser.add_argument("--disk", type=float, metavar="GB", help="size of the file of section disk (5)")
    parser.add_argument("--against", type=Path, metavar="JSON", help="compare with results.json of a run")
    parser.add_argument("--output", type=Path, default=None, help="folder for the results")
    options = parser.parse_args(arguments)
    options.repeats = (1 if options.quick else 3) if options.repeats is None else options.repeats
    options.disk = (0.2 if options.quick else 5.0) if options.disk is None else options.disk
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.output is None:
        # a partial run must not overwrite the results of a full one
        parts = (["quick"] if options.quick else []) + (options.only or [])
        options.output = RESULTS / "-".join(parts) if parts else RESULTS
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run the sections one after the other, and rewrite the report after every row."""
    from benchmarks import machine
    from benchmarks.options import Options
    from benchmarks.report import comparison, write_report

    parsed = parse(arguments)
    before = json.loads(parsed.against.read_text(encoding="utf-8")) if parsed.against else None
    command = "python -m benchmarks " + shlex.join(sys.argv[1:] if arguments is None else arguments)
    run: dict[str, Any] = {
        "command": command.strip(),
        "quick": parsed.quick,
        "repeats": parsed.repeats,
        "machine": machine.facts(),
    }
    wanted = parsed.only or (QUICK if parsed.quick else SECTIONS)
    names = [name for name in SECTIONS if name in wanted]
    sections = {name: importlib.import_module(f"benchmarks.sections.{name}") for name in names}
    about = {name: section.TITLE for name, section in sections.items()}
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="spcatv-bench-") as scratch:
        options = Options(Path(scratch), parsed.quick, parsed.repeats, parsed.disk)
        for name in names:
            started = time.perf_counter()
            print(f"== {name}", flush=True)
            results[name] = []
            for row in sections[name].run(options):
                results[name].append(row)
                tables = write_report(parsed.output, run, results, about)
            print(f"   {time.perf_counter() - started:.0f} s", flush=True)
    print(tables.read_text(encoding="utf-8"))
    if before is not None:
        print(f"## Against {parsed.against}\n\n{comparison(before['sections'], results)}\n")
    print(f"Written to {os.path.relpath(parsed.output)}/")


if __name__ == "__main__":
    main()
