"""The cache of rows on disk: nothing finished is lost or read twice, and nothing wrong is ever used."""

import errno
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from forks import FORK, forked, needs_fork

pytest.importorskip("nilearn")

from spcatv.images import cache as image_cache
from spcatv.images.cache import UNUSED_SECONDS, CachedSamples, CacheError
from spcatv.images.files import ImageError
from spcatv.images.spaces.base import runs_of

N_FILES, N_FEATURES = 6, 5
KIND = {"space": "text"}
PLACES = np.arange(N_FEATURES)


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


def origins_of(paths, n_rows=1):
    about = {"n_samples": n_rows, "t_r": None, "is_series": False}
    return runs_of(SimpleNamespace(name=path.name, files=(path,), **about) for path in paths)


def complete(files, paths=None, n_threads=2, n_rows=1, kind=KIND, places=PLACES):
    """The rows of files by way of the cache, compared with those that are read directly."""
    paths = files.paths if paths is None else paths

    def make(number):
        files.read.append(paths[number].name)
        return rows_of(paths[number], n_rows), ("sha",)

    done = []
    rows = CachedSamples(files.cache, kind, places, "float32", origins_of(paths, n_rows))
    rows = rows.complete(make, done.append, n_threads)
    assert done == list(range(len(paths)))
    found = np.empty(rows.shape, np.float32)
    rows.fill(found, 0)
    assert np.array_equal(found, np.concatenate([rows_of(path, n_rows) for path in paths]))
    assert rows.sha256 == [("sha",)] * len(paths)
    return rows


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


@pytest.mark.parametrize("change", ["content", "time", "content with the old time"])
def test_a_changed_file_is_read_again(files, change):
    complete(files)
    files.read.clear()
    before = files.paths[2].stat()
    if "content" in change:
        files.paths[2].write_text("7")
    times = before.st_mtime_ns if "old time" in change else 12345
    os.utime(files.paths[2], ns=(times, times))
    assert files.paths[2].stat().st_size == before.st_size
    complete(files)
    assert files.read == ["2.txt"]


@pytest.mark.parametrize("length", [0, 4 * N_FEATURES - 3, 4 * N_FEATURES, 4 * N_FEATURES + 3])
def test_a_file_that_was_cut_off_is_read_again(files, length):
    os.truncate(complete(files).paths[4], length)
    files.read.clear()
    complete(files)
    assert files.read == ["4.txt"]


def test_a_file_that_disappears_or_shrinks_during_a_fit_is_an_error(files):
    rows = complete(files)
    out = np.empty(rows.shape, np.float32)
    os.truncate(rows.paths[2], 4 * N_FEATURES - 1)
    with pytest.raises(OSError, match=rows.paths[2].name):
        rows.fill(out, 0)
    rows.paths[2].unlink()
    with pytest.raises(OSError, match=rows.paths[2].name):
        rows.fill(out, 0)


def test_parts_of_the_rows(files):
    rows = complete(files, n_rows=3)
    expected = np.concatenate([rows_of(path, 3) for path in files.paths])
    for first, last, left, right in ((0, 18, 1, 4), (2, 11, 0, 5), (4, 5, 2, 3), (7, 17, 4, 5)):
        for dtype in (np.float32, np.float64):
            out = np.empty((last - first, right - left), dtype)
            rows.fill(out, first, left)
            assert np.array_equal(out, expected[first:last, left:right])


def test_other_rows_have_other_files(files, monkeypatch):
    def paths(kind=KIND, places=PLACES, dtype="float32", about=""):
        origins = origins_of(files.paths[:1])
        return set(CachedSamples(files.cache, kind, places, dtype, origins, [about]).paths)

    own = paths()
    assert own == paths()
    others = [
        paths({"space": "other"}),
        paths(places=PLACES + 1),
        paths(dtype="float64"),
        paths(about="cleaned"),
    ]
    for package in image_cache.PACKAGES:
        monkeypatch.setattr(image_cache, "version", lambda name, new=package: "9" if name == new else "1")
        others.append(paths())
    assert len(own.union(*others)) == 1 + len(others)


def unused(cache, seconds=UNUSED_SECONDS + 60):
    """Let files look as if they had not been used for a time."""
    for number, path in enumerate(sorted(cache.iterdir())):
        time = path.stat().st_mtime - seconds + number
        os.utime(path, (time, time))


def test_files_that_are_not_used_are_removed_if_the_cache_is_large(files, monkeypatch):
    size = complete(files).paths[0].stat().st_size
    old = set(files.cache.iterdir())
    unused(files.cache)
    with monkeypatch.context() as patched:
        # the disk is large enough: nothing is removed
        complete(files, kind={"space": "second"})
        assert old < set(files.cache.iterdir())
        # the cache may take half of what is free, with its own files: room for four images, with their places
        total = sum(path.stat().st_size for path in files.cache.iterdir())
        free = SimpleNamespace(free=40_000_000)
        patched.setattr(image_cache.shutil, "disk_usage", lambda folder: free)
        patched.setattr(image_cache, "LARGEST_SHARE", (total + 2 * 20 - 4 * size) / (free.free + total))
        used = complete(files, files.paths[:1])  # marks this file as used, and removes nothing
        assert old < set(files.cache.iterdir())
        complete(files, files.paths[:2], kind={"space": "third"})
    left = old & set(files.cache.iterdir())
    assert used.paths[0] in left
    assert 1 < len(old - left) < len(old) - 1
    # what is used by other runs stays, however large the cache
    new = set(files.cache.iterdir()) - left
    monkeypatch.setattr(image_cache, "LARGEST_SHARE", 0)
    complete(files, kind={"space": "fourth"})
    assert new < set(files.cache.iterdir())
    assert not (left - set(used.paths)) & set(files.cache.iterdir())


