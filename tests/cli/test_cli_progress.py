"""What is shown while a command works."""

import io
import logging
import re
import sys

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.cli import main
from spcatv.cli.progress import Display, LiveDisplay, LogDisplay, NoteDisplay, choose_display, share_done
from spcatv.cli.time_left import TimeLeft, duration
from spcatv.progress import (
    AlternationEnded,
    ComponentStarted,
    FileRead,
    StageAdvanced,
    StageStarted,
    listening,
)
from spcatv.selection import component_curve
from spcatv.stability import bootstrap_components, split_halves

rich_console = pytest.importorskip("rich.console", reason="the live line is drawn by rich (extra `images`)")


def terminal():
    return rich_console.Console(file=io.StringIO(), force_terminal=True, width=140, record=True)


@pytest.fixture
def on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def test_share_goes_with_the_logarithm_of_the_gap():
    assert share_done(1.0, 1e-6) == 0
    assert share_done(5.0, 1e-6) == 0
    assert share_done(1e-3, 1e-6) == pytest.approx(0.5)
    assert share_done(1e-6, 1e-6) == share_done(0.0, 1e-6) == 1


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_live_line_shows_component_alternation_objective_gap_and_time_left():
    clock, console = Clock(), terminal()
    with LiveDisplay(console, clock) as display:
        clock.now = 6.0
        display.hear(FileRead(3, 10, "sub-03.nii"))
        display._bar.refresh()
        display.hear(ComponentStarted(1, 2, tol=1e-6))
        clock.now = 36.0
        assert display.hear(AlternationEnded(7, -12.5, 1e-3)) is False
        display._bar.refresh()
    shown = console.export_text()
    assert re.search(r"file 3/10 +about 14 s left", shown)
    assert "component 1/2" in shown
    assert "alternation 7" in shown
    assert "objective -12.5" in shown
    assert "gap 1.0e-03" in shown
    # a quarter of the work took 30 s
    assert "about 1 min 30 s left" in shown


def test_bar_never_goes_back():
    """Each start of a component begins with a large gap again."""
    display = LiveDisplay(terminal())
    seen = []
    display.hear(ComponentStarted(1, 2, tol=1e-6))
    for gap in (1e-1, 1e-4, 1e-1, 1e-5):
        display.hear(AlternationEnded(1, -1.0, gap))
        seen.append(display._bar.tasks[0].completed)
    display.hear(ComponentStarted(2, 2, tol=1e-6))
    seen.append(display._bar.tasks[0].completed)
    assert seen == sorted(seen)
    assert seen[1] == pytest.approx(2 / 3)
    assert seen[-1] == 1


def test_displays_follow_a_fit_and_change_nothing(striped, caplog):
    alone = SPCATV(2, structure=(60,)).fit(striped)
    live = LiveDisplay(terminal())
    with caplog.at_level("DEBUG", logger="spcatv.cli"), listening(live), listening(LogDisplay()):
        followed = SPCATV(2, structure=(60,)).fit(striped)
    np.testing.assert_array_equal(followed.components_, alone.components_)
    (task,) = live._bar.tasks
    assert (task.description, task.completed, task.total) == ("Fitting", 2, 2)
    last = alone.diagnostics_[1]
    done = f"component 2/2  done after {last.n_alternations} alternations  objective {last.objective:.6g}"
    assert task.fields["note"].startswith(done)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 + last.n_alternations
    assert lines[0].startswith("component 1 of 2, alternation 1: objective ")
    assert lines[-1].startswith(
        f"component 2 of 2: objective {last.objective:.8g}, certified relative gap {last.relative_gap:.2e}, "
        f"{last.n_alternations} alternations, {100 * last.sparsity:.1f} % zeros, "
    )


def test_choice_of_the_display(on_a_terminal):
    assert type(choose_display(quiet=False, verbose=0)) is LiveDisplay
    assert type(choose_display(quiet=True, verbose=0)) is Display
    assert type(choose_display(quiet=True, verbose=2)) is Display
    assert type(choose_display(quiet=False, verbose=1)) is LogDisplay


