"""The section about a selection: numbers that tell settings apart, and what the rule means."""

import numpy as np
import pytest

from spcatv.report import plot_trade
from spcatv.report.formatting import values
from spcatv.report.sections import chosen_by, selection_section
from spcatv.results import Selection


@pytest.mark.parametrize(
    ("value", "text"), [((0.123456, 0.2), "0.1235, 0.2"), (-0.123456, "−0.1235"), (np.nan, "–")]
)
def test_values_of_settings(value, text):
    assert values(value) == text


def test_rules_are_explained():
    columns = {"mean_test_error": [1.0]}
    assert "(at least 50\u00a0% zeros)" in chosen_by(Selection(columns, 0, "paper", min_sparsity=0.5))
    assert chosen_by(Selection(columns, 0, "")) == ""
    assert "most stable" in chosen_by(Selection(columns, 0, "one_se"))
    assert "lowest held-out error" in chosen_by(Selection(columns, 0, "error"))
    assert "the same places on every fold" in chosen_by(Selection(columns, 0, "stability"))
    assert chosen_by(Selection(columns, 0, "mine")) == ""
    assert "The rule was “mine”." in selection_section(Selection(PATH, 0, "mine")).text


PATH = {
    "param_alpha": [0.1, 0.2],
    "param_l1_ratio": [0.1] * 2,
    "param_tv_ratio": [0.5] * 2,
    "mean_test_error": [1.0, 2.0],
    "mean_test_explained": [0.5, 0.4],
    "mean_dice": [0.5, 0.6],
    "mean_sparsity": [0.5, 0.6],
}
TARGETS = {
    "param_sparsity": [0.5, 0.9, 0.5, 0.9],
    "param_smoothness": [0.5, 0.5, 1.0, 1.0],
    "mean_test_error": [1.0, 1.2, 1.1, 1.3],
    "mean_test_explained": [0.5, 0.42, 0.46, 0.3],
    "se_test_explained": [0.05] * 4,
    "mean_dice": [0.8, 0.7, 0.9, 0.6],
    "mean_sparsity": [0.5, 0.9, 0.5, 0.9],
}


def test_error_against_stability():
    axes = plot_trade(TARGETS, best_index=2).axes[0]
    assert [(text.get_text(), text.xy) for text in axes.texts] == [("0.5", (1.1, 0.9)), ("0.9", (1.2, 0.7))]
    points = [line for line in axes.lines if line.get_marker() not in ("None", "*")]
    filled = {
        (x, y)
        for line in points
        if line.get_markerfacecolor() != "white"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert filled == {(1.0, 0.8), (1.1, 0.9)}, "explained within 0.05 of the 0.5 of the lowest error"
    (star,) = (line for line in axes.lines if line.get_marker() == "*")
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (1.1, 0.9)
    labels = {text.get_text() for text in axes.figure.legends[0].get_texts()}
    assert labels == {"smoothness 0.5", "smoothness 1", "chosen"}


def test_the_section_gives_the_reason():
    section = selection_section(Selection(TARGETS, 2, "one_se", 5, reason="mean Dice index 0.90"))
    assert "chosen: sparsity 0.5, smoothness 1. Why: mean Dice index 0.90. The rule" in section.text
    assert "against their held-out error" in section.charts[0].alt
    # a grid of alpha has both over alpha
    assert "settings. Chosen: alpha 0.1" in selection_section(Selection(PATH, 0)).charts[0].alt


def test_labels_of_close_points_are_joined():
    """Two settings whose numbers would be drawn over each other share one label."""
    close = {**TARGETS, "param_sparsity": [0.5, 0.9, 0.5, 0.9], "mean_test_error": [2.0, 1.0, 1.1, 1.11]}
    close |= {"mean_dice": [0.1, 0.2, 0.9, 0.9]}
    assert [text.get_text() for text in plot_trade(close).axes[0].texts] == ["0.5, 0.9"]
