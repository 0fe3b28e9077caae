"""Names of files do nothing to the terminal."""

import os

import numpy as np
import pytest

from spcatv.cli import main
from spcatv.cli.progress import NoteDisplay
from spcatv.cli.saying import printable
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
    NoteDisplay().hear(Message("the cache \x1b[2J"))
    assert capsys.readouterr().err == "spca-tv: note: the cache \\x1b[2J\n"
