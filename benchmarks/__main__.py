"""Run the benchmarks: ``python -m benchmarks [--quick] [--only SECTION] [--repeats N]``."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

RESULTS = Path(__file__).parent / "results"
# Name on the command line and module, in the order in which they run.
SECTIONS = {
    "kernel": "kernel",
    "start-up": "startup",
    "v-step": "vstep",
    "fit": "fit",
    "precision": "precision",
    "sparsity": "sparsity",
    "path": "path",
    "growth": "growth",
    "rows": "rows",
    "threads": "threads",
    "disk": "disk",
    "files": "files",
    "gpu": "gpu",
    "cluster": "cluster",
    "starts": "starts",
    "structures": "structures",
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the suite itself")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="run this section (repeatable)")
    parser.add_argument("--repeats", type=int, default=None, help="interleaved repeats (3; quick: 1)")
    parser.add_argument(
        "--disk", type=float, default=0.0, metavar="GB", help="size of the file of section disk (5)"
    )
    parser.add_argument("--output", type=Path, default=None, help="folder for the results")
    options = parser.parse_args(arguments)
    if options.repeats is None:
        options.repeats = 1 if options.quick else 3
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.output is None:
        # a partial run must not overwrite the results of a full one
        parts = (["quick"] if options.quick else []) + (options.only or [])
        options.output = RESULTS / "-".join(parts) if parts else RESULTS
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run the sections one after the other, and rewrite the report after each."""
    from benchmarks import machine
    from benchmarks.options import Options
    from benchmarks.report import write_report

    parsed = parse(arguments)
    command = "python -m benchmarks " + shlex.join(sys.argv[1:] if arguments is None else arguments)
    run: dict[str, Any] = {
        "command": command.strip(),
        "quick": parsed.quick,
        "repeats": parsed.repeats,
        "machine": {**machine.facts(), "bandwidth": machine.bandwidth(0.1 if parsed.quick else 1.0)},
    }
    names = [name for name in SECTIONS if not parsed.only or name in parsed.only]
    sections: dict[str, ModuleType] = {
        name: importlib.import_module(f"benchmarks.sections.{SECTIONS[name]}") for name in names
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="spcatv-bench-") as scratch:
        options = Options(Path(scratch), parsed.quick, parsed.repeats, parsed.disk)
        for name in names:
            started = time.perf_counter()
            print(f"== {name}", flush=True)
            found = sections[name].run(options)
            # a long section gives what it has after each of its parts
            for results[name] in found if isinstance(found, Iterator) else (found,):
                passed = time.perf_counter() - started
                run.setdefault("section_seconds", {})[name] = passed
                table = write_report(parsed.output, run, results, sections)
                print(f"   {passed:.0f} s", flush=True)
    print(table.read_text(encoding="utf-8"))
    print(f"Written to {os.path.relpath(parsed.output)}/")


if __name__ == "__main__":
    main()
