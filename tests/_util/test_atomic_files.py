"""Files that are written completely or not at all, and locks that one process at a time holds."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from spcatv._util.atomic_files import atomic_folder, locked, replacing
from spcatv.model import ModelError
from spcatv.model.checkpoint import CheckpointError, checkpointing
from spcatv.results import ResultsError, claimed_folder


@pytest.mark.skipif(os.name == "nt", reason="no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_the_umask_states_who_may_read_a_file(tmp_path, umask, mode):
    path = tmp_path / "report.html"
    before = os.umask(umask)
    try:
        with replacing(path) as temporary:
            temporary.write_text("page")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_text() == "page"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_reaches_the_disk_before_the_name(tmp_path, monkeypatch):
    path, calls = tmp_path / "scores.tsv", []

    def flushed(descriptor, fsync=os.fsync):
        calls.append(("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file", path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flushed)
    with replacing(path) as temporary:
        temporary.write_text("scores")
    assert calls == [("file", False), ("folder", True)]


def test_errors_name_the_file_and_not_the_one_beside_it(tmp_path):
    def fail():
        with replacing(tmp_path / "scores.tsv"):
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match=r"Input/output error: '.*/scores\.tsv'"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_held_once_and_leaves_nothing(tmp_path):
    path = tmp_path / "lock"
    for _ in range(2):
        with locked(path):
            with pytest.raises(BlockingIOError, match="lock"), locked(path):
                pytest.fail("held twice")
            assert path.exists()
        assert not path.exists()


HOLDER = """
import sys
from pathlib import Path
from spcatv._util.atomic_files import atomic_folder, locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_holds_no_lock(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError), locked(path):
        pytest.fail("held twice")
    process.kill()
    process.communicate()
    assert path.exists()
    with locked(path):
        pass
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed")
@pytest.mark.parametrize("there", [False, True])
def test_a_planted_link_is_refused_and_its_target_left_alone(tmp_path, there):
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    if there:
        target.write_text("mine")
    (tmp_path / ".out.spca-tv-lock").symlink_to(target)
    with (
        pytest.raises(ResultsError, match=r"\.out\.spca-tv-lock"),
        claimed_folder(tmp_path / "out", overwrite=True),
    ):
        pytest.fail("not locked")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".lock").symlink_to(target)
    with pytest.raises(CheckpointError, match="work"), checkpointing(tmp_path / "work"):
        pytest.fail("not locked")
    assert [path.read_text() for path in target.parent.iterdir()] == ["mine"] * there


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EBADF])
def test_a_lock_that_cannot_be_had_is_an_error(tmp_path, monkeypatch, number):
    fcntl = pytest.importorskip("fcntl")

    def no_lock(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_lock)
    for kind, claim in (
        (ResultsError, lambda: claimed_folder(tmp_path / "out", overwrite=False)),
        (ModelError, lambda: atomic_folder(tmp_path / "model", ModelError)),
        (CheckpointError, lambda: checkpointing(tmp_path / "work")),
    ):
        with pytest.raises(kind, match=os.strerror(number)), claim():
            pytest.fail("not locked")
