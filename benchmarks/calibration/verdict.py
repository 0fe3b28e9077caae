"""Verdicts of random halves: real, spare and noise components, by what the halves agree on.

Three sets in four have factors: default fits with as many components as factors, or two more (spare). The
fourth is noise, heavy-tailed in every other case. A component is real if its cosine with a true loading is
above .8 in magnitude, clear above .95, and spare if it is below .3 with all of them and the fit finds every
factor.

The limits of the package were chosen on the design seeds 0 to 199: the largest share of real components among
rules that confirm at most 5 % of noise and 3 % of spare components. They are then run once on fresh seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.calibration.simulations import TOL, simulate, simulate_noise
from benchmarks.tables import markdown
from spcatv import SPCATV
from spcatv.metrics import dice
from spcatv.stability import split_halves

CASES = 120
NOISE_COMPONENTS = 3


def measure(seed: int) -> list[dict[str, Any]]:
    is_noise = seed % 4 == 3
    data = simulate_noise(noise_case(seed // 4)) if is_noise else simulate(seed + 5000)
    n_asked = NOISE_COMPONENTS if is_noise else data.about["K"] + 2 * (seed // 4 % 2)
    model = SPCATV(n_asked, structure=data.structure, tol=TOL).fit(data.X)
    halves = split_halves(model, data.X, n_splits=10, random_state=seed)
    truth = np.abs(data.truth @ model.components_.T)
    overlap = pairwise_best_dice(data.truth, model.components_)
    n_real = int((truth.max(axis=1, initial=0) > 0.8).sum()) if len(truth) else 0
    rows = []
    for k, item in enumerate(halves.reproducibility):
        cosine = float(truth[:, k].max()) if len(truth) else 0.0
        kind = "noise" if is_noise else "real" if cosine > 0.8 else "between"
        if kind == "between" and cosine < 0.3 and n_real == len(truth):
            kind = "spare"
        rows.append(
            {
                "about": data.about,
                "kind": kind,
                "truth": cosine,
                "number": k,
                "share": float(model.explained_variance_ratio_[k]),
                "dice": halves.dice[:, k].tolist(),
                "cosine": halves.cosine[:, k].tolist(),
                "verdict": item.verdict,
                "outline": item.outline,
                "truth_dice": overlap[k],
            }
        )
    return rows


def noise_case(number: int) -> int:
    """Return the seed of the noise of a case; those of heavy-tailed noise are 9 and 10 modulo 12."""
    return number if number % 2 else 12 * number + 9 + number // 2 % 2


RULES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "mean Dice >= .6": lambda row: np.mean(row["dice"]) >= 0.6,
    "mean |cosine| >= .75": lambda row: np.mean(row["cosine"]) >= 0.75,
    "either": lambda row: np.mean(row["dice"]) >= 0.6 or np.mean(row["cosine"]) >= 0.75,
    "Dice >= .6 or |cosine| >= .7": lambda row: np.mean(row["dice"]) >= 0.6 or np.mean(row["cosine"]) >= 0.7,
    "Dice >= .55 or |cosine| >= .65": lambda row: (
        np.mean(row["dice"]) >= 0.55 or np.mean(row["cosine"]) >= 0.65
    ),
    "median |cosine| >= .75": lambda row: np.median(row["cosine"]) >= 0.75,
    "median |cosine| >= .7": lambda row: np.median(row["cosine"]) >= 0.7,
    "the package": lambda row: row["verdict"] == "confirmed",
}


def pairwise_best_dice(truth: np.ndarray, components: np.ndarray) -> list[float]:
    """Return the largest Dice index of every component with a true loading, 0 without any."""
    return [
        max((float(dice(own, loading, norm_fraction=None)) for own in truth), default=0.0)
        for loading in components
    ]


def summary(rows: list[dict[str, Any]]) -> str:
    groups = {
        "real": lambda row: row["kind"] == "real",
        "clear": lambda row: row["kind"] == "real" and row["truth"] > 0.95,
        "spare": lambda row: row["kind"] == "spare",
        "white noise": lambda row: row["kind"] == "noise" and row["about"]["noise"] == "sd 0",
        "smooth noise": lambda row: row["kind"] == "noise" and row["about"]["noise"] not in ("sd 0", "heavy"),
        "heavy tails": lambda row: row["kind"] == "noise" and row["about"]["noise"] == "heavy",
    }
    members = {name: [row for row in rows if belongs(row)] for name, belongs in groups.items()}
    head = ["confirmed if", *(f"{name} ({len(own)})" for name, own in members.items())]
    lines = [
        [name, *(f"{np.mean([rule(row) for row in own]):.0%}" if own else None for own in members.values())]
        for name, rule in RULES.items()
    ]
    confirmed = [row for row in members["real"] if row["verdict"] == "confirmed"]
    text = "Share of components that are confirmed.\n\n" + markdown(head, lines)
    for outline in ("certain", "uncertain"):
        own = [row["truth_dice"] for row in confirmed if row["outline"] == outline]
        if own:
            share = np.mean(np.array(own) >= 0.6)
            text += f"\n\n{len(own)} real and confirmed, outline {outline}: {share:.0%} have a Dice index of"
            text += f" .6 with the truth, mean {np.mean(own):.2f}."
    return text
