"""The section about a selection: numbers that tell settings apart, and what the rule means."""

import numpy as np
import pytest

from spcatv.report import plot_path, plot_trade
from spcatv.report.selection import chosen_by, distinct, selection_section, setting_value
from spcatv.results import Selection


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.123456,0.2", "0.1235, 0.2"),
        ((0.123456, 0.2), "0.1235, 0.2"),
        (0.123456, "0.1235"),
        ("0.5", "0.5"),
        ("n/a", "–"),
        ("other", "other"),
    ],
)
def test_values_of_settings(value, text):
    assert setting_value(value) == text


def test_errors_have_the_digits_that_distinguish_them():
    assert distinct(np.array([1.0, 2.0])) == ["1.000", "2.000"]
    assert distinct(np.array([123.45671, 123.45672, np.nan])) == ["123.45671", "123.45672", "–"]
    assert distinct(np.array([0.5, 0.5])) == ["0.5000", "0.5000"]


def test_rules_are_explained():
    columns = {"mean_test_error": [1.0]}
    assert "(at least 50\u00a0% zeros)" in chosen_by(Selection(columns, 0, "paper", min_sparsity=0.5))
    assert chosen_by(Selection(columns, 0, "")) == ""
    assert "most stable" in chosen_by(Selection(columns, 0, "one_se"))
    assert "lowest held-out error" in chosen_by(Selection(columns, 0, "error"))
    assert "the same places on every fold" in chosen_by(Selection(columns, 0, "stability"))
    assert chosen_by(Selection(columns, 0, "mine")) == ""
    assert "The rule was “mine”." in selection_section(Selection(PATH, 0, "mine")).text


def test_settings_without_a_model_do_not_press_the_others_together():
    columns = {
        "param_alpha": [0.1, 0.2, 0.3, 0.9],
        "param_l1_ratio": [0.1] * 4,
        "param_tv_ratio": [0.5] * 4,
        "mean_test_error": [1.0, 1.01, 1.02, 50.0],
        "mean_test_explained": [0.5, 0.5, 0.5, 0.001],
        "mean_dice": [0.5] * 4,
    }
    low, high = plot_path(columns, best_index=0).axes[0].get_ylim()
    assert low < 1.0 < 1.02 < high < 1.03
    # the chosen one is always shown
    assert plot_path(columns, best_index=3).axes[0].get_ylim()[1] > 50


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
