"""Files that are written completely or not at all."""

import errno
import os
import stat

import pytest

from spcatv._util.files import replacing


@pytest.mark.skipif(os.name == "nt", reason="no umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_the_umask_says_who_may_read_a_file(tmp_path, umask, mode):
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
