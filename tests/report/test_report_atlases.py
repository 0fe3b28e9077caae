"""Atlases by name, names of labels in XML files, and probabilistic atlases; nothing is ever downloaded."""

import gzip
import socket

import numpy as np
import pytest

from spcatv.report import ReportError
from spcatv.report.atlas import label_features
from spcatv.report.atlas_names import names_beside, read_names
from spcatv.report.atlas_search import find_atlas, is_name
from spcatv.report.clusters import parts_of

nib = pytest.importorskip("nibabel", reason="atlases are read with nibabel (extra `images`)")

FSL_XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<atlas version="1.0"><header><name>{title}</name><shortname>{short}</shortname><type>{type}</type>
<images><imagefile>/{stem}-prob-2mm</imagefile><summaryimagefile>/{stem}-maxprob-thr25-2mm</summaryimagefile></images>
</header><data>
<label index="0" x="1" y="2" z="3">Left &amp; low</label>
<label index="1" x="1" y="2" z="3">Right</label>
</data></atlas>
"""
AAL_XML = """<atlas><data><label><index>2001</index><name>Precentral_L</name></label>
<label><index>2002</index><name>Precentral_R</name></label></data></atlas>"""
AFFINE = np.array([[5.0, 0, 0, -90], [0, 5, 0, -126], [0, 0, 5, -72], [0, 0, 0, 1]])
SHAPE = (37, 44, 37)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """A machine without atlases, whose network fails."""

    def refuse(*arguments, **options):
        raise AssertionError("an atlas was looked for on the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for name in ("FSLDIR", "SUBJECTS_DIR", "FREESURFER_HOME", "NILEARN_SHARED_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NILEARN_DATA", str(tmp_path / "nilearn_data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def halves():
    """1 on the left, 2 on the right."""
    x = np.indices(SHAPE)[0] * 5.0 - 90
    return np.where(x < 0, 1, 2).astype(np.uint8)


def save(labels, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(labels, AFFINE), file)
    return file


def write_fsl(folder, stem="Halves/Halves-cort", title="Two Halves", short="HALF", kind="Probabilistic"):
    """An atlas as FSL has it: an XML file, and a maximum-probability image in a folder below."""
    image = save(halves(), folder / f"{stem}-maxprob-thr25-2mm.nii.gz")
    text = FSL_XML.format(title=title, short=short, type=kind, stem=stem)
    (folder / "Halves-Cortical.xml").write_text(text, encoding="ISO-8859-1")
    return image


def sides(named, part):
    """The names at features on the left and on the right."""
    x = part.coords[:, 0]
    return tuple({named.name_of(int(k)) for k in np.flatnonzero(side)[::50]} for side in (x < -4, x > 4))


def test_xml_of_fsl_counts_from_zero_but_its_voxels_from_one(tmp_path):
    write_fsl(tmp_path)
    assert read_names(tmp_path / "Halves-Cortical.xml") == {1: "Left & low", 2: "Right"}
    write_fsl(tmp_path, kind="Label")
    assert read_names(tmp_path / "Halves-Cortical.xml") == {0: "Left & low", 1: "Right"}
    (tmp_path / "AAL.xml").write_text(AAL_XML, encoding="utf-8")
    assert read_names(tmp_path / "AAL.xml") == {2001: "Precentral_L", 2002: "Precentral_R"}
    for text, match in (
        ("<atlas/>", "has no labels"),
        ("no xml", r"AAL\.xml: cannot be read as an XML list"),
    ):
        (tmp_path / "AAL.xml").write_text(text, encoding="utf-8")
        with pytest.raises(ReportError, match=match):
            read_names(tmp_path / "AAL.xml")


def test_names_are_found_beside_the_image(volume, tmp_path):
    image = write_fsl(tmp_path)
    other = save(halves(), image.with_name("Halves-cort-maxprob-thr50-1mm.nii.gz"))
    stranger = save(halves(), image.with_name("Other-cort-maxprob-thr50-1mm.nii.gz"))
    assert names_beside(image) == names_beside(other) == {1: "Left & low", 2: "Right"}
    assert names_beside(stranger) == {}
    part = parts_of(volume.model)[0]
    assert sides(label_features([part], [image]), part) == ({"Left & low"}, {"Right"})
    (image.parent / "Halves-cort-maxprob-thr25-2mm.tsv").write_text("index\tname\n1\tL\n", encoding="utf-8")
    assert sides(label_features([part], [image]), part) == ({"L"}, {"label 2"})
    (tmp_path / "own.csv").write_text("index,name\n1,own\n2,other\n", encoding="utf-8")
    named = label_features([part], [image], table=tmp_path / "own.csv")
    assert sides(named, part) == ({"own"}, {"other"}), "what is given counts first"


@pytest.mark.parametrize("name", ["Halves-Cortical", "halves cortical", "Two Halves", "HALF", "cortical"])
def test_atlases_of_fsl_by_name(volume, tmp_path, monkeypatch, name):
    write_fsl(tmp_path / "data" / "atlases")
    monkeypatch.setenv("FSLDIR", str(tmp_path))
    part = parts_of(volume.model)[0]
    assert sides(label_features([part], [name]), part) == ({"Left & low"}, {"Right"})


def test_atlases_that_nilearn_has_downloaded(volume, tmp_path):
    folder = tmp_path / "nilearn_data"
    write_fsl(folder / "fsl" / "data" / "atlases")
    save(2000 + halves().astype(np.int16), folder / "aal_SPM12" / "aal" / "atlas" / "AAL.nii")
    (folder / "aal_SPM12" / "aal" / "atlas" / "AAL.xml").write_text(AAL_XML, encoding="utf-8")
    for n_networks in (7, 17):
        stem = f"Schaefer2018_100Parcels_{n_networks}Networks_order"
        save(halves(), folder / "schaefer_2018" / f"{stem}_FSLMNI152_2mm.nii.gz")
        lines = (
            f"1\t{n_networks}Networks_LH_Vis_1\t1\t2\t3\t0\n2\t{n_networks}Networks_RH_Vis_1\t1\t2\t3\t0\n"
        )
        (folder / "schaefer_2018" / f"{stem}.txt").write_text(lines, encoding="utf-8")
    part = parts_of(volume.model)[0]
    assert sides(label_features([part], ["aal"]), part) == ({"Precentral_L"}, {"Precentral_R"})
    named = label_features([part], ["schaefer2018_100parcels_17"])
    assert sides(named, part) == ({"17Networks_LH_Vis_1"}, {"17Networks_RH_Vis_1"})
    assert find_atlas("halves", voxels=True, n_vertices=0).names.name == "Halves-Cortical.xml"
    with pytest.raises(
        ReportError, match=r"several atlases are called 'schaefer': Schaefer2018_100Parcels_17Networks"
    ):
        label_features([part], ["schaefer"])


def test_atlases_of_freesurfer_by_name(surface, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBJECTS_DIR", str(tmp_path))
    parts = parts_of(surface.model)
    colours = np.array([[1, 2, 3, 0, 0], [9, 8, 7, 0, 0]])
    for subject, size in (("fsaverage4", 2562), ("fsaverage5", 10242), ("fsaverage", 163842)):
        folder = tmp_path / subject / "label"
        folder.mkdir(parents=True)
        for side in ("lh", "rh"):
            labels = np.arange(size) % 2
            names = [f"{subject}-{side}-even", f"{subject}-{side}-odd"]
            nib.freesurfer.write_annot(folder / f"{side}.aparc.annot", labels, colours, names, fill_ctab=True)
    named = label_features(parts, ["aparc"])
    assert named.name_of(parts[1].start + 1) == "fsaverage5-rh-odd", "the coarsest mesh that is fine enough"
    assert label_features(parts, ["fsaverage aparc"]).name_of(0) == "fsaverage-lh-even"
    assert label_features(parts[:1], ["aparc"]).name_of(0) == "fsaverage5-lh-even", "left alone"
    with pytest.raises(ReportError, match="There are: aparc"):
        label_features(parts, ["aal"])


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_damaged_atlas_is_refused(volume, tmp_path, shape):
    image = nib.Nifti1Image(np.ones((*SHAPE, *shape), np.uint8), AFFINE)
    content = bytearray(gzip.compress(image.to_bytes(), 0))
    content[len(content) // 2] ^= 1
    (tmp_path / "atlas.nii.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"atlas\.nii\.gz: cannot be read"):
        label_features(parts_of(volume.model), [tmp_path / "atlas.nii.gz"])


def test_an_unknown_name_says_where_it_was_looked_for(volume, line, tmp_path):
    with pytest.raises(ReportError) as error:
        label_features(parts_of(volume.model), ["aal"])
    message = str(error.value)
    assert "\n" not in message
    for text in (
        "'aal'",
        str(tmp_path / "nilearn_data"),
        "FSLDIR is not set",
        "SUBJECTS_DIR",
        "Nothing is downloaded",
    ):
        assert text in message
    with pytest.raises(ReportError, match="this model has neither"):
        label_features(parts_of(line.model), ["aal"])


def test_files_are_no_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "aal").write_text("", encoding="utf-8")
    assert [is_name(text) for text in ("aal", "aal2", "aal.nii", "x/aal2", "lh.annot")] == [
        False,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_probabilistic_atlases_by_their_maximum(volume, tmp_path, scale):
    x = np.indices(SHAPE)[0] * 5.0 - 90
    left = np.where(x < -30, 0.2, np.where(x < 0, 0.9, 0.1))
    both = np.stack([left, 0.8 - 0.5 * (x < 0)], axis=3)
    both[x < -30] = 0.2
    image = save((scale * both).astype(np.float32), tmp_path / "prob-2mm.nii.gz")
    (tmp_path / "prob-2mm.csv").write_text("index,name\n1,Left\n2,Right\n", encoding="utf-8")
    part = parts_of(volume.model)[0]
    named = label_features([part], [image])
    for feature in range(0, len(part.coords), 31):
        place = part.coords[feature, 0]
        if min(abs(place), abs(place + 30)) > 4:
            expected = "" if place < -30 else "Left" if place < 0 else "Right"
            assert named.name_of(feature) == expected
