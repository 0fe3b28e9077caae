"""`fit`, `select` and `transform` on a BIDS dataset: the same as with the files by name."""

import os
import shutil

import numpy as np
import pytest
from cli_files import listing, read_tsv

from spcatv.images import ImageSPCATV, bids_images

pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

MNI = "MNI152NLin2009cAsym"
QUICK = ("--n-components", "1", "--n-splits", "0", "--mask", "mask.nii.gz")
CHOSEN = ("--space", MNI, "--desc", "smoothwm")


@pytest.fixture
def dataset(volumes, tmp_path, monkeypatch):
    """Ten people with an image in each of two spaces, and their ages."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "derivatives" / "vbm"
    for number, file in enumerate(sorted(volumes.iterdir())):
        place = root / f"sub-{number:02d}" / "anat"
        place.mkdir(parents=True)
        for rest in (f"space-{MNI}_desc-smoothwm", "desc-smoothwm"):
            shutil.copy(file, place / f"sub-{number:02d}_{rest}_T1w.nii.gz")
    (root / "dataset_description.json").write_text("{}")
    rows = (f"sub-{number:02d}\t{20 + number**2}\t{'AB'[number % 2]}\n" for number in reversed(range(10)))
    (root / "participants.tsv").write_text("participant_id\tage\tsite\n" + "".join(rows))
    return root


def test_fit_on_a_dataset(dataset, tmp_path, done):
    out = tmp_path / "out"
    said = done("fit", "--bids", dataset, *CHOSEN, *QUICK, "--output", out)
    assert said.startswith(
        f"{dataset}: 10 images of 10 people: space {MNI}, desc smoothwm, suffix T1w, extension .nii.gz\n"
    )
    mixing = read_tsv(out / "desc-SPCATV_mixing.tsv")
    files = bids_images(dataset, space=MNI)
    assert [row["input"] for row in mixing] == list(map(str, files))
    model = ImageSPCATV(1, mask="mask.nii.gz").fit(files)
    np.testing.assert_allclose(
        [float(row["component_1"]) for row in mixing], model.transform(files)[:, 0], rtol=1e-5
    )
    # the configuration names the files, not the dataset, which may grow
    assert (
        done("fit", "--config", out / "desc-SPCATV_config.toml", "--output", tmp_path / "again", "--quiet")
        == ""
    )
    first, second = ((folder / "desc-SPCATV_mixing.tsv").read_text() for folder in (out, tmp_path / "again"))
    assert first == second


def test_columns_are_those_of_the_participants(dataset, tmp_path, done):
    confounds = ("--confounds-columns", "age")
    said = done("fit", "--bids", dataset, *CHOSEN, *QUICK, *confounds, "--output", tmp_path / "one")
    assert f"Confounds: {dataset}/participants.tsv: rows matched by participant_id" in said
    table = ("--confounds", dataset / "participants.tsv")
    files = dataset / f"sub-*/anat/*_space-{MNI}_*.nii.gz"
    done("fit", files, *QUICK, *table, *confounds, "--output", tmp_path / "two", "--quiet")
    one, two = ((tmp_path / name / "desc-SPCATV_mixing.tsv").read_text() for name in ("one", "two"))
    assert one == two
    # so does transform, where the model needs them
    scores = tmp_path / "scores.tsv"
    done("transform", tmp_path / "one", "--bids", dataset, *CHOSEN, "--output", scores)
    assert scores.read_text() == one


def test_groups_of_the_participants(dataset, tmp_path, done):
    quick = ("--sparsity", "0.5", "0.7", "--smoothness", "1", "--n-bootstraps", "0", "--cv", "2")
    said = done(
        "select", "--bids", dataset, *CHOSEN, *QUICK, *quick, "--groups", "site", "--output", tmp_path / "out"
    )
    assert "Groups: samples of one site stay together" in said


def test_a_configuration_may_name_a_dataset(dataset, tmp_path, done, refused):
    config = tmp_path / "run.toml"
    config.write_text(f'bids = "derivatives/vbm"\nspace = "{MNI}"\nsubject = ["00", "01", "02", "03"]\n')
    done("fit", "--config", config, *QUICK, "--output", tmp_path / "out", "--quiet")
    assert len(read_tsv(tmp_path / "out" / "desc-SPCATV_mixing.tsv")) == 4
    # images on the command line replace the dataset with its filters
    done("fit", tmp_path / "images", "--config", config, *QUICK, "--output", tmp_path / "more", "--quiet")
    assert len(read_tsv(tmp_path / "more" / "desc-SPCATV_mixing.tsv")) == 10


def test_wrong_use(dataset, volumes, array, tmp_path, refused):
    out = ("--output", tmp_path / "out")
    assert "give either images or --bids, not both" in refused("fit", volumes, "--bids", dataset, *out)
    assert "give either --array or --bids, not both" in refused(
        "fit", "--array", array, "--bids", dataset, *out
    )
    assert "--space can only be used with --bids" in refused("fit", volumes, "--space", MNI, *out)
    assert "choose by space" in refused("fit", "--bids", dataset, *out)
    assert "no image has run 1" in refused("fit", "--bids", dataset, "--run", "1", *out)
    assert "no image has acq x" in refused("fit", "--bids", dataset, "--entity", "acq-x", *out)
    assert "as in acq-mprage" in refused("fit", "--bids", dataset, "--entity", "mprage", *out)
    assert f"goes with --bids {dataset}" in refused("fit", dataset, *out)
    os.remove(dataset / "participants.tsv")
    columns = ("--confounds-columns", "age")
    assert "has no participants.tsv" in refused("fit", "--bids", dataset, *CHOSEN, *columns, *out)
    assert "out" not in listing(tmp_path)


def test_wrong_use_of_transform(dataset, volumes, tmp_path, done, refused):
    done("fit", volumes, *QUICK, "--output", tmp_path / "out", "--quiet")
    scores = ("--output", tmp_path / "scores.tsv")
    model = ("transform", tmp_path / "out")
    assert "--space can only be used with --bids" in refused(*model, volumes, "--space", MNI, *scores)
    assert "give either images or --bids" in refused(*model, volumes, "--bids", dataset, *scores)
