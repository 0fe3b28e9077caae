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
from spcatv.progress import AlternationEnded, ComponentStarted, FileRead, listening

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
    with LiveDisplay(console) as display:
        display.hear(FileRead(3, 10, "sub-03.nii"))
        display._bar.refresh()
        display.hear(ComponentStarted(1, 2, tol=1e-6))
        assert display.hear(AlternationEnded(7, -12.5, 1e-3)) is False
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
    assert len(lines) == 2 + sum(found.n_alternations for found in alone.diagnostics_)
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
    assert type(choose_display(quiet=False, verbose=0)) is Display
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert type(choose_display(quiet=False, verbose=0)) is Display


@pytest.mark.parametrize("level", ["-v", "-vv"])
def test_verbose_logs(level, array, tmp_path, capsys, clean_log):
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


@pytest.mark.parametrize("command", ["fit", "select", "transform"])
def test_every_command_tells_of_the_files_it_reads(command, volumes, tmp_path, caplog, clean_log):
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
    assert progress._duration(0.2) == "1 s"
    assert progress._duration(59.4) == "59 s"
    assert progress._duration(61) == "1 min 1 s"
    assert progress._duration(7260) == "2 h 1 min"
