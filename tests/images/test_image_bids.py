"""Which images of a BIDS dataset are meant: by the entities in their names, and nothing is guessed."""

import pytest

pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

from spcatv.images import ImageError, bids_images
from spcatv.images.bids import describe_images, participants_table
from spcatv.images.spaces.overlays import pair_hemispheres

MNI = "MNI152NLin2009cAsym"


def dataset(folder, names):
    """Empty files in the folders where BIDS has them, and a description."""
    (folder / "dataset_description.json").parent.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_description.json").write_text("{}")
    for name in names:
        place = folder / name.split("_")[0] / "anat"
        place.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    return folder


@pytest.fixture
def fmriprep(tmp_path):
    names = [
        f"sub-{sub}_{rest}"
        for sub in ("01", "02", "03")
        for rest in (
            f"space-{MNI}_res-2_desc-preproc_T1w.nii.gz",
            f"space-{MNI}_res-2_label-GM_probseg.nii.gz",
            f"space-{MNI}_res-2_label-WM_probseg.nii.gz",
            "desc-preproc_T1w.nii.gz",
            "desc-preproc_T1w.json",
            "label-GM_probseg.nii.gz",
            "hemi-L_pial.surf.gii",
            "hemi-L_thickness.shape.gii",
            "hemi-R_thickness.shape.gii",
            *(f"task-rest_run-{run}_space-{MNI}_desc-preproc_bold.nii.gz" for run in (1, 2)),
        )
    ]
    return dataset(tmp_path / "bids" / "derivatives" / "fmriprep", names)


def found(folder, **filters):
    return [file.name for file in bids_images(folder, **filters)]


@pytest.mark.parametrize(
    ("filters", "rest"),
    [
        ({"space": MNI, "desc": "preproc", "suffix": "T1w"}, f"space-{MNI}_res-2_desc-preproc_T1w.nii.gz"),
        ({"space": "none", "suffix": "T1w"}, "desc-preproc_T1w.nii.gz"),
        ({"space": f"space-{MNI}", "label": "GM"}, f"space-{MNI}_res-2_label-GM_probseg.nii.gz"),
        ({"suffix": "bold", "run": 1}, f"task-rest_run-1_space-{MNI}_desc-preproc_bold.nii.gz"),
        ({"hemi": "L"}, "hemi-L_thickness.shape.gii"),
    ],
)
def test_one_image_per_person(filters, rest, fmriprep):
    assert found(fmriprep, **filters) == [f"sub-0{number}_{rest}" for number in (1, 2, 3)]


def test_people_runs_and_hemispheres_may_differ(fmriprep):
    runs = found(fmriprep, suffix="bold", subject=["sub-02", "3"])
    assert [name.split("_space")[0] for name in runs] == [
        *("sub-02_task-rest_run-1", "sub-02_task-rest_run-2"),
        *("sub-03_task-rest_run-1", "sub-03_task-rest_run-2"),
    ]
    pairs = pair_hemispheres(bids_images(fmriprep, extension="shape.gii"))
    assert [len(pair) for pair in pairs] == [2, 2, 2]
    # two tissues are samples of one space, if both were asked for
    assert len(found(fmriprep, space=MNI, label=["GM", "WM"])) == 6


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (
            {"suffix": "probseg", "label": "GM"},
            [f"(space: {MNI}, none; res: 2, none)", "choose by space and res, none for"],
        ),
        ({"suffix": "probseg", "label": "GM", "space": [MNI, "none"]}, ["choose by space"]),
        ({"space": MNI}, ["(suffix: T1w, bold, probseg; res: 2, none; desc: preproc, none; label:"]),
        ({"space": MNI, "suffix": "probseg"}, ["6 images match", "kinds (label: GM, WM); choose by label"]),
        ({"extension": ".nii.gz", "space": "none"}, ["choose by suffix and desc and label"]),
        ({}, ["27 images match", "extension: .nii.gz, .shape.gii"]),
    ],
)
def test_a_mixture_is_refused(filters, words, fmriprep):
    with pytest.raises(ImageError) as error:
        bids_images(fmriprep, **filters)
    assert all(word in str(error.value) for word in words), error.value


def test_values_that_do_not_exist(fmriprep):
    with pytest.raises(
        ImageError, match="no image has space MNI152; the names of the 27 images there"
    ) as error:
        bids_images(fmriprep, space="MNI152")
    assert f"space: {MNI}, none" in str(error.value)
    assert "suffix: T1w, bold, probseg, thickness" in str(error.value)
    assert "sub: 01, 02, 03;" in str(error.value)
    # one of several, and one that no image has together with the others
    with pytest.raises(ImageError, match=r"no image has sub 99 \(with suffix T1w, space none\)"):
        bids_images(fmriprep, suffix="T1w", space="none", subject=["01", "99"])
    with pytest.raises(ImageError, match=r"no image has label GM \(with suffix T1w\)"):
        bids_images(fmriprep, label="GM", suffix="T1w")


def test_what_is_no_dataset(fmriprep, tmp_path):
    with pytest.raises(ImageError, match="no such folder"):
        bids_images(tmp_path / "elsewhere")
    with pytest.raises(
        ImageError, match=r"no dataset_description\.json; near it, there are .*derivatives/fmriprep"
    ):
        bids_images(tmp_path / "bids")
    with pytest.raises(ImageError, match=r"no dataset_description\.json; near it, there are .*/fmriprep$"):
        bids_images(fmriprep / "sub-01")
    with pytest.raises(ImageError, match=r"no folder sub-\.\.\. holds an image"):
        bids_images(dataset(tmp_path / "empty", []))


def test_a_link_to_a_file_that_was_not_fetched(fmriprep):
    file = fmriprep / "sub-02" / "anat" / "sub-02_desc-preproc_T1w.nii.gz"
    file.unlink()
    file.symlink_to("../../.git/annex/objects/nowhere")
    with pytest.raises(ImageError, match=r"sub-02_desc-preproc_T1w.nii.gz: is a link .* \(datalad get\)"):
        bids_images(fmriprep, space="none", suffix="T1w")


def test_a_summary_for_people(fmriprep):
    files = bids_images(fmriprep, suffix="bold")
    assert describe_images(files) == (
        f"6 images of 3 people: task rest, run 1, 2, space {MNI}, desc preproc, suffix bold, "
        "extension .nii.gz"
    )
    assert describe_images(files[:1]).startswith("1 image of 1 person")


def test_the_table_of_participants_may_lie_in_the_dataset_above(fmriprep):
    assert participants_table(fmriprep) is None
    above = fmriprep.parent.parent / "participants.tsv"
    above.touch()
    assert participants_table(fmriprep) == above
    (fmriprep / "participants.tsv").touch()
    assert participants_table(fmriprep) == fmriprep / "participants.tsv"
