"""Reproduce the paper's simulation: ``python -m benchmarks.reproduce``.

Every fit is stored at once: a run that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.report import write
from benchmarks.reproduce.methods import SIMULATION_METHODS
from benchmarks.reproduce.simulation import (
    Size,
    draw_loadings,
    run_simulation,
    table_of_tests,
    table_one,
    typical_data_set,
)

RESULTS = Path(__file__).resolve().parents[1] / "results" / "reproduce"
QUICK = Size(n_sets=3, n_samples=60, side=28)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    keys = [method.key for method in SIMULATION_METHODS]
    parser.add_argument("--n-sets", type=int, default=None, help="data sets of the simulation (50; quick: 3)")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first data set (0)")
    parser.add_argument(
        "--without", action="append", choices=keys, default=[], metavar="METHOD",
        help=f"leave a method of the simulation out (repeatable): {', '.join(keys)}",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2, help="processes, of one thread each (2)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the code itself")
    parser.add_argument("--output", type=Path, default=None, help="folder for the results")
    options = parser.parse_args(arguments)
    if options.n_sets is not None and options.n_sets < 2:
        parser.error("--n-sets must be at least 2: stability compares data sets")
    if options.first_seed < 0:
        parser.error("--first-seed must not be negative")
    if options.jobs == 0:
        parser.error("--jobs must be a number of processes, or -1 for one per core")
    if options.output is None:
        options.output = RESULTS / "quick" if options.quick else RESULTS
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run the missing fits, and write the report and a picture."""
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    size = replace(QUICK if options.quick else Size(), first_seed=options.first_seed)
    if options.n_sets is not None:
        size = replace(size, n_sets=options.n_sets)
    methods = [method for method in SIMULATION_METHODS if method.key not in options.without]
    scores = run_simulation(options.output, methods, size, jobs=options.jobs)
    shown = scores[methods[-1].key].mses
    assert shown is not None
    seed = size.seeds[typical_data_set(shown)]
    picture = draw_loadings(options.output, methods, size, seed)
    report = "\n\n".join(
        [
            "# Table I: the simulation",
            f"{size.n_sets} data sets (seeds from {size.first_seed} on) of {size.n_samples} images, half of "
            "them to fit. Published figures: error / MSE / Dice. Means, with the standard error of the mean "
            "over data sets; the third component counts as found where its loading error is below 1.",
            table_one(scores),
            "Differences of the means, with paired t-tests over data sets and, for the Dice index of pairs "
            "of data sets, a sign-flip permutation test (1000 patterns); all two-sided.",
            table_of_tests(scores),
            f"Loadings of data set {seed}, the median one for {methods[-1].label}: {picture.name}.",
        ]
    )
    path = options.output / "simulation.md"
    write(path, report + "\n")
    print(f"\n{report}\n\nWritten to {os.path.relpath(path)} after {time.perf_counter() - started:.0f} s.")


if __name__ == "__main__":
    main()
