"""Fault sweep: the n-th open, write, fsync or rename fails, for every n.

Afterwards the old results or the new ones are there, one line names a file, and the next run succeeds.
"""

import builtins
import contextlib
import errno
import io
import itertools
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_files import AFFINE, fields

from spcatv.cli import main

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds the paths of descriptors in /proc"),
    pytest.mark.no_cover,
]

KINDS = ("open", "write", "fsync", "rename")
QUICK = ("--n-components", "1", "--max-iter", "2", "--tol", "0.1", "--quiet")
SELECT = ("--sparsity", "0.3", "0.6", "--smoothness", "0.5", "--cv", "2", "--n-bootstraps", "2")


class Faults:
    """Counts the operations of one kind below a folder; the n-th fails, and with `lasting` all after it."""

    def __init__(self, folder, kind, number, *, lasting=False):
        self.folder, self.kind, self.number, self.lasting = folder, kind, number, lasting
        self.count = 0

    @property
    def failed(self):
        """Whether any operation has failed."""
        return self.count >= self.number

    def check(self, kind, path):
        """Count an operation on a path, or on a descriptor, and fail if it is its turn."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        if kind != self.kind or not Path(os.path.abspath(os.fsdecode(path))).is_relative_to(self.folder):
            return
        self.count += 1
        if self.count == self.number or (self.lasting and self.failed):
            number = errno.ENOSPC if kind == "write" else errno.EIO
            if kind == "open":
                raise OSError(number, os.strerror(number), os.fspath(path))
            raise OSError(number, os.strerror(number))

    @contextlib.contextmanager
    def installed(self):
        """Let Python's functions fail; what libraries do in C alone is not seen."""

        def checked(kind, function):
            def call(first, *args, **options):
                self.check(kind, first)
                return function(first, *args, **options)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for module in (io, builtins):
                patch.setattr(module, "open", self._open(io.open))
            patch.setattr(os, "open", checked("open", os.open))
            patch.setattr(os, "sendfile", checked("write", os.sendfile))
            patch.setattr(os, "fsync", checked("fsync", os.fsync))
            patch.setattr(os, "replace", checked("rename", os.replace))
            patch.setattr(os, "rename", checked("rename", os.rename))
            # NumPy would write to the descriptor, in C
            patch.setattr(np.lib.format, "isfileobj", lambda file: False, raising=False)
            patch.setattr("numpy.lib._format_impl.isfileobj", lambda file: False, raising=False)
            yield self

    def _open(self, real_open):
        faults = self

        class Raw(io.FileIO):
            def write(self, content):
                try:
                    faults.check("write", self.name)
                except OSError:
                    super().write(content[: len(content) // 2])
                    raise
                return super().write(content)

        def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest, **more):
            if isinstance(file, int):
                return real_open(file, mode, buffering, encoding, errors, newline, *rest, **more)
            faults.check("open", file)
            if not set(mode) & set("wax") or rest or more or buffering == 0:
                return real_open(file, mode, buffering, encoding, errors, newline, *rest, **more)
            raw = Raw(file, mode.replace("b", "").replace("t", ""))
            buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffer if "b" in mode else io.TextIOWrapper(buffer, encoding, errors, newline)

        return opened


def contents(folder, *, hidden=True):
    """All files below a folder, and their bytes; what its hidden entries hold only if wanted."""
    names = sorted(name for name in os.listdir(folder) if hidden or not name.startswith("."))
    paths = [path for name in names for path in (folder / name, *(folder / name).rglob("*"))]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


def write_array(folder):
    """Write an array; the arguments of a fit, and of `transform`."""
    np.save(folder / "X.npy", fields(6, (4, 3)))
    return 2 * (["--array", str(folder / "X.npy")],)


def write_images(folder):
    """Write a few images and their mask; the arguments of a fit, and of `transform`."""
    nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

    rng = np.random.default_rng(0)
    files = [str(folder / f"sub-{number}.nii.gz") for number in range(4)]
    for file in files:
        nib.save(nib.Nifti1Image(rng.standard_normal((5, 5, 5)).astype(np.float32), AFFINE), file)
    inside = np.zeros((5, 5, 5), np.uint8)
    inside[1:4, 1:4, 1:4] = 1
    nib.save(nib.Nifti1Image(inside, AFFINE), folder / "mask.nii.gz")
    return [*files, "--mask", str(folder / "mask.nii.gz")], files


INPUTS = {"array": write_array, "images": write_images}


class Study:
    """A command on tiny data, with results of other options in place or with none, run again and again."""

    def __init__(self, place, command, inputs, *, old):
        self.place = place / "work"
        self.place.mkdir()
        self.original = place / "original"
        data, files = INPUTS[inputs](self.place)
        model = str(self.place / "model")
        self.argv = {
            "fit": ["fit", *data, *QUICK, "--n-splits", "2"],
            "select": ["select", *data, *QUICK, *SELECT, "--n-splits", "2"],
            "transform": ["transform", model, *files, "--quiet"],
            "report": ["report", model, "--quiet"],
        }[command]
        self.argv += ["--output", str(self.place / "out")]
        if model in self.argv:
            assert self.run(["fit", *data, *QUICK, "--n-splits", "0", "--output", model])[0] == 0
        if old:
            other = {"transform": [], "report": ["--title", "Other"]}.get(command, ["--seed", "1"])
            assert self.run([*self.argv, *other])[0] == 0
            if command == "transform":  # scores of the same model and data are the same
                (self.place / "out").write_text("old")
            self.argv.append("--overwrite")
        shutil.copytree(self.place, self.original)
        self.before = contents(self.place)
        code, self.said = self.run(self.argv)
        assert code == 0, self.said
        self.after = contents(self.place)
        assert self.before != self.after
        self.again = [*self.argv, "--overwrite", *(() if model in self.argv else ("--resume",))]

    @staticmethod
    def run(argv):
        """The exit code of a command, and what it says."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "perf_counter", lambda: 0.0)  # results hold the seconds that fits took
            with contextlib.redirect_stderr(said):
                return main(argv), said.getvalue()

    def restore(self):
        shutil.rmtree(self.place)
        shutil.copytree(self.original, self.place)

    def wrong(self, faults):
        """Run the command with faults; what is wrong with the outcome, or an empty text."""
        self.restore()
        with faults.installed():
            code, said = self.run(self.argv)
        if not faults.failed:
            return ""
        lines = [line for line in said.splitlines() if line not in self.said.splitlines()]
        errors = [line for line in lines if line.startswith("spca-tv: error: ")]
        others = [line for line in lines if not line.startswith(("spca-tv: error: ", "spca-tv: note: "))]
        # what could not be removed, or is kept of the work, is hidden, and the next run removes it
        found = contents(self.place, hidden=False)
        if found not in (self.before, self.after):
            names = [name for name in {**found, **self.after} if found.get(name) != self.after.get(name)]
            return f"a mixture of results ({code}, {said}): {names}"
        if code == 0 and (lines or found != self.after):
            return f"success, but {lines or 'the results are the old ones'}"
        if code != 0 and (len(errors) != 1 or others or str(self.place) not in errors[0]):
            return f"{code} without one line that names a file: {said!r}"
        code, said = self.run(self.again)
        if code != 0 or contents(self.place) != self.after:
            return f"no recovery: {code} {said}"
        return ""

    def sweep(self, kind, *, step=1, lasting=False):
        """What is wrong, by the number of the operation that failed; and how many operations there are."""
        found, numbers = {}, itertools.count(1, step)
        while True:
            faults = Faults(self.place, kind, next(numbers), lasting=lasting)
            problem = self.wrong(faults)
            if problem:
                found[faults.number] = problem
            if not faults.failed:
                break
        return found, faults.count


# one operation in so many fails in the quick sweep: the less one costs, the more of them
@pytest.mark.parametrize(("command", "step"), [("fit", 23), ("select", 47), ("transform", 2), ("report", 4)])
def test_some_faults(command, step, tmp_path):
    if command == "report":
        pytest.importorskip("jinja2", reason="reports are made with Jinja2 (extra `report`)")
    study = Study(tmp_path, command, "array", old=True)
    for kind in KINDS:
        wrong, n_operations = study.sweep(kind, step=step if kind == "open" else max(1, step // 2))
        assert n_operations > 0
        assert not wrong, kind


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("command", ["fit", "select", "transform", "report"])
def test_all_faults(command, inputs, old, lasting, tmp_path):
    """Every operation fails once, or it and all after it do."""
    study = Study(tmp_path, command, inputs, old=old)
    assert not {kind: wrong for kind in KINDS if (wrong := study.sweep(kind, lasting=lasting)[0])}
