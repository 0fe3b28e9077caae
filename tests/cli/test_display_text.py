"""What is printed: names of files do nothing to the terminal, and messages name options."""

import os

import numpy as np
import pytest

from spcatv.cli import main
from spcatv.cli.display import in_options, printable, show_progress
from spcatv.progress import Message

NAME = "sub-01\x1b]0;owned\x07\x1b[31m\u202egz.npy"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("größe µ 脳", "größe µ 脳"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb\x9bm", r"a\rb\x9bm"),
        ("\u202egz", r"\u202egz"),
        (os.fsdecode(b"\xff"), r"\udcff"),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown


def test_escapes_in_file_names_are_written_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save(NAME, np.full((4, 6), np.nan))
    assert main(["fit", "--array", NAME, "--output", "out"]) == 2
    np.save(NAME, np.random.default_rng(0).standard_normal((6, 8)))
    assert main(["fit", "--array", NAME, "--output", f"out{NAME}", "--n-components", "1", "-v"]) == 0
    assert main(["info", f"out{NAME}"]) == 0
    shown = "".join(capsys.readouterr())
    assert r"\x1b]0;owned\x07" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_escapes_in_notes_are_written_out(capsys):
    with show_progress(quiet=False, verbose=0) as listener:
        listener.hear(Message("the cache \x1b[2J"))
    assert capsys.readouterr().err == "spca-tv: note: the cache \\x1b[2J\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("l1_ratio + tv_ratio must be below 1", "--l1-ratio + --tv-ratio must be below 1"),
        ("alpha must be above 0", "--alpha must be above 0"),
        ("a larger alpha must be tried", "a larger alpha must be tried"),
        ("n_init=3 belongs to method='deflation'", "--n-init 3 belongs to --method deflation"),
        ("Raise max_iter (now 500) or tol.", "Raise --max-iter (now 500) or tol."),
        ("give a mask (mask=)", "give a mask (--mask)"),
        ("fit with resample=True", "fit with --resample"),
        ("center=False keeps means", "--no-center keeps means"),
        ('global_signal="regress" leaves nothing', "--regress-global leaves nothing"),
        ("shuffle with cv=KFold(5, shuffle=True, random_state=0)", "shuffle with --shuffle"),
        ("for left alone give surface={'left': ...}", "for left alone give --surface lh.pial -"),
        ("set random_state=4, memory_limit=2", "set --seed 4, --memory 2"),
        ("/data/n_jobs/max_iter.npy: cannot be read", "/data/n_jobs/max_iter.npy: cannot be read"),
        ("the table 'path_column' has --cv=3", "the table 'path_column' has --cv=3"),
    ],
)
def test_messages_of_the_library_name_options(text, shown):
    assert in_options(text) == shown
