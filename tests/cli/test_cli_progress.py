"""What is shown while a command works."""

import io
import re
import sys

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.cli import main
from spcatv.cli.display import LiveDisplay, show_progress
from spcatv.progress import (
    AlternationEnded,
    ComponentStarted,
    FileRead,
    Message,
    Printer,
    StageAdvanced,
    StageStarted,
    current_listener,
    listening,
)
from spcatv.progress.bars import share_done
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


def test_live_line_shows_component_alternation_and_gap_in_80_columns():
    console = rich_console.Console(file=io.StringIO(), force_terminal=True, width=80, record=True)
    with LiveDisplay(console) as display:
        display.hear(FileRead(3, 10, "sub-03.nii"))
        display._bar.refresh()
        display.hear(ComponentStarted(1, 20, tol=1e-6))
        assert display.hear(AlternationEnded(127, -12.5, 1e-3)) is False
        display._bar.refresh()
    shown = console.export_text()
    assert "file 3/10" in shown
    assert "component 1/20, alternation 127, gap 1e-03" in shown
    assert "…" not in shown, "nothing is cut"


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


def test_displays_follow_a_fit_and_change_nothing(striped):
    alone = SPCATV(2, structure=(60,)).fit(striped)
    live, lines = LiveDisplay(terminal()), []
    with listening(live), listening(Printer("", 2, lines.append)):
        followed = SPCATV(2, structure=(60,)).fit(striped)
    np.testing.assert_array_equal(followed.components_, alone.components_)
    (task,) = live._bar.tasks
    assert (task.description, task.completed, task.total) == ("Fitting", 2, 2)
    last = alone.diagnostics_[1]
    assert task.fields["note"] == "component 2/2 done"
    assert len(lines) == 2 + last.n_alternations
    assert lines[0].startswith("component 1/2, alternation 1: objective ")
    assert lines[-1].startswith(
        f"component 2/2 converged: objective {last.objective:.8g}, relative gap {last.relative_gap:.2e}, "
        f"{last.n_alternations} alternations, {100 * last.sparsity:.1f} % zeros, "
    )


def shown(quiet, verbose):
    with show_progress(quiet, verbose) as listener:
        return listener


def test_choice_of_the_display(on_a_terminal):
    assert type(shown(False, 0)) is LiveDisplay
    assert type(shown(True, 2)) is Printer
    assert type(shown(False, 1)) is Printer


def test_quiet_hides_messages(capsys):
    with show_progress(True, 2):
        current_listener().hear(Message("compiling"))
    assert capsys.readouterr() == ("", "")


def test_live_line_shows_the_first_part_of_a_note():
    display = LiveDisplay(terminal())
    display.hear(StageStarted("Comparing settings", 5, "chains of fits"))
    display.hear(StageAdvanced("chain 1 of 5: fold 1, smoothness=1, 2 values of sparsity"))
    assert display._bar.tasks[0].fields["note"] == "chain 1 of 5"


def test_messages_alone_without_a_terminal_or_without_rich(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    shown(False, 0).hear(Message("one"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    listener = shown(False, 0)
    listener.hear(Message("two"))
    listener.hear(FileRead(3, 10, "sub-03.nii"))
    assert capsys.readouterr().err == "spca-tv: note: one\nspca-tv: note: two\n"


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
    assert any("component 1/1 converged: objective" in line for line in lines)
    assert any("component 1/1, alternation 1: objective" in line for line in lines) == (level == "-vv")


@pytest.mark.parametrize("command", ["fit", "select", "transform"])
def test_every_command_reports_the_files_it_reads(command, volumes, tmp_path, capsys):
    images = str(volumes / "*.nii.gz")
    small = ["--n-components", "1", "--mask", str(tmp_path / "mask.nii.gz")]
    words = {
        "fit": ["fit", images, *small],
        "select": ["select", images, *small, "--cv", "2", "--alpha", "0.1", "--n-bootstraps", "0"],
        "transform": ["transform", str(tmp_path / "model"), images],
    }
    if command == "transform":
        assert main([*words["fit"], "--output", str(tmp_path / "model"), "--quiet"]) == 0
    assert main([*words[command], "--output", str(tmp_path / "out"), "-v"]) == 0
    lines = re.findall(r"image \d+/10: .*", capsys.readouterr().err)
    files = sorted(volumes.iterdir())
    assert lines == [f"image {number}/10: {file}" for number, file in enumerate(files, start=1)]


def test_quiet_prints_nothing_at_all(array, tmp_path, done):
    assert done("fit", "--array", array, "--n-components", "1", "--output", tmp_path / "out", "--quiet") == ""


def test_resampling_and_halves_are_counted(striped):
    """On the live line and in the log, from the first second on."""
    seen, lines = [], []

    class Watch:
        def hear(self, event):
            (task,) = live._bar.tasks
            seen.append((task.description, task.fields["note"], task.completed, task.total))
            return False

    live, model = LiveDisplay(terminal()), SPCATV(1, structure=(60,)).fit(striped)
    with listening(Printer("", 1, lines.append)), listening(live), listening(Watch()):
        bootstrap_components(model, striped, n_resamples=3, random_state=0)
        split_halves(model, striped, n_splits=2, random_state=0)
    assert seen[:2] == [
        ("Resampling", "0 of 3 resamples", 0, 3),
        ("Resampling", "1 of 3 resamples", 1, 3),
    ]
    assert [note for _, note, *_ in seen[4:]] == [
        *("0 of 2 splits", "1 of 2 splits", "2 of 2 splits"),
    ]
    assert lines[:2] == ["Resampling: 3 resamples", "1 of 3 resamples"]
    assert lines[4] == "Splitting into halves: 2 splits"
