"""The cost of a fresh process: the import, and a first fit with kernels compiled by an earlier process."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.cases import dots, prepare, volume
from benchmarks.options import SETTING, Options
from benchmarks.tables import markdown, seconds
from benchmarks.worker import thread_limit

TITLE = "Start-up"
THREADS = 2
IMPORTS = {
    "NumPy and scikit-learn": "import numpy, sklearn.decomposition",
    "spcatv": "import spcatv",
}


def run(options: Options) -> dict[str, Any]:
    """Imports and first fits, in turn; whole processes are timed, including the start of the interpreter."""
    programs = {f"import of {name}": code for name, code in IMPORTS.items()}
    programs["an empty program"] = "pass"
    for recipe in (volume,) if options.quick else (dots, volume):
        case = prepare(recipe, options)
        mask = case.path.with_suffix(".mask.npy")
        np.save(mask, case.mask)
        programs[f"first fit, {case.title}"] = (
            "import numpy; from spcatv import SPCATV; "
            f"X, mask = numpy.load({str(case.path)!r}), numpy.load({str(mask)!r}); "
            f"SPCATV(3, structure=mask, **{SETTING | {'alpha': case.alpha}!r}).fit(X)"
        )
    times: dict[str, list[float]] = {name: [] for name in programs}
    with thread_limit(THREADS):
        # the first round fills the caches of files, bytecode and kernels
        for _ in range(1 if options.quick else 1 + options.repeats):
            for name, code in programs.items():
                started = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True)
                times[name].append(time.perf_counter() - started)
    return {
        "threads": THREADS,
        "programs": [
            {"name": name, "first": values[0], "seconds": min(values[1:] or values)}
            for name, values in times.items()
        ],
    }


def table(result: dict[str, Any]) -> str:
    """Seconds of whole processes."""
    rows = [[row["name"], seconds(row["seconds"]), seconds(row["first"])] for row in result["programs"]]
    return markdown(["process", "seconds", "the very first time"], rows)
