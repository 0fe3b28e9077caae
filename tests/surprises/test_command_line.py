"""The command line where people stumble: mistyped options, empty components, one hemisphere, lost work."""

import os
import re
import signal
import sys

import numpy as np
import pytest
from forks import forked_command

from spcatv.cli import fit, main


@pytest.fixture
def few(tmp_path):
    """Five samples of forty cells."""
    np.save(tmp_path / "few.npy", np.random.default_rng(0).standard_normal((5, 40)))
    return tmp_path / "few.npy"


@pytest.fixture
def of_rank_two(tmp_path):
    """Twenty samples that two components explain completely."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rank2.npy", rng.standard_normal((20, 2)) @ rng.standard_normal((2, 40)))
    return tmp_path / "rank2.npy"


def row(text, number):
    """The cells of a component in the printed table, by the words of its header."""
    header = next(line for line in text.splitlines() if line.startswith("component "))
    names = re.split(r"\s{2,}", header.strip())
    line = next(line for line in text.splitlines() if re.match(rf"{number}\s", line))
    return dict(zip(names, re.split(r"\s{2,}", line.strip()), strict=True))


def test_an_option_of_another_command_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "maps/*.nii.gz", "--rule", "stability", "--output", "results"])
    assert "--rule (an option of spca-tv select)" in capsys.readouterr().err


def test_more_components_than_samples_is_reported_before_the_work(few, tmp_path, spca_tv):
    seven = ("fit", "--array", few, "--shape", "40", "--n-components", "7", "--output")
    joint = spca_tv(*seven, tmp_path / "joint")
    deflation = spca_tv(*seven, tmp_path / "deflation", "--method", "deflation")
    for ran in (joint, deflation):
        assert ran.code == 0
        said = "--n-components 7 is more than the rank of the data, which is 4 at most (5 samples, centred"
        assert said in ran.err.splitlines()[0]
    assert "the data have rank 4" in joint.err
    assert "3 of 7 components are empty (number 5, 6, 7)" in joint.err
    assert "the data have rank 4" in deflation.out
    assert "Lower --n-components (now 7) to 4." in deflation.out


def test_components_beyond_the_rank_are_empty_and_neither_converged_nor_sparse(
    of_rank_two, tmp_path, spca_tv
):
    out = tmp_path / "out"
    ran = spca_tv("fit", "--array", of_rank_two, "--n-components", "3", "--sparsity", "0", "--output", out)
    assert ran.code == 0
    assert "1 of 3 components are empty (number 3)" in ran.err
    assert row(ran.out, 2)["converged"] == "yes"
    empty = row(ran.out, 3)
    assert (empty["converged"], empty["zeros"], empty["gap"]) == ("empty", "-", "-")
    assert "empty:" not in ran.out, "once is enough"
    lines = [line.split("\t") for line in (out / "desc-SPCATV_metrics.tsv").read_text().splitlines()]
    written = dict(zip(lines[0], lines[3], strict=True))
    assert {written[name] for name in ("converged", "sparsity", "relative_gap")} == {"n/a"}
    assert "empty" in row(spca_tv("info", out).out, 3)["converged"]


def test_a_penalty_that_kills_everything_is_reported(of_rank_two, tmp_path, spca_tv):
    weights = ("--alpha", "2", "--l1-ratio", "0.9", "--tv-ratio", "0.05")
    out = tmp_path / "out"
    ran = spca_tv("fit", "--array", of_rank_two, "--n-components", "1", *weights, "--output", out)
    assert ran.code == 0
    assert "1 of 1 components are empty (number 1)" in ran.err
    assert row(ran.out, 1)["converged"] == "empty"


def test_one_hemisphere_and_two_surfaces(tmp_path, spca_tv, capsys):
    nib = pytest.importorskip("nibabel", reason="overlays are read with nibabel (extra `images`)")
    pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
    points = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]], dtype=np.float32)
    corners = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]], dtype=np.int32)
    for side in ("lh", "rh"):
        nib.freesurfer.write_geometry(tmp_path / f"{side}.pial", points, corners)
    rng = np.random.default_rng(0)
    for number in range(4):
        nib.freesurfer.write_morph_data(tmp_path / f"lh.sub-{number}.thickness", rng.standard_normal(5))
    images, surfaces = tmp_path / "lh.*.thickness", (tmp_path / "lh.pial", tmp_path / "rh.pial")
    command = ("fit", images, "--n-components", "1", "--sparsity", "0.4", "--output", tmp_path / "out")
    ran = spca_tv(*command, "--surface", *surfaces)
    assert ran.code == 2
    assert "--surface lh.pial -" in ran.err
    with pytest.raises(SystemExit):
        spca_tv(*command, "--surface", surfaces[0])
    assert "write - for the other one: --surface lh.pial -" in capsys.readouterr().err
    assert spca_tv(*command, "--surface", surfaces[0], "-").code == 0


def test_overwriting_states_what_goes(few, tmp_path, spca_tv):
    out = tmp_path / "out"
    command = ("fit", "--array", few, "--n-components", "1", "--output", out)
    assert spca_tv(*command).code == 0
    (out / "desc-SPCATV_report.html").write_text("about the old results")
    ran = spca_tv(*command, "--overwrite")
    assert ran.code == 0
    assert "will be replaced" in ran.err
    assert not (out / "desc-SPCATV_report.html").exists()


def stuck(*_, **__):
    print("working", file=sys.stderr)
    signal.pause()


@pytest.mark.parametrize("kind", ["SIGKILL", "SIGHUP"])
def test_a_killed_run_leaves_nothing_for_ever(kind, few, tmp_path, spca_tv):
    out = tmp_path / "out"
    command = ["fit", "--array", str(few), "--n-components", "1", "--output", str(out)]

    def stop_before_the_fit():
        # tests under nohup ignore hang-ups, and so would this process
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fit.with_number = stuck

    process, stderr = forked_command(main, command, stop_before_the_fit)
    assert "working\n" in stderr
    os.kill(process.pid, getattr(signal, kind))
    process.join()
    stderr.close()
    left = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("."))
    if kind == "SIGHUP":
        assert (process.exitcode, left) == (130, [])
    else:
        assert left  # half of the results, a lock, and a checkpoint in which nothing is kept yet
    assert spca_tv(*command).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.npy", "out"]


def test_samples_that_are_elsewhere(tmp_path, few, spca_tv):
    """A folder of folders, and arrays where images are expected: the message names the remedy."""
    output = ("--output", tmp_path / "out")
    nested = tmp_path / "bids" / "sub-01" / "func"
    nested.mkdir(parents=True)
    (nested / "sub-01_bold.nii.gz").write_bytes(b"")
    ran = spca_tv("fit", tmp_path / "bids", *output)
    assert ran.code == 2
    assert f"not read: give a pattern, such as '{tmp_path / 'bids'}/**/*.nii.gz'" in ran.err
    ran = spca_tv("fit", few, *output)
    assert ran.code == 2
    assert f"{few} is an array, not an image: give it with --array {few}" in ran.err
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / few.name).write_bytes(few.read_bytes())
    ran = spca_tv("fit", tmp_path / "arrays", *output)
    assert ran.code == 2
    assert "an array goes with --array FILE, one file with one sample per row" in ran.err
    (tmp_path / "empty").mkdir()
    assert spca_tv("fit", tmp_path / "empty", *output).err.endswith(".gii.gz)\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda X: X[7, :6].fill(np.nan),
            "[7] (50 % missing); values missing there cost the field 60 of its 120",
        ),
        (lambda X: X[7].fill(0), "X.npy[7] (0 everywhere): the same value, or none, in all 120 features"),
        (lambda X: np.copyto(X[9], X[3]), "X.npy[9] (as X.npy[3])"),
        (lambda X: np.multiply(X[7], 50, out=X[7]), "times the usual distance from the median sample"),
    ],
)
def test_bad_samples_of_an_array_are_named(spoil, said, tmp_path, spca_tv, monkeypatch):
    """Faces, temperatures: what is said about images is said about samples of other fields."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 12, 10)) + 2 * rng.standard_normal((30, 1, 1))
    spoil(X)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.chdir(tmp_path)
    ran = spca_tv("fit", "--array", "X.npy", "--n-components", "1", "--n-splits", "0", "--output", "out")
    assert ran.code == 0
    assert said in ran.err
