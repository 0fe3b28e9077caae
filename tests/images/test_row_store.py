"""The cache of rows on disk: nothing finished is lost or read twice, and nothing wrong is ever used."""

import errno
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("nilearn")

from spcatv._util.locks import locked
from spcatv.images import row_store
from spcatv.images.loading import ImageError
from spcatv.images.row_store import CacheError, Kind, Origin, known_rows, open_store
from spcatv.progress import Message, listening

N_FILES, N_FEATURES = 6, 5
KIND = Kind({"space": "text"}, np.arange(N_FEATURES), "float32")


@pytest.fixture
def files(tmp_path):
    """Text files with one number each; their rows are made of it. `read` lists the files that were read."""
    paths = [tmp_path / f"{number}.txt" for number in range(N_FILES)]
    for number, path in enumerate(paths):
        path.write_text(str(number + 1))
    return SimpleNamespace(paths=paths, read=[], cache=tmp_path / "cache")


def rows_of(path, n_rows=1):
    value = float(path.read_text())
    return value * np.arange(1, N_FEATURES * n_rows + 1, dtype=np.float32).reshape(n_rows, N_FEATURES)


def complete(files, paths=None, n_threads=2, n_rows=1, kind=KIND):
    """The rows of files by way of the cache, as an array."""
    paths = files.paths if paths is None else paths

    def make(number):
        files.read.append(paths[number].name)
        return rows_of(paths[number], n_rows), ("sha",)

    done = []
    store = open_store(files.cache, kind)
    origins = [Origin(path.name, (path,), n_rows) for path in paths]
    rows = store.complete(origins, make, done.append, n_threads)
    assert done == list(range(len(paths)))
    found = store.array(int(rows.numbers.max()) + 1)[rows.numbers]
    assert np.array_equal(found, np.concatenate([rows_of(path, n_rows) for path in paths]))
    assert rows.sha256 == (("sha",),) * len(paths)
    return store


def test_every_file_is_read_once(files):
    complete(files, n_rows=2)
    assert sorted(files.read) == [path.name for path in files.paths]
    complete(files, n_rows=2)
    complete(files, files.paths[::-1], n_rows=2)
    complete(files, files.paths[2:4], n_rows=2)
    assert len(files.read) == N_FILES


def test_more_files_cost_only_their_own_reading(files):
    complete(files, files.paths[1:4])
    files.read.clear()
    complete(files)
    assert sorted(files.read) == ["0.txt", "4.txt", "5.txt"]


@pytest.mark.parametrize("change", ["content", "time"])
def test_a_changed_file_is_read_again(files, change):
    complete(files)
    files.read.clear()
    if change == "content":
        files.paths[2].write_text("77")
    else:
        os.utime(files.paths[2], ns=(0, 12345))
    complete(files)
    assert files.read == ["2.txt"]


