"""The output folder: claimed before the work; it appears whole or not at all."""

import os
import signal
import sys

import pytest
from cli_files import listing
from forks import FORK, forked, forked_command

from spcatv._util.atomic_files import atomic_folder
from spcatv.cli import fit, main, pipeline
from spcatv.results import ResultsError, claimed_folder


def run_on(array, out, *more):
    return ["fit", "--array", str(array), "--shape", "12,10", "--alpha", "0.05", "--output", str(out), *more]


@pytest.fixture
def no_work(monkeypatch):
    monkeypatch.setattr(fit, "with_number", lambda *args, **more: pytest.fail("work was done"))


def test_folders_above_are_made_and_taken_away_again(tmp_path):
    with claimed_folder(tmp_path / "a" / "b" / "out", overwrite=False) as temporary:
        (temporary / "file").write_text("x")
        assert not (tmp_path / "a" / "b" / "out").exists()
    assert listing(tmp_path / "a" / "b") == ["out"]
    with pytest.raises(RuntimeError, match="half way"), claimed_folder(tmp_path / "c/d/out", overwrite=False):
        raise RuntimeError("half way")
    assert listing(tmp_path) == ["a"]


def test_folder_in_use(array, tmp_path, refused, no_work):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    for more in ((), ("--overwrite",)):
        line = refused(*run_on(array, out, *more))
        assert f"{out} is in use: it holds thesis.tex" in line
    assert listing(out) == ["thesis.tex"]
    assert listing(tmp_path) == ["X.npy", "out"]


def test_results_of_an_earlier_run(array, tmp_path, done, refused):
    out = tmp_path / "out"
    done(*run_on(array, out))
    before = (out / "desc-SPCATV_mixing.tsv").read_text()
    assert "--overwrite is not given" in refused(*run_on(array, out, "--n-components", "1"))
    assert (out / "desc-SPCATV_mixing.tsv").read_text() == before
    done(*run_on(array, out, "--n-components", "1", "--overwrite", "--quiet"))
    assert (out / "desc-SPCATV_mixing.tsv").read_text() != before
    (out / "notes.txt").write_text("mine")
    assert "it holds notes.txt" in refused(*run_on(array, out, "--overwrite"))
    assert (out / "notes.txt").read_text() == "mine"


def test_empty_folder_may_be_used(array, tmp_path, done):
    (tmp_path / "out").mkdir()
    done(*run_on(array, tmp_path / "out"))
    assert "model" in listing(tmp_path / "out")


def test_a_file_is_no_folder(array, tmp_path, refused, no_work):
    (tmp_path / "out").write_text("mine")
    assert "is a file; a folder is needed" in refused(*run_on(array, tmp_path / "out"))
    assert "cannot write to the output folder" in refused(*run_on(array, tmp_path / "out" / "below"))
    assert (tmp_path / "out").read_text() == "mine"


def test_current_folder(array, tmp_path, monkeypatch, refused, no_work):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "current folder" in refused(*run_on(array, "."))
    assert listing(tmp_path) == ["X.npy", "here"]


def test_no_output_folder(array, refused):
    assert "name one with --output DIR" in refused("fit", "--array", array)


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="needs a folder in which nobody may write")
def test_folder_where_nobody_may_write(array, refused, no_work):
    line = refused(*run_on(array, "/sys/kernel/spca-tv/out"))
    assert "cannot write to the output folder /sys/kernel/spca-tv/out (" in line
    assert "choose another with --output" in line