def test_no_live_line_without_a_terminal_or_without_rich(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert type(choose_display(quiet=False, verbose=0)) is NoteDisplay
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert type(choose_display(quiet=False, verbose=0)) is NoteDisplay


@pytest.mark.parametrize("level", ["-v", "-vv"])
def test_verbose_logs(level, array, tmp_path, capsys):
    command = [
        "fit",
        "--array",
        str(array),
        "--shape",
        "12,10",
        "--n-components",
        "1",
        "--alpha",
        "0.2",
        "--output",
    ]
    assert main([*command, str(tmp_path / "out"), level]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert any("component 1 of 1: objective" in line and "certified relative gap" in line for line in lines)
    assert any("component 1 of 1, alternation 1: objective" in line for line in lines) == (level == "-vv")


def test_the_log_goes_to_the_terminal_as_long_as_the_command_runs(array, tmp_path):
    package = logging.getLogger("spcatv")
    before = [*package.handlers], package.level
    command = ["fit", "--array", str(array), "--n-components", "1", "--output"]
    assert main([*command, str(tmp_path / "out"), "-vv"]) == 0
    assert main([*command, str(tmp_path / "other"), "-v", "--sparsity", "0.999"]) == 2
    assert ([*package.handlers], package.level) == before


@pytest.mark.parametrize("command", ["fit", "select", "transform"])
def test_every_command_tells_of_the_files_it_reads(command, volumes, tmp_path, caplog):
    images = str(volumes / "*.nii.gz")
    small = ["--n-components", "1", "--mask", str(tmp_path / "mask.nii.gz")]
    words = {
        "fit": ["fit", images, *small],
        "select": ["select", images, *small, "--cv", "2", "--alpha", "0.1", "--n-bootstraps", "0"],
        "transform": ["transform", str(tmp_path / "model"), images],
    }
    if command == "transform":
        assert main([*words["fit"], "--output", str(tmp_path / "model"), "--quiet"]) == 0
    with caplog.at_level("INFO", logger="spcatv.cli"):
        assert main([*words[command], "--output", str(tmp_path / "out"), "-v"]) == 0
    files = sorted(volumes.iterdir())
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("read ")]
    assert lines == [f"read {number} of 10: {file}" for number, file in enumerate(files, start=1)]


def test_quiet_says_nothing_at_all(array, tmp_path, done):
    assert done("fit", "--array", array, "--n-components", "1", "--output", tmp_path / "out", "--quiet") == ""


def test_durations():
    assert duration(0.2) == "1 s"
    assert duration(59.4) == "59 s"
    assert duration(61) == "1 min 1 s"
    assert duration(7260) == "2 h 1 min"


def test_time_left_follows_the_pace_and_counts_down():
    clock = Clock()
    left = TimeLeft(clock)
    assert (left.seconds(), str(left)) == (None, "")
    left.begin(10)
    clock.now = 1.0
    # not even the first step is done: the nine others take at least as long
    assert str(left) == "at least 9 s left"
    clock.now = 5.0
    left.steps_done(1)
    assert (left.seconds(), str(left)) == (pytest.approx(45.0), "about 45 s left")
    clock.now = 8.0
    assert left.seconds() == pytest.approx(42.0)
    # the second step takes twice as long: were it done now, eight would be left at this pace
    clock.now = 15.0
    assert left.seconds() == pytest.approx(15.0 * 4)
    left.steps_done(10)
    assert (left.seconds(), str(left)) == (0.0, "")


def test_time_left_with_steps_at_the_same_time():
    """Four of eight steps at once: when the first is done, so are nearly four."""
    clock = Clock()
    left = TimeLeft(clock)
    left.begin(8, at_once=4)
    clock.now = 2.0
    assert str(left) == "at least 2 s left"
    clock.now = 10.0
    left.steps_done(1)
    assert left.seconds() == pytest.approx(10.0)


def test_time_left_of_work_without_steps():
    clock = Clock()
    left = TimeLeft(clock)
    left.begin(3)
    clock.now = 4.0
    left.share_done(0.25)
    assert left.seconds() == pytest.approx(12.0)
    clock.now = 400.0
    assert left.seconds() == pytest.approx(400.0 * 0.375 / 0.625)


def test_resampling_and_halves_are_counted_with_the_time_left(striped, caplog):
    """On the live line and in the log, from the first second on."""
    clock, console = Clock(), terminal()
    seen = []

    class Tick(Display):
        def hear(self, event):
            clock.now += 10.0 * isinstance(event, StageAdvanced)
            return False

    class Watch(Display):
        def hear(self, event):
            clock.now += 1.0 * isinstance(event, StageStarted)
            (task,) = live._bar.tasks
            seen.append((task.description, task.fields["note"], str(live._left)))
            return False

    live, model = LiveDisplay(console, clock), SPCATV(1, structure=(60,)).fit(striped)
    with (
        caplog.at_level("INFO", logger="spcatv.cli"),
        listening(Tick()),
        listening(LogDisplay(clock)),
        listening(live),
        listening(Watch()),
    ):
        bootstrap_components(model, striped, n_resamples=3, random_state=0)
        split_halves(model, striped, n_splits=2, random_state=0)
        component_curve(model, striped, max_components=2, cv=2)
    assert seen[0] == ("Resampling", "0 of 3 resamples", "at least 2 s left")
    assert seen[1] == ("Resampling", "1 of 3 resamples", "about 22 s left")
    assert seen[2] == ("Resampling", "2 of 3 resamples", "about 10 s left")
    assert seen[3] == ("Resampling", "3 of 3 resamples", "")
    assert [note for _, note, _ in seen[4:]] == [
        *("0 of 2 splits", "1 of 2 splits", "2 of 2 splits"),
        *("0 of 2 folds", "1 of 2 folds", "2 of 2 folds"),
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "Resampling: 3 resamples"
    assert lines[1] == "1 of 3 resamples, about 22 s left"
    assert lines[3] == "3 of 3 resamples"
    assert lines[4] == "Splitting into halves: 2 splits"
