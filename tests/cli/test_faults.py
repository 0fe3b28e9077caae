"""What a machine can do to a run: full disks, read-only folders, too little memory, files that change."""

import os
import re
import resource
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cli_files import listing
from forks import forked_command

from spcatv.cli import fit, main, pipeline

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and mounts of POSIX systems")


def command(array, out, shape="12,10"):
    return ["fit", "--array", str(array), "--shape", shape, "--n-components", "1", "--output", str(out)]


def limited(argv, *limits):
    """Run the command line in a process with limits; its exit code and what it prints to stderr."""
    process, stderr = forked_command(
        main, argv, lambda: [resource.setrlimit(kind, (most, most)) for kind, most in limits]
    )
    with stderr:
        said = stderr.read()
    process.join()
    return process.exitcode, said


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small file system in memory, where that is allowed."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options):
        mount = shutil.which("mount")
        words = [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if mount is None or os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
            pytest.skip("only root may mount a file system, and not in every container")
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


def filling(disk, write=pipeline.write_results):
    """A function that writes results to a disk that has just become full."""

    def fill(*args, **more):
        with suppress(OSError), (disk / "other").open("wb", buffering=0) as file:
            while file.write(bytes(2**12)):
                pass
        return write(*args, **more)

    return fill


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_full_disk(array, mounted, capsys, monkeypatch, done):
    disk = mounted("size=40m")
    out = disk / "out"
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_results", filling(disk))
        assert main(command(array, out)) == 1
    words = f"{out}: No space left on device;"
    note, error = capsys.readouterr().err.splitlines()
    assert error.startswith("spca-tv: error: ")
    assert words in error
    assert "finished pieces of the work are kept. To resume: spca-tv fit" in note
    assert listing(disk) == [".out.spca-tv-checkpoint", "other"]
    (disk / "other").unlink()
    done(*command(array, out), "--resume", "--quiet")
    assert listing(disk) == ["out"]
    before = contents(out)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_results", filling(disk))
        assert main([*command(array, out), "--n-components", "2", "--overwrite", "--quiet"]) == 1
    assert words in capsys.readouterr().err
    assert listing(disk) == [".out.spca-tv-checkpoint", "other", "out"]
    assert contents(out) == before


def test_files_may_not_grow(array, tmp_path):
    """As with a quota: the system refuses to write more than some bytes to a file."""
    code, said = limited(command(array, tmp_path / "out"), (resource.RLIMIT_FSIZE, 500))
    assert code == 1
    assert said.count("\n") == 1
    assert "File too large" in said
    assert listing(tmp_path) == ["X.npy"]


def test_a_read_only_disk(array, mounted, refused):
    disk = mounted("size=1m,ro")
    assert f"cannot write to the output folder {disk / 'out'} (Read-only file system)" in refused(
        *command(array, disk / "out")
    )


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("n_samples", "code", "words"),
    [
        (10**7, 2, r"X\.npy as an array: .*Cannot allocate memory"),
        (10**4, 1, r"Unable to allocate .* for an array"),
    ],
)
def test_too_little_memory(n_samples, code, words, tmp_path):
    """The file is larger than what the process may have, or only the values in the mask are, as floats."""
    with (tmp_path / "X.npy").open("wb") as file:
        about = {"descr": "|i1", "fortran_order": False, "shape": (n_samples, 20_000)}
        np.lib.format.write_array_header_1_0(file, about)
        file.truncate(file.tell() + n_samples * 20_000)  # takes no room on most disks
    np.save(tmp_path / "mask.npy", np.arange(20_000) > 0)
    asked = [*command(tmp_path / "X.npy", tmp_path / "out", "20000"), "--mask", tmp_path / "mask.npy"]
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    found, said = limited(asked, (resource.RLIMIT_AS, mapped + 2**30))
    assert (found, said.count("\n")) == (code, 1)
    assert re.search(words, said)
    assert listing(tmp_path) == ["X.npy", "mask.npy"]


def test_an_array_that_changes_while_it_is_read(array, tmp_path, monkeypatch, capsys):
    with_number = fit.with_number

    def change(*args, **more):
        found = with_number(*args, **more)
        other = array.with_suffix(".new")
        with other.open("wb") as file:
            np.save(file, np.load(array) + 1)
        os.replace(other, array)
        return found

    monkeypatch.setattr(fit, "with_number", change)
    assert main(command(array, tmp_path / "out")) == 2
    assert capsys.readouterr().err.startswith(f"spca-tv: error: {array} was changed while it was read;")
    assert listing(tmp_path) == ["X.npy"]


def test_an_image_that_changes_while_it_is_read(volumes, tmp_path, monkeypatch, capsys):
    from spcatv.images.spaces.volume import VolumeSpace

    read = VolumeSpace.read_image

    def change(*args):
        (volumes / "sub-03_map.nii.gz").touch()
        return read(*args)

    monkeypatch.setattr(VolumeSpace, "read_image", change)
    argv = [
        "fit",
        str(volumes / "sub-*.nii.gz"),
        "--mask",
        str(tmp_path / "mask.nii.gz"),
        "--n-components",
        "1",
    ]
    assert main([*argv, "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "sub-03_map.nii.gz: was changed while it was read; try again" in said
    assert listing(tmp_path) == ["images", "mask.nii.gz"]


@pytest.mark.parametrize("command", ["transform", "report"])
def test_termination_is_one_line(command, array, tmp_path, done, monkeypatch, capsys):
    """As Ctrl-C: the old file is kept, and nothing is left beside it."""
    done(
        "fit",
        "--array",
        array,
        "--n-components",
        "1",
        "--n-splits",
        "0",
        "--quiet",
        "--output",
        tmp_path / "out",
    )
    file = tmp_path / "page.html"
    file.write_text("old")

    def terminated(*_):
        raise AssertionError("the process would have ended here without a word")

    def write(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        monkeypatch.setattr("spcatv.cli.transform.write_text", write)
        monkeypatch.setattr(Path, "write_text", write)
        argv = [command, str(tmp_path / "out"), "--output", str(file), "--overwrite"]
        assert main([*argv, *(["--array", str(array)] if command == "transform" else [])]) == 130
        assert signal.getsignal(signal.SIGTERM) is terminated
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(file) in said
    assert file.read_text() == "old"
    assert listing(tmp_path) == ["X.npy", "out", "page.html"]