def test_what_a_killed_process_has_left_is_removed(files):
    files.cache.mkdir()
    half, foreign = files.cache / ".spcatv-samples-1-2-3-abcd.samples", files.cache / "thesis.txt"
    for path in (half, foreign):
        path.write_text("half")
    complete(files)
    assert half.exists()  # its process may be alive
    unused(files.cache)
    complete(files, kind={"space": "other"})
    assert not half.exists()
    assert foreign.exists()


def test_a_cache_in_the_place_of_a_file_is_refused(files):
    files.cache.write_text("thesis")
    with pytest.raises(CacheError, match=str(files.cache)):
        complete(files)
    with pytest.raises(CacheError, match=str(files.cache)):
        image_cache.checked_cache(files.cache)
    with pytest.raises(TypeError, match="cache must be the path"):
        image_cache.checked_cache(3)


def test_a_disk_that_becomes_full_loses_nothing(files, monkeypatch):
    own, calls = image_cache.replacing, []

    def full(path):
        calls.append(1)
        if len(calls) == 5:  # the places, and three images before
            raise OSError(errno.ENOSPC, "No space left on device")
        return own(path)

    with monkeypatch.context() as patched:
        patched.setattr(image_cache, "replacing", full)
        with pytest.raises(CacheError, match=str(files.cache)):
            complete(files, n_threads=1)
    files.read.clear()
    complete(files)
    assert sorted(files.read) == ["3.txt", "4.txt", "5.txt"]
    assert not list(files.cache.glob(".*"))


def test_a_file_that_changes_while_it_is_read_is_an_error(files):
    def make(number):
        rows = rows_of(files.paths[number])
        if number == 3:
            files.paths[3].write_text("changed")
        return rows, ("sha",)

    rows = CachedSamples(files.cache, KIND, PLACES, "float32", origins_of(files.paths))
    with pytest.raises(ImageError, match=r"3\.txt"):
        rows.complete(make, lambda number: None, 1)
    files.paths[3].write_text("4")
    complete(files)
    assert files.read == ["3.txt"], "the other images were kept"


def test_all_files_that_cannot_be_read_are_named(files):
    def make(number):
        if number in (2, 3):
            raise ImageError(f"{number} is broken")
        return rows_of(files.paths[number]), ("sha",)

    rows = CachedSamples(files.cache, KIND, PLACES, "float32", origins_of(files.paths))
    with pytest.raises(ImageError, match=r"2 is broken.*3 is broken"):
        rows.complete(make, lambda number: None, 4)
    complete(files)
    assert {"2.txt", "3.txt"} <= set(files.read) <= {"2.txt", "3.txt", "4.txt", "5.txt"}


def test_rows_with_more_features_serve_for_fewer(files):
    places = np.array([7, 2, 9, 4, 0])
    wide = complete(files, places=places)
    made = []

    def found(wanted, kind=KIND):
        made.clear()

        def make(number):
            made.append(number)
            return np.zeros((1, len(wanted)), np.float32), ()

        rows = CachedSamples(files.cache, kind, np.array(wanted), "float32", origins_of(files.paths))
        return rows.complete(make, lambda number: None, 1)

    rows = found([2, 7, 0])
    assert places[rows.features].tolist() == [2, 7, 0]
    assert (rows.sha256, made) == (wide.sha256, [])
    assert found(places.tolist()).features is None
    assert not made
    # other features, another kind, a changed image, damage
    assert found([2, 3]).features is None
    assert found([2, 7], {"space": "other"}).features is None
    (places_file,) = files.cache.glob(f"{wide.stem}.npy")
    content = places_file.read_bytes()
    places_file.write_bytes(content.replace(np.array([9]).tobytes(), np.array([8]).tobytes()))
    assert found([2, 8]).features is None
    assert len(made) == N_FILES
    places_file.write_bytes(content)
    os.truncate(wide.paths[2], 4)
    assert found([7, 2]).features is None
    assert len(made) == N_FILES


def files_in(folder):
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.txt" for number in range(N_FILES)]
    for number, path in enumerate(paths):
        path.write_text(str(number + 1))
    return SimpleNamespace(paths=paths, read=[], cache=folder / "cache")


def die_in_rename(files, number):
    """Read the files, and kill the process halfway through a file that it writes."""
    own, calls = os.replace, []

    def replace(source, target):
        calls.append(1)
        if len(calls) == number:
            os.truncate(source, os.stat(source).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        own(source, target)

    os.replace = replace
    complete(files, n_threads=1)


@needs_fork
def test_kill_in_the_middle_of_every_write(tmp_path):
    """A process is killed halfway through its first file, its second, and so on."""
    for number in range(2, N_FILES + 2):  # the first is that of the places
        files = files_in(tmp_path / str(number))
        process = forked(die_in_rename, files, number)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        complete(files)
        complete(files)  # now everything is there
        assert len(files.read) == N_FILES + 2 - number


@needs_fork
def test_three_processes_write_at_the_same_time(tmp_path):
    files, counts = files_in(tmp_path / "together"), FORK.SimpleQueue()

    def count():
        complete(files)
        counts.put(len(files.read))

    processes = [forked(count) for _ in range(3)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert N_FILES <= sum(counts.get() for _ in processes) <= 3 * N_FILES
