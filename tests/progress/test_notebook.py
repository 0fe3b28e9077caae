"""The bar in a notebook, whose display is simulated."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.progress import Message, StageAdvanced, StageStarted, bars, current_listener, printing


@pytest.fixture
def shown(monkeypatch):
    """What the notebook shows, update after update."""
    bundles = []
    monkeypatch.setattr(bars, "UPDATE_SECONDS", 0.0)
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=None)
    handle = SimpleNamespace(update=lambda bundle, raw: bundles.append(bundle))
    display.display = lambda bundle, raw, display_id: bundles.append(bundle) or handle
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return bundles


def test_a_fit_fills_the_bar(shown, capsys):
    X = np.random.default_rng(0).standard_normal((20, 12))
    SPCATV(2, method="deflation", verbose=1).fit(X)
    assert 'value="0.5000"' in "".join(bundle["text/html"] for bundle in shown)
    assert 'value="1.0000"' in shown[-1]["text/html"]
    assert capsys.readouterr().out == ""


def test_stages_and_messages(shown):
    with printing("X", 1):
        for event in (
            StageStarted("Splitting", 4, "splits"),
            StageAdvanced("1 of 4 splits"),
            Message("a <b>"),
        ):
            current_listener().hear(event)
    assert shown[1]["text/plain"] == "X: Splitting: 1 of 4 splits"
    assert 'value="0.2500"' in shown[1]["text/html"]
    assert "a &lt;b&gt;" in shown[2]["text/html"]


def test_lines_with_more_details_or_outside_of_a_notebook(shown, capsys, monkeypatch):
    for verbose in (2, 1):
        with printing("X", verbose):
            current_listener().hear(Message("text"))
        sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()  # at a terminal
    assert capsys.readouterr().out == "[X] text\n[X] text\n"
    assert not shown
