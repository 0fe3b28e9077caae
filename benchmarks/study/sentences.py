"""The sentences of the study that have numbers in them, from its numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.study.measures import OURS
from benchmarks.study.tables import MAIN, NAMES, SHORT, Cell, Results, cells, error_of, title
from benchmarks.study.work import SHARES


def summary(results: Results) -> str:
    """The sentences of the abstract that have numbers in them."""
    at_main = {name: cells(results, name, MAIN) for name in results["data"]}
    at_main = {name: found for name, found in at_main.items() if OURS in found}

    def best(value: Callable[[Cell], float]) -> int:
        return sum(value(found[OURS]) <= min(map(value, found.values())) for found in at_main.values())

    def lower(key: str) -> str:
        pairs = [(name, found[OURS], found[key]) for name, found in at_main.items() if key in found]
        return _count([name for name, ours, other in pairs if error_of(ours) < error_of(other)], pairs)

    reproducible = best(lambda cell: -float(np.mean(cell["dice_folds"])))
    coherent = best(lambda cell: float(np.mean(cell["regions"])))
    text = (
        f"At {MAIN:.0%} zeros, the default, SPCA-TV has the highest Dice index over folds on {reproducible} "
        f"of {len(at_main)} data sets, and the fewest regions on {coherent}. Its held-out error is lower "
        f"than that of ElasticNet PCA on {lower('elastic-net')}, and than that of DictLearning on "
        f"{lower('dictionary')}."
    )
    gains = [
        abs(found[OURS]["age"]["r2"]["value"] - cells(results, name, 0.0)["pca"]["age"]["r2"]["value"])
        for name, found in at_main.items()
        if "age" in found[OURS] and "pca" in cells(results, name, 0.0)
    ]
    if gains:
        text += (
            " The R² of age, predicted from the scores of people held out, differs from that of dense PCA by "
            f"{max(gains):.2f} at most."
        )
    return text


def findings(results: Results) -> str:
    """Sentences with counts: against every method, where SPCA-TV is better and where it is not."""
    lines = []
    for key, label in SHORT.items():
        if key != OURS:
            line = _against(results, key, label)
            lines += [line] if line else []
    return "\n".join(lines)


def _against(results: Results, key: str, label: str) -> str | None:
    """How SPCA-TV compares with one method over all data sets and shares of zeros that both have."""
    both = []
    for name in results["data"]:
        for zeros in sorted(SHARES):
            found = cells(results, name, zeros)
            if key in found and OURS in found:
                both.append((f"{title(name)} at {zeros:.0%}", found[OURS], found[key]))
    if not both:
        return None
    folds = [text for text, ours, other in both if np.mean(ours["dice_folds"]) > np.mean(other["dice_folds"])]
    compared = [pair for pair in both if pair[1]["dice_halves"] and pair[2]["dice_halves"]]
    half = [text for text, ours, other in compared if _higher_over_halves(ours, other)]
    lower = [text for text, ours, other in both if error_of(ours) < error_of(other)]
    over_halves = f"; over halves in {_count(half, compared)}" if compared else ""
    return (
        f"- **{label}**: a higher Dice index over folds in {_count(folds, both)}{over_halves}; "
        f"a lower held-out error in {_count(lower, both)}."
    )


def _higher_over_halves(ours: Cell, other: Cell) -> bool:
    """Over the splits that both have."""
    n_splits = min(ours["n_splits"], other["n_splits"])
    return bool(np.mean(ours["dice_halves"][:n_splits]) > np.mean(other["dice_halves"][:n_splits]))


def _count(better: Sequence[str], pairs: Sequence[tuple[str, Cell, Cell]]) -> str:
    """Such as "10 of 12 (not cortical thickness at 90 %)"."""
    others = [NAMES.get(text, text) for text, _, _ in pairs if text not in better]
    exceptions = f" (not {_listed(others)})" if better and others else ""
    return f"{len(better)} of {len(pairs)}{exceptions}"


def _listed(items: Iterable[str]) -> str:
    items = [item.replace("%", "\N{NO-BREAK SPACE}%") for item in items]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
