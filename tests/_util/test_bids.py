"""BIDS entities of the names of samples, and which samples belong together."""

import numpy as np
import pytest

from spcatv._util.bids import (
    dates_of,
    entities_of,
    entity_columns,
    files_of,
    group_noun,
    natural_groups,
    sample_labels,
    samples_of_one_file,
)


@pytest.mark.parametrize(
    ("name", "entities"),
    [
        ("sub-01_map.nii.gz", {"sub": "01"}),
        ("/d/sub-01_ses-2_task-x_run-3_bold.nii.gz[17]", {"sub": "01", "ses": "2", "task": "x", "run": "3"}),
        ("/data/sub-01/ses-b/anat/T1w.nii", {"sub": "01", "ses": "b"}),
        ("sub-02/sub-01_map.nii", {"sub": "01"}),  # the file counts before its folder
        ("sub-a-7_map.nii", {"sub": "a-7"}),
        ("sub-3_hemi-L_t.gii + sub-3_hemi-R_t.gii", {"sub": "3"}),
        ("subjects/sub-4/surf/lh.thickness.mgh + subjects/sub-4/surf/rh.thickness.mgh[0]", {"sub": "4"}),
        ("t/32074_lh2fsaverage5_20.mgh + t/32074_rh2fsaverage5_20.mgh", {"sub": "32074"}),  # SurfStat
        ("C:\\data\\sub-5\\map.nii", {"sub": "5"}),
        ("con_0001.img", {}),
        ("image 3", {}),
        ("T1w-brain_01.nii", {}),
        ("sub-.nii", {}),
    ],
)  # fmt: skip
def test_entities(name, entities):
    assert entities_of(name) == entities


def test_files_of_a_sample():
    assert files_of("a[1].nii[12]") == ["a[1].nii"]
    assert files_of("l.gii + r.gii[0]") == ["l.gii", "r.gii"]
    assert samples_of_one_file(["a.nii[0]", "a.nii[1]"])
    assert not samples_of_one_file(["a.nii"])
    assert not samples_of_one_file(["a.nii[0]", "b.nii[0]"])


def test_columns_of_a_table():
    names = ["sub-01_ses-1_task-x_run-1.nii", "sub-01_ses-1_task-x_run-2.nii", "sub-02_task-x_run-1.nii"]
    assert entity_columns(names) == {
        "participant_id": ["sub-01", "sub-01", "sub-02"],
        "session_id": ["ses-1", "ses-1", None],
        "run": ["1", "2", "1"],
    }
    assert entity_columns(["sub-1_task-x.nii", "sub-1_task-y.nii"]) == {
        "participant_id": ["sub-1", "sub-1"],
        "task": ["x", "y"],
    }
    assert entity_columns(["a.nii", "b.nii"]) == {}


def test_labels_of_samples_differ():
    assert sample_labels(["a/sub-1_x.nii", "a/sub-2_x.nii"]) == ("participant_id", ["sub-1", "sub-2"])
    assert sample_labels(["a/sub-1_x.nii", "a/c.nii[0]"]) == ("input", ["sub-1_x.nii", "c.nii[0]"])
    assert sample_labels(["a/lh.x + a/rh.x", "b/lh.x + b/rh.x"])[1] == ["a/lh.x + a/rh.x", "b/lh.x + b/rh.x"]


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["sub-1_a.nii", "sub-1_b.nii", "sub-2.nii"], ("sub-1", "sub-1", "sub-2")),
        (["sub-1.nii[0]", "sub-1.nii[1]", "x.nii"], ("sub-1.nii", "sub-1.nii", "x.nii")),
        (["sub-1.nii", "sub-2.nii"], None),
        (["a.nii", "b.nii"], None),
        (["sub-1.nii[0]", "sub-1.nii[1]"], None),
        (["l.gii + r.gii[0]", "l.gii + r.gii[1]", "m + s"], ("l.gii + r.gii", "l.gii + r.gii", "m + s")),
        # one person: the runs are the groups
        (["sub-1_a.nii[0]", "sub-1_a.nii[1]", "sub-1_b.nii"], ("sub-1_a.nii", "sub-1_a.nii", "sub-1_b.nii")),
        (["sub-1_run-1.nii", "sub-1_run-2.nii"], None),
        # two folders, one name
        (["sub-1/m.nii", "sub-2/m.nii", "sub-2/n.nii"], ("sub-1", "sub-2", "sub-2")),
    ],
)  # fmt: skip
def test_samples_that_belong_together(names, groups):
    assert natural_groups(names) == groups


def test_samples_of_a_field_belong_together_by_year():
    months = [f"sst.nc[{1990 + n // 12}-{n % 12 + 1:02d}-01, a]" for n in range(72)]
    years = natural_groups(months)
    assert years[:13] == ("1990",) * 12 + ("1991",)
    assert group_noun(months, years) == "year"
    assert natural_groups(months[:60]) is None  # five years have fewer than ten different halves
    assert natural_groups(months[::12]) is None  # one sample of every year


def test_dates_of_samples_without_any_other_name():
    for names in (["sst.nc[1990-01-01]", "sst.nc[1990-02-01]"], ["1990-01-01", "1990-02-01T06:00:00"]):
        assert dates_of(names)[0] == np.datetime64("1990-01-01")
    for names in (["a[1990-01-01, 1]", "a[1990-02-01, 1]"], ["1990-01-01"] * 2, ["sub-1.nii", "sub-2.nii"]):
        assert dates_of(names) is None
