"""Generated parts of the pages of the study: tables and sentences from its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.reproduce.realdata import N_SPLITS
from benchmarks.study.fits import SHARES
from benchmarks.study.measures import OURS
from benchmarks.tables import each, markdown

Results = Mapping[str, Any]
Cell = Mapping[str, Any]
MAIN = SHARES[0]
NAMES = {"sst": "sea temperatures", "fmri": "contrasts", "thickness": "thickness", "vbm": "grey matter"}
# In the order of the columns; SPCA-TV comes first, where nobody has to scroll.
SHORT = {
    OURS: "SPCA-TV",
    "elastic-net": "ElasticNet PCA",
    "dictionary": "DictLearning",
    "sparse-pca": "Sparse PCA",
    "canica-cut": "Thresholded CanICA",
    "pca-cut": "Thresholded PCA",
}
DENSE_LABEL = "Dense PCA"


def cells(results: Results, name: str, zeros: float) -> dict[str, Cell]:
    """Cells of a data set at a share of zeros, by method."""
    return {cell["method"]: cell for cell in results["data"][name]["cells"] if cell["zeros"] == zeros}


def title(name: str) -> str:
    """Return the name of a data set in tables."""
    return NAMES.get(name, name)


def what_was_run(results: Results) -> str:
    """Command, versions, and number of fits."""
    run = results["run"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return (
        f"`{run['command']}`, {run['date']}, Python {run['python']}, {versions}. "
        f"{run['n_fitted']:,} of {run['n_planned']:,} fits, {run['cpu_seconds'] / 60:.0f} minutes of one "
        "processor core."
    )


def main_tables(results: Results) -> str:
    """One table per data set at the first share of zeros."""
    parts = []
    for name in results["data"]:
        about = results["data"][name]
        dense = cells(results, name, 0.0).get("pca")
        found = cells(results, name, MAIN)
        if dense is None or OURS not in found:
            continue
        size = f"{about['n_rows']} × {about['n_features']:,}"
        heading = f"**{title(name)[0].upper()}{title(name)[1:]}**, {size}, {MAIN:.0%} zeros:"
        ordered = [found[key] for key in SHORT if key in found]
        rows = [_main_row(cell, dense, found[OURS]) for cell in (*ordered, dense)]
        parts.append(f"{heading}\n\n{markdown(MAIN_HEADER, rows)}")
    return "\n\n".join(parts)


MAIN_HEADER = (
    "method", "zeros", "explained (error)",
    "Dice: folds, halves", "cosine: folds, halves", "regions", "time",
)  # fmt: skip


def _main_row(cell: Cell, dense: Cell, ours: Cell) -> list[Any]:
    sparse = cell["zeros"] > 0
    label = SHORT.get(cell["method"], DENSE_LABEL)
    return [
        f"**{label}**" if cell["method"] == OURS else label,
        _range(cell["reached"]) if sparse else None,
        f"{cell['explained']:.1%}" + (f" ({error_of(cell) / error_of(dense) - 1:+.1%})" if sparse else ""),
        _folds_and_halves(cell, "dice") if sparse else None,
        _folds_and_halves(cell, "cosine"),
        each(cell["regions"], ".0f") if sparse else None,
        _times(cell, ours),
    ]


def _range(shares: Sequence[float]) -> str:
    """Of the components: one number if they are equal."""
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"


def _folds_and_halves(cell: Cell, what: str) -> str:
    """Two means."""
    halves = cell[f"{what}_halves"]
    over_halves = f"{np.mean(halves):.2f}{_few(cell)}" if halves else "–"
    return f"{np.mean(cell[f'{what}_folds']):.2f}, {over_halves}"


def _times(cell: Cell, ours: Cell) -> str:
    """Processor time in units of that of SPCA-TV; in brackets that of one fit, if there was a search."""
    unit = np.median(ours["seconds"])
    whole, one = (np.median(np.divide(cell["seconds"], n)) / unit for n in (1, cell["n_fits"]))
    return f"{whole:.2g}×" + (f" ({one:.2g}×)" if max(cell["n_fits"]) > 1 else "")


def error_of(cell: Cell) -> float:
    """Mean over folds."""
    return float(np.mean(cell["errors"]))


def _by_share(
    results: Results,
    value: Callable[[Cell, str], float | None],
    form: str,
    best: Callable[[list[float]], float],
    note: Callable[[Cell], str] = lambda cell: "",
) -> str:
    """One row per data set and share of zeros, one column per method; the best value is bold."""
    rows = []
    for name in results["data"]:
        for zeros in sorted(SHARES):
            found = cells(results, name, zeros)
            values = {key: value(cell, name) for key, cell in found.items()}
            known = {key: number for key, number in values.items() if number is not None}
            if known:
                top = format(best(list(known.values())), form)
                texts = {key: format(number, form) for key, number in known.items()}
                texts = {key: f"**{text}**" if text == top else text for key, text in texts.items()}
                row = [texts[key] + note(found[key]) if key in texts else None for key in SHORT]
                rows.append([title(name), f"{zeros:.0%}", *row])
    return markdown(["data", "zeros", *SHORT.values()], rows)


def dice_folds(results: Results) -> str:
    """Dice indices over folds at every share."""
    return _by_share(results, lambda cell, name: float(np.mean(cell["dice_folds"])), ".3f", max)


def dice_halves(results: Results) -> str:
    """Dice indices over split halves at every share."""

    def mean(cell: Cell, name: str) -> float | None:
        return float(np.mean(cell["dice_halves"])) if cell["dice_halves"] else None

    return _by_share(results, mean, ".3f", max, note=_few)


def _few(cell: Cell) -> str:
    """Return the number of splits in brackets, if it is not ten."""
    return f" ({cell['n_splits']})" if cell["n_splits"] < N_SPLITS else ""


def errors(results: Results) -> str:
    """Held-out errors against those of dense PCA."""

    def excess(cell: Cell, name: str) -> float | None:
        dense = cells(results, name, 0.0).get("pca")
        return None if dense is None else error_of(cell) / error_of(dense) - 1

    return _by_share(results, excess, "+.1%", min)


def ages(results: Results) -> str:
    """R² of age predicted for people held out."""
    names = [name for name, about in results["data"].items() if about["n_with_age"]]
    header = ["maps", *(f"{title(name)}, {results['data'][name]['n_with_age']} people" for name in names)]
    header += [f"SPCA-TV minus this, {title(name)}" for name in names]
    rows = [["mean of the map", *(_interval(results["data"][name]["mean_map"]["r2"]) for name in names)]]
    rows[0] += [None] * len(names)
    labels = {**SHORT, "pca": DENSE_LABEL}
    for zeros in (MAIN, 0.0):
        by_name = {name: cells(results, name, zeros) for name in names}
        for key, label in labels.items():
            found = [by_name[name].get(key, {}).get("age") for name in names]
            if any(found):
                values = [_interval(age["r2"]) if age else None for age in found]
                minus = [_interval(age.get("ours_minus_this")) if age else None for age in found]
                rows.append([f"{label}, {zeros:.0%} zeros" if zeros else label, *values, *minus])
    return markdown(header, rows)


def brief(results: Results) -> str:
    """Return the comparison in few numbers, for another page."""
    keys = ("sparse-pca", "dictionary", "elastic-net", OURS)
    rows = []
    for name, about in results["data"].items():
        found = cells(results, name, MAIN)
        if not set(keys) <= set(found):
            continue
        indices = [format(float(np.mean(found[key]["dice_folds"])), ".2f") for key in keys]
        pieces = [[round(number) for number in found[key]["regions"]] for key in ("elastic-net", OURS)]
        error = error_of(found[OURS]) / error_of(found["elastic-net"]) - 1
        counts = (f"{min(numbers)} to {max(numbers)}" for numbers in pieces)
        rows.append([title(name), about["n_rows"], *indices, *counts, f"{error:+.1%}"])
    labels = [SHORT[key] for key in keys]
    return markdown(["data", "samples", *labels, "regions, ElasticNet", "regions, SPCA-TV", "error"], rows)


def _interval(value: Mapping[str, float] | None) -> str | None:
    if value is None:
        return None
    middle, low, high = (f"{round(value[key], 2) + 0.0:.2f}" for key in ("value", "low", "high"))  # no -0.00
    return f"{middle} ({low} to {high})"


def summary(results: Results) -> str:
    """Return the sentences of the abstract that have numbers in them."""
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


def _count(better: Sequence[str], pairs: Sequence[tuple[str, Cell, Cell]]) -> str:
    """Such as "10 of 12 (not cortical thickness at 90 %)"."""
    others = [NAMES.get(text, text) for text, _, _ in pairs if text not in better]
    exceptions = f" (not {_listed(others)})" if better and others else ""
    return f"{len(better)} of {len(pairs)}{exceptions}"


def _listed(items: Iterable[str]) -> str:
    items = [item.replace("%", "\N{NO-BREAK SPACE}%") for item in items]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


# Parts of the page: <!-- generated: name --> ... <!-- end -->
BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
PARTS: dict[str, Callable[[Results], str]] = {
    "summary": summary,
    "run": what_was_run,
    "main": main_tables,
    "dice-folds": dice_folds,
    "dice-halves": dice_halves,
    "errors": errors,
    "age": ages,
    "brief": brief,
}


def filled(page: str, results: Results) -> str:
    """Replace every generated part of a page."""

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match['name']](results)}\n\n{match[4]}"

    return BLOCK.sub(replace, page)
