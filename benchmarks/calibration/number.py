"""Number of components: `component_curve` with the default setting, and with a dense, lightly smoothed one.

Two sets in three have 1 to 3 factors, the third is noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calibration.simulations import TOL, simulate, simulate_noise
from benchmarks.tables import markdown
from spcatv import SPCATV
from spcatv.selection import ComponentCurve, component_curve

CASES = 30
MOST = 6
SETTINGS = {"sparsity .7, smoothness 1": (0.7, 1.0), "sparsity 0, smoothness .5": (0.0, 0.5)}
STRENGTHS = (3.0, 10.0, 30.0, 100.0)


def measure(seed: int) -> list[dict[str, Any]]:
    if seed % 3 == 2:
        data = simulate_noise(seed // 3 + 5 * (seed // 1000))
    else:
        data = simulate(seed + 9000 + seed // 9, strength=STRENGTHS[seed % 4])
    rows = []
    for name, (sparsity, smoothness) in SETTINGS.items():
        model = SPCATV(structure=data.structure, sparsity=sparsity, smoothness=smoothness, tol=TOL)
        explained = component_curve(model, data.X, max_components=min(MOST, len(data.X) // 2)).explained
        rows.append({"about": data.about, "setting": name, "explained": explained.tolist()})
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for name in SETTINGS:
        own = [row for row in rows if row["setting"] == name]
        true = np.array([row["about"]["K"] for row in own])
        smooth = np.array([row["about"]["noise"] not in ("white", "heavy", "sd 0") for row in own])
        found = np.array([count(np.array(row["explained"])) for row in own])
        noise = true == 0
        shares = (found[~noise] == true[~noise], found[~noise] > true[~noise])
        shares += (found[noise & ~smooth] == 0, found[noise & smooth] == 0)
        lines.append([name, *(f"{share.sum()} of {len(share)}" for share in shares)])
    return markdown(["fit", "exact", "too many", "none in white noise", "none in smooth noise"], lines)


def count(explained: np.ndarray) -> int:
    """Return the number of components that stand out, 0 if none does."""
    choice = ComponentCurve(explained).choice
    return 0 if choice.reason.startswith("No component") else choice.n_components
