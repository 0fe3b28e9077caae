"""Pipes, devices, links and disk errors in the place of files: refused by name, without waiting for them."""

import errno
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from spcatv.cli import main
from spcatv.results import ResultsError, read_results

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
QUICK = ["--n-components", "1", "--max-iter", "2", "--n-splits", "0", "--quiet", "--output", "out"]


class Stuck(BaseException):
    """A file that never ends is read."""


@pytest.fixture(autouse=True)
def limited(tmp_path, monkeypatch):
    """An empty folder to work in; whatever waits for a pipe fails after some seconds."""
    monkeypatch.chdir(tmp_path)

    def stuck(*_):
        raise Stuck

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of `select` on a small array."""
    folder = tmp_path_factory.mktemp("results")
    np.save(folder / "X.npy", np.random.default_rng(0).standard_normal((12, 8)))
    words = f"select --array {folder}/X.npy --n-bootstraps 2 --cv 2 {' '.join(QUICK[:-1])} {folder}/out"
    assert main([*words.split(), "--sparsity", "0.5", "--smoothness", "1"]) == 0
    return folder / "out"


@pytest.fixture
def study():
    nib = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    rng = np.random.default_rng(0)
    for name in ("a.nii", "b.nii", "mask.nii", "v.img", "w.img"):
        nib.save(nib.Nifti1Image(1 + rng.random((4, 4, 4)).astype(np.float32), np.eye(4)), name)
    nib.freesurfer.write_geometry("lh.white", rng.random((4, 3)), np.array([[0, 1, 2], [0, 2, 3]]))
    for name in ("lh.a", "lh.b"):
        nib.freesurfer.write_morph_data(name, rng.random(4).astype(np.float32), fnum=2)
    return nib


def refused(capsys, name, *arguments):
    assert main([*arguments, *QUICK]) in (1, 2)
    assert name in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("x.npy", ["fit", "--array", "x.npy"]),
        ("x.npz", ["fit", "--array", "x.npz"]),
        ("x.csv", ["fit", "--array", "x.csv"]),
        ("x.txt", ["fit", "x.txt"]),
        ("x.tsv", ["fit", "x.tsv"]),
        ("x.toml", ["fit", "--config", "x.toml"]),
        ("x.nii", ["fit", "a.nii", "x.nii"]),
        ("x.nii.gz", ["fit", "a.nii", "x.nii.gz"]),
        ("x.mgz", ["fit", "a.nii", "x.mgz"]),
        ("v.hdr", ["fit", "v.img", "w.img"]),
        ("x.nii", ["fit", "a.nii", "b.nii", "--mask", "x.nii"]),
        ("x.tsv", ["fit", "a.nii", "b.nii", "--mask", "mask.nii", "--confounds", "x.tsv"]),
        ("lh.x", ["fit", "lh.a", "lh.x", "--surface", "lh.white", "-"]),
        ("lh.x.gii", ["fit", "lh.a", "lh.x.gii", "--surface", "lh.white", "-"]),
        ("lh.x.mgz", ["fit", "lh.a", "lh.x.mgz", "--surface", "lh.white", "-"]),
        ("lh.x", ["fit", "lh.a", "lh.b", "--surface", "lh.x", "-"]),
    ],
)
def test_inputs_that_are_no_regular_files(study, capsys, kind, name, command):
    Path(name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(name)
    else:
        Path(name).symlink_to("/dev/zero")
    refused(capsys, name, *command)


@pytest.mark.parametrize("name", ["desc-SPCATV_config.toml", "desc-SPCATV_mixing.tsv", "stability.npz"])
@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_results_of_a_stranger(results, tmp_path, name, kind):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    file = folder / name
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as opened:
            opened.truncate(2**40)
    with pytest.raises(ResultsError) as caught:
        read_results(folder)
    assert name in str(caught.value)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file whose bytes cannot be read")
@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz", "x.npy", "x.tsv"])
def test_an_error_of_the_disk_is_reported(study, capsys, name):
    Path(name).symlink_to("/proc/self/mem")
    main(["fit", *(["--array", name] if name == "x.npy" else ["a.nii", name]), *QUICK])
    line = capsys.readouterr().err
    assert name in line
    assert os.strerror(errno.EIO) in line


def test_errors_name_the_file(study, capsys):
    nib, rng = study, np.random.default_rng(0)
    np.save("empty.npy", np.zeros((6, 0)))
    refused(capsys, "empty.npy", "fit", "--array", "empty.npy")
    np.savez("cut.npz", X=rng.random((6, 8)))
    Path("cut.npz").write_bytes(Path("cut.npz").read_bytes().replace(b"(6, 8)", b"(4, 8)"))
    refused(capsys, "cut.npz", "fit", "--array", "cut.npz")
    Path("long.toml").write_text(f"n_components = {'9' * 5000}\n")
    refused(capsys, "long.toml", "fit", "--config", "long.toml")
    nib.freesurfer.write_geometry("lh.twice", rng.random((4, 3)), np.array([[0, 1, 2], [0, 0, 3]]))
    refused(capsys, "lh.twice", "fit", "lh.a", "lh.b", "--surface", "lh.twice", "-")
    arrays = [nib.gifti.GiftiDataArray(rng.random(4).astype(np.float32)) for _ in range(2)]
    text = nib.gifti.GiftiImage(darrays=arrays).to_bytes()
    Path("lh.two.gii").write_bytes(text.replace(b'NumberOfDataArrays="2"', b'NumberOfDataArrays="1"'))
    refused(capsys, "lh.two.gii", "fit", "lh.a", "lh.two.gii", "--surface", "lh.white", "-")


def test_colours_in_a_cifti_file(study, capsys):
    nib = study
    axis = nib.cifti2.BrainModelAxis.from_mask(np.ones((3, 3, 3)), affine=np.eye(4), name="thalamus_left")
    for name in ("s.dscalar.nii", "rgb.dscalar.nii"):
        values = np.random.default_rng(0).random((1, 27)).astype(np.float32)
        nib.save(nib.Cifti2Image(values, (nib.cifti2.ScalarAxis(["map"]), axis)), name)
    content = bytearray(Path("rgb.dscalar.nii").read_bytes())
    content[12:16] = b"\x80\x00\x18\x00"  # data type 128 of 24 bits
    Path("rgb.dscalar.nii").write_bytes(content)
    refused(capsys, "rgb.dscalar.nii", "fit", "s.dscalar.nii", "rgb.dscalar.nii")


def test_infinite_numbers_in_results(results, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    header = ["input", "share_missing", "share_zero", "distance", "correlation", "outlier", "why"]
    file = folder / "desc-SPCATV_quality.tsv"
    file.write_text(
        "\t".join(header) + "\n" + "\t".join(["a.nii", "0", "0", "1e999", "0.5", "false", "n/a"]) + "\n"
    )
    with pytest.raises(ResultsError) as caught:
        read_results(folder)
    assert file.name in str(caught.value)
    assert "1e999" in str(caught.value)


def test_all_damaged_images_are_named(study, capsys):
    for name in ("one.nii", "two.nii", "three.nii"):
        Path(name).write_bytes(b"damaged")
    main(["fit", "one.nii", "a.nii", "two.nii", "b.nii", "three.nii", *QUICK])
    line = capsys.readouterr().err
    assert all(name in line for name in ("one.nii", "two.nii", "three.nii"))
    assert line.count("\n") == 1