def test_mount_point(array, refused, no_work):
    assert "is a mount point" in refused(*run_on(array, "/"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(array, tmp_path, refused, no_work):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "Permission denied" in refused(*run_on(array, locked / "out"))


def test_without_permission_also_for_root(array, tmp_path, refused, no_work, monkeypatch):
    def deny(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("spcatv.results.layout.tempfile.TemporaryFile", deny)
    line = refused(*run_on(array, tmp_path / "new" / "out"))
    assert f"cannot write to the output folder {tmp_path / 'new' / 'out'} (Permission denied)" in line
    assert listing(tmp_path) == ["X.npy"]


def test_second_run_is_kept_away(tmp_path):
    out = tmp_path / "out"
    with (
        claimed_folder(out, overwrite=False),
        pytest.raises(ResultsError, match="another process is writing to"),
        claimed_folder(out, overwrite=True),
    ):
        pytest.fail("claimed twice")
    assert listing(tmp_path) == ["out"]


@pytest.mark.parametrize("text", ["", "1 another-machine"])
def test_a_lock_file_that_was_left_behind_locks_nothing(text, tmp_path):
    """Such as an empty one, from a full disk."""
    (tmp_path / ".out.spca-tv-lock").write_text(text)
    with claimed_folder(tmp_path / "out", overwrite=False):
        pass
    assert listing(tmp_path) == ["out"]


def hold(out, claimed, release):
    """Claim a folder, and write a part of the results."""
    with claimed_folder(out, overwrite=True) as folder:
        (folder / "half.tsv").write_text("half")
        claimed.set()
        release.wait()


@pytest.fixture
def holder():
    """Starts a process that holds a folder, and gives the event that releases it."""
    started = []

    def start(out):
        claimed, release = FORK.Event(), FORK.Event()
        started.append(forked(hold, out, claimed, release))
        assert claimed.wait(600)
        return started[-1], release

    yield start
    for process in started:
        process.kill()
        process.join()


def test_what_a_killed_run_leaves_is_removed_by_the_next(array, tmp_path, holder, done, refused):
    out = tmp_path / "out"
    other, release = holder(tmp_path / "out2")
    process, _ = holder(out)
    (partial,) = tmp_path.glob(".out.spca-tv-partial")
    assert "another process is writing" in refused(*run_on(array, out))
    assert partial.is_dir(), "a process holds it"
    process.kill()
    process.join()
    assert partial.is_dir()
    foreign = [tmp_path / ".out.backup.spca-tv-partial", tmp_path / ".out.spca-tv-partial.tar"]
    for folder in foreign:
        folder.mkdir()
    done(*run_on(array, out))
    assert not partial.exists()
    # what is not of our making stays, and so does what another run still writes
    assert all(folder.is_dir() for folder in foreign)
    (others,) = tmp_path.glob(".out2.spca-tv-partial")
    release.set()
    other.join()
    assert not others.exists()
    assert other.exitcode == 0


def test_a_folder_that_another_process_writes_is_left_to_it(array, tmp_path, refused):
    with atomic_folder(tmp_path / "out", ValueError) as unfinished:
        assert "another process is writing" in refused(*run_on(array, tmp_path / "out"))
        (unfinished / "file").write_text("x")
    assert listing(tmp_path / "out") == ["file"]


def test_a_note_counts_what_is_replaced(array, tmp_path, done, capsys):
    out = tmp_path / "out"
    done(*run_on(array, out))
    assert main(run_on(array, out, "--n-components", "1", "--overwrite")) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"files of an earlier run in {out} will be replaced" in said


def test_a_new_folder_needs_no_note(array, tmp_path, capsys):
    assert main(run_on(array, tmp_path / "out", "--overwrite")) == 0
    assert capsys.readouterr().err == ""


def test_failure_leaves_nothing_but_what_is_kept(array, tmp_path, monkeypatch, capsys):
    def fail(*args, **options):
        raise MemoryError("out of memory")

    monkeypatch.setattr(pipeline, "write_results", fail)
    assert main(run_on(array, tmp_path / "new" / "out")) == 1
    note, error = capsys.readouterr().err.splitlines()
    assert note.startswith("spca-tv: note: 5 finished pieces of the work are kept. To resume: ")
    assert error == "spca-tv: error: out of memory"
    assert listing(tmp_path / "new") == [".out.spca-tv-checkpoint"]


def test_interruption_leaves_nothing_and_states_how_to_run_again(array, tmp_path, monkeypatch, capsys):
    def interrupt(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "with_number", interrupt)
    argv = run_on(array, tmp_path / "my results")
    assert main(argv) == 130
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"interrupted; nothing was written to {tmp_path / 'my results'}" in said
    assert (
        f"spca-tv fit --array {array} --shape 12,10 --alpha 0.05 --output '{tmp_path / 'my results'}'" in said
    )
    assert listing(tmp_path) == ["X.npy"]


class Pausing:
    """A stream that never returns from the line that the test waits for."""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        if "alternation 1" in text:
            self.stream.write(text + "\n")
            while True:
                signal.pause()
        self.stream.write(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def test_real_interruption_of_a_real_process(array, tmp_path):
    """As SIGTERM in test_select.py, and SIGHUP in surprises/test_command_line.py."""

    def pause_in_the_fit():
        sys.stderr = Pausing(sys.stderr)
        # tests in the background of a shell ignore Ctrl-C, and so would this process
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process, said = forked_command(main, run_on(array, tmp_path / "out", "-vv"), pause_in_the_fit)
    assert any("alternation 1" in line for line in said), "the fit has not begun"
    assert list(tmp_path.glob(".out.*partial")), "the results are written beside the folder first"
    os.kill(process.pid, signal.SIGINT)
    assert "interrupted; nothing was written" in said.read()
    process.join()
    assert process.exitcode == 130
    assert listing(tmp_path) == ["X.npy"]
    said.close()
