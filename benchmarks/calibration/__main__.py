"""Measure how often choices, verdicts and warnings are right: ``python -m benchmarks.calibration``.

A part is a module of this package with three names:

* ``CASES``, the number of its simulations;
* ``measure(seed)``, which returns the rows of one simulation as dictionaries of plain values;
* ``summary(rows)``, which returns Markdown.

Rules are designed on seeds 0, 1, ... and reported on seeds 1000, 1001, ... (``--fresh``), which no rule has
seen. Every simulation is written to ``benchmarks/results/calibration/PART.jsonl`` once it is done, and is not
done again (``--again`` deletes the rows of the seeds first). Parts may run at the same time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before NumPy and Numba are imported: small data

PARTS = ("choice", "verdict", "number", "warnings", "sizes", "pieces")
FRESH = 1000
FOLDER = Path(__file__).resolve().parents[1] / "results" / "calibration"


def rows_of(
    name: str, seeds: Sequence[int], folder: Path = FOLDER, *, again: bool = False
) -> list[dict[str, Any]]:
    """Measure the simulations of a part that are not in its file yet; return the rows of the given seeds."""
    part = importlib.import_module(f"benchmarks.calibration.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    done: dict[int, list[dict[str, Any]]] = {line["seed"]: line["rows"] for line in map(json.loads, lines)}
    if again:
        done = {seed: rows for seed, rows in done.items() if seed not in seeds}
        text = "".join(json.dumps({"seed": seed, "rows": rows}) + "\n" for seed, rows in done.items())
        file.write_text(text, encoding="utf-8")
    for seed in seeds:
        if seed not in done:
            started = time.process_time()
            with warnings.catch_warnings(action="ignore"):
                done[seed] = part.measure(seed)
            with file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"seed": seed, "rows": done[seed]}) + "\n")
            print(f"{name}, seed {seed}: {time.process_time() - started:.1f} s", flush=True)
    return [{"seed": seed, **row} for seed in seeds for row in done[seed]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the summary of every part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; default: all")
    parser.add_argument(
        "--fresh", action="store_true", help="the seeds of the report, not those of the design"
    )
    parser.add_argument("--cases", type=int, help="simulations of every part (each has its own default)")
    parser.add_argument("--again", action="store_true", help="measure the simulations again")
    options = parser.parse_args(arguments)
    for name in options.parts or PARTS:
        if name not in PARTS:
            parser.error(f"no part {name!r}; choose from {', '.join(PARTS)}")
        part = importlib.import_module(f"benchmarks.calibration.{name}")
        first = FRESH * options.fresh
        seeds = range(first, first + (options.cases or part.CASES))
        rows = rows_of(name, seeds, again=options.again)
        kind = "fresh" if options.fresh else "design"
        print(f"\n## {name} ({kind} seeds {seeds[0]} to {seeds[-1]})\n\n{part.summary(rows)}\n", flush=True)


if __name__ == "__main__":
    main()
