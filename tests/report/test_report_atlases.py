"""Names of labels in XML files, and damaged atlases."""

import gzip

import numpy as np
import pytest

from spcatv.report import ReportError
from spcatv.report.regions import label_features, parts_of, read_names

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
    return tuple(set(named[side]) for side in (x < -4, x > 4))


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


def test_names_from_a_file(volume, tmp_path):
    image = write_fsl(tmp_path)
    part = parts_of(volume.model)[0]
    assert sides(label_features([part], [image]), part) == ({"label 1"}, {"label 2"})
    xml = tmp_path / "Halves-Cortical.xml"
    assert sides(label_features([part], [image], table=xml), part) == ({"Left & low"}, {"Right"})
    (tmp_path / "own.csv").write_text("index,name\n1,own\n", encoding="utf-8")
    named = label_features([part], [image], table=tmp_path / "own.csv")
    assert sides(named, part) == ({"own"}, {"label 2"})


def test_a_damaged_atlas_is_refused(volume, tmp_path):
    image = nib.Nifti1Image(np.ones(SHAPE, np.uint8), AFFINE)
    content = bytearray(gzip.compress(image.to_bytes(), 0))
    content[len(content) // 2] ^= 1
    (tmp_path / "atlas.nii.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"atlas\.nii\.gz: cannot be read"):
        label_features(parts_of(volume.model), [tmp_path / "atlas.nii.gz"])
