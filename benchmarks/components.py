"""How many components `ComponentCurve.choice` keeps of the real data: `python -m benchmarks.components`."""

from __future__ import annotations

from benchmarks.cases import raw_fmri, raw_sst, raw_thickness, raw_vbm
from spcatv import SPCATV
from spcatv.selection import component_curve


def main() -> None:
    """Print one line per data set."""
    for raw in (raw_sst, raw_fmri, raw_thickness, raw_vbm):
        title, X, structure, _ = raw()
        choice = component_curve(SPCATV(structure=structure), X).choice
        print(f"{title}: {choice.n_components}. {choice.reason}", flush=True)


if __name__ == "__main__":
    main()
