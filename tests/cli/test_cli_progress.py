"""What is shown while a command works."""

import io
import logging
import re
import sys

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.cli import main, progress
from spcatv.cli.progress import Display, LiveDisplay, LogDisplay, choose_display, share_done
from spcatv.progress.watching import watched_by, watchers

rich_console = pytest.importorskip("rich.console", reason="the live line is drawn by rich (extra `images`)")


def terminal():
    return rich_console.Console(file=io.StringIO(), force_terminal=True, width=140, record=True)


@pytest.fixture
def on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


@pytest.fixture
def clean_log():
    package = logging.getLogger("spcatv")
    before = package.handlers, package.level
    yield
    package.handlers, package.level = before


def test_share_goes_with_the_logarithm_of_the_gap():
    assert share_done(1.0, 1e-6) == 0
    assert share_done(5.0, 1e-6) == 0
    assert share_done(1e-3, 1e-6) == pytest.approx(0.5)
    assert share_done(1e-6, 1e-6) == share_done(0.0, 1e-6) == 1


def test_live_line_shows_component_alternation_objective_gap_and_time_left(monkeypatch):
    clock = iter(np.arange(0.0, 1000.0, 30.0))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(clock)))
    console = terminal()
    with LiveDisplay(2, 1e-6, console) as display:
        display.file_read(3, 10, "sub-03.nii")
        display._bar.refresh()
        display.component_begins(0)
        assert display.alternation_ended(7, -12.5, 1e-3) is False
        display._bar.refresh()
    shown = console.export_text()
    assert "file 3/10" in shown
    assert "component 1/2" in shown
    assert "alternation 7" in shown
    assert "objective -12.5" in shown
    assert "gap 1.0e-03" in shown
    # a quarter of the work took 30 s
    assert "about 1 min 30 s left" in shown


def test_bar_never_goes_back():
    """A restart of a component begins with a large gap again."""
    display = LiveDisplay(2, 1e-6, terminal())
    seen = []
    display.component_begins(0)
    for gap in (1e-1, 1e-4, 1e-1, 1e-5):
        display.alternation_ended(1, -1.0, gap)
        seen.append(display._bar.tasks[0].completed)
    display.component_begins(1)
    seen.append(display._bar.tasks[0].completed)
    assert seen == sorted(seen)
    assert seen[1] == pytest.approx(2 / 3)
    assert seen[-1] == 1


def test_display_hears_of_a_fit_and_changes_nothing(striped):
    class Listener(Display):
        def __init__(self):
            super().__init__(2, 1e-6)
            self.heard = []

        def component_begins(self, number):
            self.heard.append(("begin", number))

        def component_ended(self, number, diagnostics, components):
            self.heard.append(("end", number))
            return False

    listener = Listener()
    with watched_by(listener):
        assert watchers() == (listener,)
        watched = SPCATV(2, structure=(60,)).fit(striped)
    assert watchers() == ()
    assert listener.heard == [("begin", 0), ("end", 0), ("begin", 1), ("end", 1)]
    np.testing.assert_array_equal(watched.components_, SPCATV(2, structure=(60,)).fit(striped).components_)


def test_nobody_watches_after_a_failure():
    with pytest.raises(ZeroDivisionError), watched_by(Display(1, 1e-6)):
        raise ZeroDivisionError
    assert watchers() == ()


def test_choice_of_the_display(on_a_terminal):
    assert type(choose_display(1, 1e-6, quiet=False, verbose=0)) is LiveDisplay
    assert type(choose_display(1, 1e-6, quiet=True, verbose=0)) is Display
    assert type(choose_display(1, 1e-6, quiet=True, verbose=2)) is Display
    assert type(choose_display(1, 1e-6, quiet=False, verbose=1)) is LogDisplay


def test_no_live_line_without_a_terminal_or_without_rich(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert type(choose_display(1, 1e-6, quiet=False, verbose=0)) is Display
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert type(choose_display(1, 1e-6, quiet=False, verbose=0)) is Display


@pytest.mark.parametrize("level", ["-v", "-vv"])
def test_verbose_logs(level, array, tmp_path, capsys, clean_log):
    command = ["fit", "--array", str(array), "--shape", "12,10", "--n-components", "1", "--output"]
    assert main([*command, str(tmp_path / "out"), level]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert any("component 1 of 1: objective" in line and "certified relative gap" in line for line in lines)
    assert any("component 1 of 1, alternation 1: objective" in line for line in lines) == (level == "-vv")


def test_quiet_says_nothing_at_all(array, tmp_path, done):
    assert done("fit", "--array", array, "--n-components", "1", "--output", tmp_path / "out", "--quiet") == ""


def test_durations():
    assert progress._duration(0.2) == "1 s"
    assert progress._duration(59.4) == "59 s"
    assert progress._duration(61) == "1 min 1 s"
    assert progress._duration(7260) == "2 h 1 min"
