"""The section about a selection: numbers that tell settings apart, and what the rule means."""

import numpy as np
import pytest

from spcatv.report import plot_path
from spcatv.report.choice import distinct, rule_sentence, setting_value
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


def test_errors_have_the_digits_that_tell_them_apart():
    assert distinct(np.array([1.0, 2.0])) == ["1.000", "2.000"]
    assert distinct(np.array([123.45671, 123.45672, np.nan])) == ["123.45671", "123.45672", "–"]
    assert distinct(np.array([0.5, 0.5])) == ["0.5000", "0.5000"]


def test_rules_are_explained():
    columns = {"mean_test_error": [1.0]}
    assert "(at least 50\u00a0% zeros)" in rule_sentence(Selection(columns, 0, "paper", min_sparsity=0.5))
    assert rule_sentence(Selection(columns, 0, "")) == ""
    assert "closest to two goals at once" in rule_sentence(Selection(columns, 0, "stability"))
    assert rule_sentence(Selection(columns, 0, "mine")) == "The rule was “mine”."


@pytest.mark.parametrize("known", ["mean_test_explained", "mean_sparsity"])
def test_settings_without_a_model_do_not_press_the_others_together(known):
    nothing = [0, 0, 0, 1]
    columns = {
        "param_alpha": [0.1, 0.2, 0.3, 0.9],
        "param_l1_ratio": [0.1] * 4,
        "param_tv_ratio": [0.5] * 4,
        "mean_test_error": [1.0, 1.01, 1.02, 50.0],
        known: [0.001 if last else 0.5 for last in nothing]
        if known == "mean_test_explained"
        else [0.999 if last else 0.6 for last in nothing],
    }
    low, high = plot_path(columns, best_index=0).axes[0].get_ylim()
    assert low < 1.0 < 1.02 < high < 1.03
    # the chosen one is always shown
    assert plot_path(columns, best_index=3).axes[0].get_ylim()[1] > 50
