"""From the numbers of the study to the generated parts of its page; nothing is computed from data here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.study.measures import OURS
from benchmarks.study.work import SHARES
from benchmarks.tables import each, markdown
from spcatv.significance import paired_t_test

Results = Mapping[str, Any]
Cell = Mapping[str, Any]
MAIN = SHARES[0]
# Parts of the page: <!-- generated: name --> ... <!-- end -->
BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
NAMES = {
    "sst": "sea temperatures",
    "fmri": "fMRI contrasts",
    "thickness": "cortical thickness",
    "vbm": "grey matter",
}
SHORT = {
    "pca-cut": "PCA, cut",
    "canica-cut": "CanICA, cut",
    "sparse-pca": "Sparse PCA",
    "dictionary": "DictLearning",
    "elastic-net": "ElasticNet PCA",
    OURS: "SPCA-TV",
}


def filled(page: str, results: Results) -> str:
    """The page with every generated part written anew from the results."""

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match['name']](results)}\n\n{match[4]}"

    return BLOCK.sub(replace, page)


def cells(results: Results, name: str, zeros: float) -> dict[str, Cell]:
    """Cells of a data set at a share of zeros, by method."""
    return {cell["method"]: cell for cell in results["data"][name]["cells"] if cell["zeros"] == zeros}


def title(name: str) -> str:
    """What a data set is called in tables."""
    return NAMES.get(name, name)


def what_was_run(results: Results) -> str:
    """Folds and splits behind the tables, and where they were made."""
    rows = []
    for name in results["data"]:
        for zeros in sorted(SHARES):
            found = cells(results, name, zeros)
            splits = {cell["n_splits"] for cell in found.values()}
            missing = [label for key, label in SHORT.items() if key not in found]
            rows.append(
                [
                    title(name),
                    f"{zeros:.0%}",
                    len(found),
                    ", ".join(missing) or "none",
                    " to ".join(str(n) for n in sorted({min(splits), max(splits)})) if splits else "0",
                ]
            )
    run = results["run"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return f"`{run['command']}`, {run['date']}, Python {run['python']}, {versions}.\n\n" + markdown(
        ["data", "zeros", "methods with five folds", "methods missing", "split halves of ten"], rows
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
        heading = (
            f"**{title(name).capitalize()}**, {about['n_rows']} × {about['n_features']:,}, {MAIN:.0%} zeros:"
        )
        rows = [_main_row(cell, dense, found[OURS]) for cell in (dense, *found.values())]
        parts.append(f"{heading}\n\n{markdown(MAIN_HEADER, rows)}")
    return "\n\n".join(parts)


MAIN_HEADER = (
    "method", "zeros by component", "held-out variance", "error against PCA", "Dice, folds", "cosine, folds",
    "Dice, halves", "cosine, halves", "regions by component", "time",
)  # fmt: skip


def _main_row(cell: Cell, dense: Cell, ours: Cell) -> list[Any]:
    sparse = cell["zeros"] > 0
    return [
        f"**{cell['label']}**" if cell["method"] == OURS else cell["label"],
        each(cell["reached"], ".0%") if sparse else None,
        f"{cell['explained']:.1%}",
        f"{_error(cell) / _error(dense) - 1:+.1%}" if sparse else None,
        f"{np.mean(cell['dice_folds']):.3f}" if sparse else None,
        f"{np.mean(cell['cosine_folds']):.3f}",
        _mean(cell["dice_halves"]) if sparse else None,
        _mean(cell["cosine_halves"]),
        each(cell["regions"], ".0f") if sparse else None,
        f"{np.median(cell['seconds']) / np.median(ours['seconds']):.2g}×",
    ]


def _error(cell: Cell) -> float:
    return float(np.mean(cell["errors"]))


def _mean(values: Sequence[float]) -> str | None:
    return f"{np.mean(values):.3f}" if values else None


def _by_share(results: Results, value: Callable[[Cell, str], float | None], form: str, best: Any) -> str:
    """One row per data set and share of zeros, one column per method; the best value is bold."""
    rows = []
    for name in results["data"]:
        for zeros in sorted(SHARES):
            found = cells(results, name, zeros)
            values = {key: value(cell, name) for key, cell in found.items()}
            known = [number for number in values.values() if number is not None]
            if not known:
                continue
            texts = {key: None if number is None else format(number, form) for key, number in values.items()}
            top = format(best(known), form)
            shown = [f"**{texts.get(key)}**" if texts.get(key) == top else texts.get(key) for key in SHORT]
            rows.append([title(name), f"{zeros:.0%}", *shown])
    return markdown(["data", "zeros", *SHORT.values()], rows)


def dice_folds(results: Results) -> str:
    """Dice indices over folds at every share."""
    return _by_share(results, lambda cell, name: float(np.mean(cell["dice_folds"])), ".3f", max)


def dice_halves(results: Results) -> str:
    """Dice indices over split halves at every share."""
    return _by_share(
        results,
        lambda cell, name: float(np.mean(cell["dice_halves"])) if cell["dice_halves"] else None,
        ".3f",
        max,
    )


def errors(results: Results) -> str:
    """Held-out errors against those of dense PCA."""

    def excess(cell: Cell, name: str) -> float | None:
        dense = cells(results, name, 0.0).get("pca")
        return None if dense is None else _error(cell) / _error(dense) - 1

    return _by_share(results, excess, "+.1%", min)


def ages(results: Results) -> str:
    """R² of age predicted for people held out."""
    names = [name for name, about in results["data"].items() if about["n_with_age"]]
    header = ["maps", *(f"{title(name)}, {results['data'][name]['n_with_age']} people" for name in names)]
    header += [f"SPCA-TV minus this, {title(name)}" for name in names]
    rows = [["mean of the map", *(_interval(results["data"][name]["mean_map"]["r2"]) for name in names)]]
    rows[0] += [None] * len(names)
    labels = {"pca": "PCA, dense", **SHORT}
    for zeros in (0.0, MAIN):
        by_name = {name: cells(results, name, zeros) for name in names}
        for key, label in labels.items():
            found = [by_name[name].get(key, {}).get("age") for name in names]
            if any(found):
                values = [_interval(age["r2"]) if age else None for age in found]
                minus = [_interval(age.get("ours_minus_this")) if age else None for age in found]
                rows.append([f"{label}, {zeros:.0%} zeros" if zeros else label, *values, *minus])
    return markdown(header, rows)


def _interval(value: Mapping[str, float] | None) -> str | None:
    if value is None:
        return None
    return f"{value['value']:.2f} ({value['low']:.2f} to {value['high']:.2f})"


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
    half = [t for t, ours, other in compared if np.mean(ours["dice_halves"]) > np.mean(other["dice_halves"])]
    lower = [text for text, ours, other in both if _error(ours) < _error(other)]
    return (
        f"- **{label}**: a higher Dice index over folds in {_count(folds, both)}; over halves in "
        f"{_count(half, compared)}; a lower held-out error in {_count(lower, both)}."
    )


def _count(better: Sequence[str], pairs: Sequence[tuple[str, Cell, Cell]]) -> str:
    """Such as "10 of 12 (not cortical thickness at 90 %)"."""
    others = [text for text, _, _ in pairs if text not in better]
    exceptions = f" (not {_listed(others)})" if better and others else ""
    return f"{len(better)} of {len(pairs)}{exceptions}"


def _listed(items: Iterable[str]) -> str:
    items = [item.replace("%", " %") for item in items]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def error_tests(results: Results) -> str:
    """SPCA-TV against every method at the first share: the difference of errors, with paired t-tests."""
    keys = [key for key in SHORT if key != OURS]
    rows = []
    for name in results["data"]:
        found = cells(results, name, MAIN)
        if OURS in found:
            rows.append([title(name), *(_test(found[OURS], found.get(key)) for key in keys)])
    return markdown(["SPCA-TV against", *(SHORT[key] for key in keys)], rows)


def _test(ours: Cell, other: Cell | None) -> str | None:
    if other is None:
        return None
    test = paired_t_test(ours["errors"], other["errors"])
    p_text = "p < 0.001" if test.p_value < 0.001 else f"p = {test.p_value:.3f}"
    return f"{_error(ours) / _error(other) - 1:+.1%} ({p_text})"


PARTS: dict[str, Callable[[Results], str]] = {
    "run": what_was_run,
    "main": main_tables,
    "dice-folds": dice_folds,
    "dice-halves": dice_halves,
    "errors": errors,
    "error-tests": error_tests,
    "age": ages,
    "findings": findings,
}
