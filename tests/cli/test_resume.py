"""Runs that are killed, interrupted or fail go on where they were, and end with the same bytes."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cli_files import fields, listing

from spcatv.cli import main, pipeline
from spcatv.model.checkpoint import Stage, n_records

SELECT = (
    *("select", "--shape", "6,5", "--n-components", "2", "--alpha", "0.1", "0.4", "--l1-ratio", "0.25"),
    *(
        "--tv-ratio",
        "0.25",
        "--cv",
        "3",
        "--n-bootstraps",
        "3",
        "--n-splits",
        "2",
        "--tol",
        "1e-3",
        "--quiet",
    ),
)
JOINT = ("fit", "--shape", "6,5", "--tol", "1e-3", "--n-splits", "2", "--quiet")
FIT = (*JOINT, "--method", "deflation", "--n-init", "3")
HIDDEN = ".out.spca-tv-checkpoint"


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    """Results hold the seconds that fits took: no two runs are equal unless no time passes."""
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)


@pytest.fixture
def array(tmp_path):
    file = tmp_path / "X.npy"
    np.save(file, fields(shape=(6, 5)))
    return file


@pytest.fixture
def command(array, tmp_path):
    """The words of a command that writes to `out`."""

    def words(kind, *more):
        return [*kind, "--array", str(array), "--output", str(tmp_path / "out"), *more]

    return words


def contents(folder):
    """All files below a folder, and their bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def unbroken(argv, tmp_path):
    """What an unbroken run of a command writes; nothing is left of it."""
    assert main(argv) == 0
    assert listing(tmp_path) == ["X.npy", "out"]
    (tmp_path / "out").rename(tmp_path / "whole")
    found = contents(tmp_path / "whole")
    for file in sorted((tmp_path / "whole").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (tmp_path / "whole").rmdir()
    return found


def killed(argv, prepare):
    """Run a command in another process, which `prepare` lets kill itself."""
    child = os.fork()
    if child == 0:
        try:
            prepare()
            main(argv)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def after_records(number, *, half=False):
    """Let a process kill itself once it has written so many records, and half of the next if so wanted."""

    def prepare():
        save, count = Stage.save, iter(range(1, 1000))

        def saving(stage, name, result):
            if half and next(count) > number:
                os.replace = die
            save(stage, name, result)
            if not half and next(count) >= number:
                die()

        Stage.save = saving

    return prepare


def instead_of(module, name):
    """Let a process kill itself where it would call a function."""
    return lambda: setattr(module, name, die)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes")


@needs_fork
@pytest.mark.no_cover
@pytest.mark.parametrize("kind", [SELECT, FIT], ids=["select", "fit"])
def test_killed_again_and_again(kind, command, tmp_path):
    """After every record, in the middle of one, and while results are written."""
    whole = unbroken(command(kind), tmp_path)
    moments = [after_records(1), after_records(2, half=True), after_records(1), after_records(3)]
    moments += [instead_of(pipeline, "write_results")]
    for moment in moments:
        killed(command(kind, "--resume"), moment)
        assert not (tmp_path / "out").exists()
        assert (tmp_path / HIDDEN).is_dir()
    assert main(command(kind, "--resume")) == 0
    assert contents(tmp_path / "out") == whole
    assert listing(tmp_path) == ["X.npy", "out"]


@needs_fork
@pytest.mark.no_cover
def test_killed_after_a_joint_fit(command, tmp_path):
    """All components are one record."""
    whole = unbroken(command(JOINT), tmp_path)
    killed(command(JOINT), after_records(1))
    assert main(command(JOINT, "--resume")) == 0
    assert contents(tmp_path / "out") == whole


@needs_fork
def test_killed_when_the_results_are_there(command, tmp_path):
    """But not removed yet is what was kept."""
    killed(command(FIT), instead_of(pipeline, "remove_checkpoint"))
    assert (tmp_path / HIDDEN).is_dir()
    whole = contents(tmp_path / "out")
    assert main(command(FIT, "--overwrite", "--resume")) == 0
    assert contents(tmp_path / "out") == whole
    assert listing(tmp_path) == ["X.npy", "out"]


@pytest.fixture
def interrupted(monkeypatch, command, capsys):
    """Interrupt a run after so many records; returns what it has said."""

    def run(kind, number, error=KeyboardInterrupt):
        save, count = Stage.save, iter(range(1, 1000))

        def saving(stage, name, result):
            save(stage, name, result)
            if next(count) >= number:
                raise error

        with monkeypatch.context() as patch:
            patch.setattr(Stage, "save", saving)
            assert main(command(kind)) == (130 if error is KeyboardInterrupt else 1)
        return capsys.readouterr().err

    return run


def test_an_interruption_states_what_is_kept_and_how_to_resume(interrupted, command, tmp_path, capsys):
    said = interrupted(SELECT, 4)
    assert said.count("\n") == 1
    kept = "4 finished pieces of the work are kept"
    assert f"interrupted; nothing was written to {tmp_path / 'out'}. {kept}. To resume: " in said
    again = said.partition("To resume: spca-tv ")[2].split()
    assert again == command(SELECT, "--resume")
    again.remove("--quiet")
    assert main(again) == 0
    assert capsys.readouterr().err == f"spca-tv: note: resuming an interrupted run, of which {kept}\n"


def test_the_same_command_offers_to_go_on(interrupted, command, tmp_path, refused):
    interrupted(SELECT, 1)
    line = refused(*command(SELECT))
    assert (
        f"an interrupted run to {tmp_path / 'out'} can be resumed: 1 finished piece of the work is kept"
        in line
    )
    assert "Add --resume, or --no-resume to start again" in line
    assert n_records(tmp_path / HIDDEN) == 1
    assert main(command(SELECT, "--no-resume")) == 0
    assert listing(tmp_path) == ["X.npy", "out"]


def test_other_work_is_refused(interrupted, command, array, tmp_path, refused, monkeypatch):
    interrupted(SELECT, 5)
    line = refused(*command(SELECT, "--tol", "0.01", "--seed", "3"))
    assert (
        "was made with different settings: --tol is 0.001 there and 0.01 here; --seed is 0 there and 3"
        in line
    )
    assert "--no-resume" in line
    assert "--cv is 3 there and 2 here" in refused(*command(SELECT, "--cv", "2", "--resume"))
    assert 'command is "select" there and "fit" here' in refused(*command(FIT, "--resume"))
    X = np.load(array)
    np.save(array, X + 1e-9)
    assert "was made with different settings: X differs." in refused(*command(SELECT, "--resume"))
    np.save(array, X)
    with monkeypatch.context() as patch:
        patch.setattr("spcatv.model.checkpoint.current_versions", lambda: {"spca-tv": "0.0.9"})
        assert 'versions.spca-tv is "' in refused(*command(SELECT, "--resume"))
    assert n_records(tmp_path / HIDDEN) == 5, "what is refused is kept"
    assert main(command(SELECT, "--n-jobs", "1", "--memory", "1GB", "--resume")) == 0, "these may change"


def test_nothing_to_resume(command, capsys, tmp_path):
    argv = command(FIT, "--resume")
    argv.remove("--quiet")
    assert main(argv) == 0
    assert (
        f"note: nothing is kept of an earlier run to {tmp_path / 'out'}; starting" in capsys.readouterr().err
    )


def test_a_failure_keeps_what_is_done(interrupted, command, tmp_path):
    said = interrupted(FIT, 4, MemoryError("no memory is left"))
    assert said.startswith("spca-tv: note: ")
    assert " kept. To resume: spca-tv fit --shape" in said
    assert said.endswith("spca-tv: error: no memory is left\n")
    assert n_records(tmp_path / HIDDEN) > 0
    assert main(command(FIT, "--resume")) == 0


def test_errors_that_would_come_back_keep_nothing(command, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise ValueError("no component is left")

    monkeypatch.setattr(pipeline, "write_results", fail)
    assert main(command(SELECT)) == 1
    assert capsys.readouterr().err == "spca-tv: error: no component is left\n"
    assert listing(tmp_path) == ["X.npy"]


def test_a_folder_in_use_is_no_reason_to_lose_what_is_kept(interrupted, command, tmp_path, refused):
    interrupted(SELECT, 2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "diary.txt").touch()
    assert "is in use: it holds diary.txt" in refused(*command(SELECT, "--no-resume"))
    assert n_records(tmp_path / HIDDEN) == 2


def test_where_it_is_kept(command, tmp_path, interrupted, monkeypatch):
    """Beside the folder itself, not beside a link to it."""
    (tmp_path / "disk" / "results").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "results")
    interrupted(SELECT, 2)
    assert n_records(tmp_path / "disk" / ".results.spca-tv-checkpoint") == 2
    monkeypatch.chdir(tmp_path)
    assert main([*command(SELECT)[:-1], str(Path("out")), "--resume"]) == 0
    assert listing(tmp_path / "disk") == ["results"]


class TestFinishedRuns:
    """A batch job may always be given --resume, also if it is started again after its end."""

    @pytest.fixture(params=[SELECT, FIT], ids=["select", "fit"])
    def finished(self, request, command, tmp_path):
        assert main(command(request.param, "--resume")) == 0
        before = contents(tmp_path / "out")
        yield command(request.param, "--resume")
        assert contents(tmp_path / "out") == before
        assert listing(tmp_path) == ["X.npy", "out"]

    def test_nothing_is_left_to_do(self, finished, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr("spcatv.cli.pipeline.read_array", None)
        assert main([*finished, "--n-jobs", "1", "--memory", "1GB"]) == 0, "these may change"
        assert capsys.readouterr().err == ""
        finished.remove("--quiet")
        assert main(finished) == 0
        said = capsys.readouterr().err
        assert said.startswith("spca-tv: note: ")
        assert str(tmp_path / "out") in said

    def test_other_options_are_refused(self, finished, refused, command):
        assert "--tol" in refused(*finished, "--tol", "0.01")
        other = FIT if finished[0] == "select" else SELECT
        assert "command" in refused(*command(other, "--resume"))

    def test_data_that_have_changed_are_refused(self, finished, refused, array, tmp_path):
        before = array.stat()
        np.save(array, np.load(array) + 1)
        os.utime(array, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert str(array) in refused(*finished)
        assert "--resume" not in refused(*[word for word in finished if word != "--resume"])
