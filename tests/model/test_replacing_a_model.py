"""Writing a folder leaves the old one or the new one, whatever happens in between."""

import itertools
import os
import signal
import sys

import numpy as np
import pytest
from forks import forked, needs_fork

from spcatv._util.atomic_files import atomic_folder
from spcatv.model import ModelError, SavedModel, read_model, write_model


def saved(number):
    return SavedModel("SPCATV", {"number": number}, {}, {"values": np.full(1000, number)})


def number_in(folder):
    """Read the folder with all checks, and return the number of the model in it."""
    found = read_model(folder)
    assert (found.arrays["values"] == found.parameters["number"]).all()
    return found.parameters["number"]


def maps(folder):
    (folder / "maps").mkdir()
    (folder / "maps/map.txt").write_text("map", encoding="utf-8")


@pytest.fixture
def model(tmp_path):
    """A folder with model 1 and a map."""
    return write_model(tmp_path / "place/model", saved(1), extras=maps)


def test_a_model_is_replaced_and_nothing_is_left_behind(model):
    write_model(model, saved(2))
    assert number_in(model) == 2
    assert sorted(path.name for path in model.iterdir()) == ["arrays.npz", "model.json"]
    assert list(model.parent.iterdir()) == [model]


def test_an_exception_in_extras_leaves_the_old_model(model):
    def broken(folder):
        maps(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_model(model, saved(2), extras=broken)
    assert number_in(model) == 1
    assert list(model.parent.iterdir()) == [model]


def test_a_full_disk_leaves_the_old_model(model):
    def full(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match=r"cannot write .*No space left on device"):
        write_model(model, saved(2), extras=full)
    assert number_in(model) == 1
    assert list(model.parent.iterdir()) == [model]


@pytest.mark.parametrize("failing_call", [1, 2])
def test_a_rename_that_fails_leaves_the_old_model(failing_call, model, monkeypatch):
    rename, calls = os.replace, []

    def failing(source, target):
        calls.append(source)
        if len(calls) == failing_call:
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(ModelError, match="Input/output error"):
        write_model(model, saved(2))
    assert number_in(model) == 1
    assert list(model.parent.iterdir()) == [model]


def test_a_rename_that_fails_leaves_no_new_folder(tmp_path, monkeypatch):
    def failing(source, target):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(ModelError, match="Input/output error"):
        write_model(tmp_path / "model", saved(1))
    assert list(tmp_path.iterdir()) == []


def write_and_die_before(operation, place):
    """Write model 2, and kill the process before this file operation, as Python announces it."""
    left = operation

    def watch(event, arguments):
        nonlocal left
        if event == "open" or (event.startswith(("os.", "shutil.", "ctypes.")) and event != "os.kill"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    write_model(place, saved(2))
    os._exit(0)


@needs_fork
def test_a_process_killed_before_any_file_operation_leaves_a_whole_model(tmp_path):
    """The process is killed at the first operation, at the second, and so on."""
    found = []
    for operation in itertools.count(1):
        write_model(tmp_path / "model", saved(1))
        process = forked(write_and_die_before, operation, tmp_path / "model")
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        found.append(number_in(tmp_path / "model"))
    assert found == sorted(found)
    assert found.count(1) > 10  # files and folders are read, made, written and flushed ...
    assert found.count(2) > 2  # ... and the old model is removed
    assert number_in(tmp_path / "model") == 2


def test_a_folder_that_is_not_a_model_is_left_alone(tmp_path):
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "chapter.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ModelError, match="not a model; it is left unchanged"):
        write_model(place, saved(1))
    assert (place / "chapter.txt").read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"format": "spca-tv model"}'])
def test_a_folder_with_another_model_json_is_left_alone(text, tmp_path):
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match="not a model"):
        write_model(tmp_path, saved(1))


def test_a_file_put_into_a_model_is_not_lost(model):
    (model / "maps/notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ModelError, match=r"maps/notes\.txt, which is not part of the model"):
        write_model(model, saved(2))
    assert (model / "maps/notes.txt").read_text(encoding="utf-8") == "mine"
    assert number_in(model) == 1


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "model").write_text("a file", encoding="utf-8")
    with pytest.raises(ModelError, match="is a file; a folder is needed"):
        write_model(tmp_path / "model", saved(1))
    with pytest.raises(ModelError, match=r"cannot (write in|read) the folder"):
        write_model(tmp_path / "model/inside", saved(1))


def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    for place in (".", "..", tmp_path):
        with pytest.raises(ModelError, match="current folder"):
            write_model(place, saved(1))


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def forbidden(self, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.mkdir", forbidden)
    with pytest.raises(ModelError, match=f"cannot write in the folder {tmp_path}: Permission denied"):
        write_model(tmp_path / "model", saved(1))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_named(tmp_path):
    place = tmp_path / "closed"
    place.mkdir(mode=0o500)
    with pytest.raises(ModelError, match="Permission denied"):
        write_model(place / "model", saved(1))


def test_an_empty_folder_is_filled_and_folders_above_are_made(tmp_path):
    (tmp_path / "empty").mkdir()
    write_model(tmp_path / "empty", saved(1))
    write_model(tmp_path / "a/b/c", saved(2))
    assert (number_in(tmp_path / "empty"), number_in(tmp_path / "a/b/c")) == (1, 2)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions_are_the_default_or_those_of_the_replaced_folder(tmp_path):
    (tmp_path / "plain").mkdir()
    model = write_model(tmp_path / "model", saved(1))
    assert model.stat().st_mode == (tmp_path / "plain").stat().st_mode
    model.chmod(0o750)
    write_model(model, saved(2))
    assert model.stat().st_mode & 0o777 == 0o750


def test_a_link_to_a_folder_stays_a_link(model, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(model, target_is_directory=True)
    write_model(link, saved(2))
    assert link.is_symlink()
    assert number_in(model) == number_in(link) == 2


def test_extras_write_beside_the_model_only(tmp_path):
    with pytest.raises(ModelError, match="extras must not write"):
        write_model(tmp_path / "a", saved(1), extras=lambda folder: (folder / "model.json").touch())
    assert list(tmp_path.iterdir()) == []


def test_atomic_folder_for_other_folders(tmp_path):
    def ours(folder):
        return None if (folder / "ours").exists() else "is not ours"

    with atomic_folder(tmp_path / "out", ModelError) as temporary:
        assert temporary.parent == tmp_path
        assert not (tmp_path / "out").exists()
        (temporary / "ours").write_text("1", encoding="utf-8")
    with pytest.raises(ModelError, match="is not empty"), atomic_folder(tmp_path / "out", ModelError):
        pytest.fail("the body must not run")
    with atomic_folder(tmp_path / "out", ModelError, objection=ours) as temporary:
        (temporary / "theirs").write_text("2", encoding="utf-8")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["theirs"]
    with (
        pytest.raises(ModelError, match="is not ours"),
        atomic_folder(tmp_path / "out", ModelError, objection=ours),
    ):
        pytest.fail("the body must not run")
    with pytest.raises(FileNotFoundError), atomic_folder(tmp_path / "new", ModelError):
        (tmp_path / "nothing").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