def damage(store, name):
    content = bytearray((store.folder / name).read_bytes())
    content[3 * len(content) // 4] ^= 1
    (store.folder / name).write_bytes(content)


@pytest.mark.parametrize("name", ["rows.bin", "index.jsonl"])
def test_what_is_damaged_is_read_again_and_nothing_else(files, name):
    damage(complete(files), name)
    files.read.clear()
    complete(files)
    assert files.read == ["4.txt"]
    complete(files)
    assert files.read == ["4.txt"]


def test_rows_that_were_cut_off_are_read_again(files):
    store = complete(files)
    os.truncate(store.folder / "rows.bin", 4 * N_FEATURES * 4 + 3)
    files.read.clear()
    complete(files)
    assert sorted(files.read) == ["4.txt", "5.txt"]


def test_a_folder_with_something_else_is_refused(files):
    store = complete(files)
    about = json.loads((store.folder / "about.json").read_text())
    (store.folder / "about.json").write_text(json.dumps({**about, "layout": 0}))
    with pytest.raises(CacheError, match="is no cache of these rows"):
        complete(files)
    (store.folder / "about.json").unlink()
    with pytest.raises(CacheError, match="is no cache of these rows"):
        complete(files)


def test_other_rows_have_another_folder(files):
    others = [
        Kind({"space": "other"}, KIND.places, "float32"),
        Kind(KIND.about, KIND.places + 1, "float32"),
        Kind(KIND.about, KIND.places, "float64"),
    ]
    assert len({KIND.name, *(other.name for other in others)}) == 4


def test_a_cache_in_the_place_of_a_file_is_refused(files):
    files.cache.write_text("thesis")
    with pytest.raises(CacheError, match="cannot hold a cache"):
        complete(files)
    with pytest.raises(CacheError, match="is a file"):
        row_store.checked_cache(files.cache)
    with pytest.raises(TypeError, match="cache must be the path"):
        row_store.checked_cache(3)


def test_a_full_disk_is_seen_before_anything_is_read(files, monkeypatch):
    monkeypatch.setattr(row_store.shutil, "disk_usage", lambda folder: SimpleNamespace(free=40_000_000))
    monkeypatch.setattr(row_store, "SPARE_BYTES", 40_000_000 - 119)
    with pytest.raises(CacheError, match=r"needs 120 bytes for 6 of 6 images.*only 40 MB free.*--cache"):
        complete(files)
    assert not files.read
    monkeypatch.setattr(row_store, "SPARE_BYTES", 40_000_000 - 120)
    complete(files)


def test_a_disk_that_becomes_full_loses_nothing(files, monkeypatch):
    own, calls = os.write, []

    def write(descriptor, content):
        calls.append(1)
        if len(calls) == 7:  # two for every image
            own(descriptor, content[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        return own(descriptor, content)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(
        CacheError, match="the disk is full after 3 of 6 images, which are kept; make room for 60"
    ):
        complete(files)
    files.read.clear()
    complete(files)
    assert sorted(files.read) == ["3.txt", "4.txt", "5.txt"]


def test_the_size_is_said_before_anything_is_read(files):
    said = []
    heard = SimpleNamespace(hear=lambda event: said.append((event, len(files.read))))
    with listening(heard):
        complete(files, files.paths[:2])
        complete(files)
        complete(files)
    texts = [
        (event.text.split(" in the cache")[0], n_read) for event, n_read in said if isinstance(event, Message)
    ]
    assert texts == [("0 of 2 images are", 0), ("2 of 6 images are", 2)]
    assert "the others take 80 bytes" in said[1][0].text


def test_another_writer_is_waited_for(files, monkeypatch):
    monkeypatch.setattr(row_store, "SECONDS_BETWEEN_TRIES", 0)
    store = open_store(files.cache, KIND)
    other = locked(store.folder / "about.json")

    def hear(event):
        if isinstance(event, Message) and "waiting" in event.text:
            assert not files.read
            os.close(other)

    with listening(SimpleNamespace(hear=hear)):
        complete(files)
    assert len(files.read) == N_FILES
    # a complete store is read without a lock
    other = locked(store.folder / "about.json")
    complete(files)
    os.close(other)


def test_a_file_that_changes_while_it_is_read_is_an_error(files):
    def make(number):
        rows = rows_of(files.paths[number])
        if number == 3:
            files.paths[3].write_text("changed")
        return rows, ("sha",)

    origins = [Origin(path.name, (path,), 1) for path in files.paths]
    with pytest.raises(ImageError, match=r"3\.txt: was changed while it was read"):
        open_store(files.cache, KIND).complete(origins, make, lambda number: None, 2)
    files.paths[3].write_text("4")
    complete(files)
    assert sorted(files.read) == ["3.txt", "4.txt", "5.txt"]


def test_the_first_file_that_cannot_be_read_is_named(files):
    def make(number):
        if number in (2, 3):
            raise ImageError(f"{number} is broken")
        return rows_of(files.paths[number]), ("sha",)

    origins = [Origin(path.name, (path,), 1) for path in files.paths]
    with pytest.raises(ImageError, match="2 is broken"):
        open_store(files.cache, KIND).complete(origins, make, lambda number: None, 4)
    complete(files)
    assert sorted(files.read) == ["2.txt", "3.txt", "4.txt", "5.txt"]


def test_rows_with_more_features_serve_for_fewer(files):
    places = np.array([7, 2, 9, 4, 0])
    complete(files, kind=Kind(KIND.about, places, "float32"))
    origins = [Origin(path.name, (path,), 1) for path in files.paths]
    rows = known_rows(files.cache, Kind(KIND.about, np.array([2, 7, 0]), "float32"), origins)
    assert places[rows.columns].tolist() == [2, 7, 0]
    assert known_rows(files.cache, Kind(KIND.about, np.array([2, 3]), "float32"), origins) is None
    assert known_rows(files.cache, Kind({"space": "other"}, np.array([2, 7]), "float32"), origins) is None
    assert known_rows(files.cache, Kind(KIND.about, places, "float32"), origins).columns is None
    files.paths[0].write_text("changed")
    assert known_rows(files.cache, Kind(KIND.about, np.array([2, 7, 0]), "float32"), origins) is None


PROCESSES = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
sys.path[:0] = [sys.argv[1]]
from test_row_store import N_FILES, complete

def files_in(folder):
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.txt" for number in range(N_FILES)]
    for number, path in enumerate(paths):
        path.exists() or path.write_text(str(number + 1))
    return SimpleNamespace(paths=paths, read=[], cache=folder / "cache")

def forked(work):
    process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(1)
    return process

def die_in_write(files, number):
    own, calls = os.write, []
    def write(descriptor, content):
        calls.append(1)
        if len(calls) == number:
            own(descriptor, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return own(descriptor, content)
    os.write = write
    complete(files)

for number in range(1, 2 * N_FILES + 1):
    files = files_in(Path(sys.argv[2], str(number)))
    status = os.waitpid(forked(lambda: die_in_write(files, number)), 0)[1]
    assert status == signal.SIGKILL, status
    complete(files)
    complete(files)  # now everything is there
    print(len(files.read))

def count(files, name):
    complete(files)
    Path(sys.argv[2], name).write_text(str(len(files.read)))
    os._exit(0)

files = files_in(Path(sys.argv[2], "both"))
both = [forked(lambda: count(files, f"count-{name}")) for name in "abc"]
assert [os.waitpid(process, 0)[1] for process in both] == [0, 0, 0]
print(sum(int(Path(sys.argv[2], f"count-{name}").read_text()) for name in "abc"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_kill_in_the_middle_of_every_write_and_several_processes(tmp_path):
    """A process is killed halfway through its first write, its second, ...; then three work together."""
    command = [sys.executable, "-W", "ignore", "-c", PROCESSES, os.path.dirname(__file__), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *after_kill, together = map(int, done.stdout.split())
    # rows and a line of the index are written for every image: what has its line is not read again
    assert after_kill == [N_FILES - (number - 1) // 2 for number in range(1, 2 * N_FILES + 1)]
    assert together == N_FILES
