"""Cost of a fresh process: imports, and a first fit with kernels compiled by an earlier process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import prepare
from benchmarks.options import SETTING, Options
from benchmarks.worker import whole_processes

TITLE = "Start-up: whole processes, two threads"
LIBRARIES, OURS, FIRST_FIT = "import of NumPy and scikit-learn", "import of SPCATV", "first fit"
BEYOND = "difference of these imports"
PROGRAMS = {
    "an empty program": "pass",
    LIBRARIES: "import numpy, sklearn.decomposition",
    OURS: "from spcatv import SPCATV",
    "spca-tv fit --help": "from spcatv.cli import main; raise SystemExit(main(['fit', '--help']))",
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Time imports and first fits in turn, including the start of the interpreter."""
    programs = {name: code for name, code in PROGRAMS.items() if not options.quick or name == OURS}
    for data in ("volume",) if options.quick else ("dots", "volume"):
        case = prepare(data, options)
        mask = case.path.with_suffix(".mask.npy")
        np.save(mask, case.mask)
        programs[f"{FIRST_FIT}, {case.title}"] = (
            "import numpy; from spcatv import SPCATV; "
            f"X, mask = numpy.load({str(case.path)!r}), numpy.load({str(mask)!r}); "
            f"SPCATV(3, structure=mask, **{SETTING | {'alpha': case.alpha}!r}).fit(X)"
        )
    fastest = {}
    for name, (first, fastest[name]) in whole_processes(programs, options.repeats).items():
        yield {"process": name, "seconds": fastest[name], "first": first}
    if LIBRARIES in fastest:
        yield {"process": BEYOND, "seconds": fastest[OURS] - fastest[LIBRARIES]}
