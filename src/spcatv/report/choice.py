"""The section about the selection: the settings that were compared, and the rule that chose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.report import words
from spcatv.report.content import Chart, Table, chart, heads
from spcatv.report.figures import plot_path
from spcatv.report.sections import Section
from spcatv.report.trade import has_trade, plot_trade
from spcatv.results import Selection
from spcatv.results.read import numeric

MOST_SETTINGS = 200  # listed, besides the chosen one
PARAMETERS = {
    "param_sparsity": "sparsity",
    "param_smoothness": "smoothness",
    "param_alpha": "alpha",
    "param_l1_ratio": "l1 ratio",
    "param_tv_ratio": "TV ratio",
}
# range of significant digits of the held-out errors: as many as are needed to tell the settings apart
DIGITS = range(4, 10)


def selection_section(selection: Selection) -> Section:
    """The settings that were compared, and the choice among them."""
    shown = _columns(selection)
    n_settings = len(selection.columns["mean_test_error"])
    best = selection.best_index
    rows = [
        (f"{k + 1} (chosen)" if k == best else str(k + 1), *(column[k] for column in shown.values()))
        for k in sorted({*range(min(n_settings, MOST_SETTINGS)), best})
    ]
    chosen = ", ".join(f"{title} {shown[title][best]}" for title in PARAMETERS.values() if title in shown)
    folds = "" if selection.n_folds is None else f" on {selection.n_folds} folds"
    verb = "was" if n_settings == 1 else "were"
    text = f"{words.count(n_settings, 'setting')} {verb} compared{folds}; chosen: {chosen}."
    why = f"Why: {selection.reason}." if selection.reason else ""
    return Section(
        " ".join(filter(None, (text, why, rule_sentence(selection)))),
        _picture(selection, f"Chosen: {chosen}, with a held-out error of {shown['held-out error'][best]}."),
        Table("Settings", heads("Setting", *shown), tuple(rows), id="selection-table"),
    )


def _picture(selection: Selection, chosen: str) -> Chart:
    """Error against stability; for a grid over alpha, with its many settings, both over alpha."""
    n_settings = len(selection.columns["mean_test_error"])
    if has_trade(selection.columns):
        return chart(
            plot_trade(selection.columns, best_index=selection.best_index),
            alt=f"Stability of {n_settings} settings against their held-out error. {chosen}",
            caption="Every point is a setting, the number at it its sparsity; best is up and left. The star "
            "marks the chosen setting, and filled points are within one standard error of the lowest error.",
        )
    return chart(
        plot_path(selection.columns, best_index=selection.best_index),
        alt=f"Held-out error and stability of {n_settings} settings. {chosen}",
        caption="The star marks the chosen setting. Lower error and higher stability are better.",
    )


def rule_sentence(selection: Selection) -> str:
    """What the rule that chose the setting means; empty if the rule is not known."""
    if selection.rule == "paper":
        least = (
            ""
            if selection.min_sparsity is None
            else f" (at least {words.percent(selection.min_sparsity, 2)} zeros)"
        )
        return (
            "The rule “paper” takes the lowest held-out error among the settings whose second and third "
            f"components are sparse{least}, or the one that comes closest to that where none is."
        )
    meanings = {
        "one_se": "takes the sparsest setting whose explained share of the held-out data is within one "
        "standard error over the folds of the best one, and of equally sparse ones the most reproducible.",
        "error": "takes the lowest held-out error.",
        "stability": "takes the setting that finds the same places on every fold most often (Dice index, "
        "corrected for chance).",
    }
    if selection.rule in meanings:
        return f"The rule “{selection.rule}” {meanings[selection.rule]}"
    return f"The rule was “{selection.rule}”." if selection.rule else ""


def _columns(selection: Selection) -> dict[str, list[str]]:
    """The columns of the table as strings, by their headings."""
    known = selection.columns
    shown = {
        title: [setting_value(value) for value in known[name]]
        for name, title in PARAMETERS.items()
        if name in known
    }
    errors = numeric(known["mean_test_error"])
    if errors is None:
        shown["held-out error"] = [str(value) for value in known["mean_test_error"]]
    else:
        shown["held-out error"] = distinct(errors)
        if np.isfinite(errors).any() and (lowest := float(np.nanmin(errors))) > 0:
            shown["above the lowest"] = [_percent(error / lowest - 1) for error in errors]
    if "mean_dice" in known:
        shown["Dice"] = [setting_value(value) for value in known["mean_dice"]]
    zeros = numeric(known.get("mean_sparsity", ()))
    if zeros is not None and len(zeros):
        shown["zeros"] = [_percent(share) for share in zeros]
    return shown


def _percent(share: float) -> str:
    return words.percent(share) if np.isfinite(share) else "–"


def distinct(values: FloatArray) -> list[str]:
    """Numbers with as many significant digits as are needed to tell them apart, within `DIGITS`."""
    finest = _texts(values, DIGITS[-1])
    n_distinct = len(set(finest))
    return next((texts for n in DIGITS if len(set(texts := _texts(values, n))) == n_distinct), finest)


def _texts(values: FloatArray, digits: int) -> list[str]:
    return ["–" if np.isnan(value) else words.number(value, digits) for value in values]


def setting_value(value: Any) -> str:
    """A value of a setting as a short string; one alpha per component is a list, or a string "0.1,0.2"."""
    parts: Sequence[Any] = value.split(",") if isinstance(value, str) else np.atleast_1d(value).tolist()
    numbers = numeric(parts)
    if numbers is None:
        return str(value)
    return ", ".join("–" if np.isnan(number) else f"{number:.4g}".replace("-", "−") for number in numbers)
