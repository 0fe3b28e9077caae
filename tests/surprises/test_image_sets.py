"""Sets of images as people have them: what would be wrong or silent is said, with a remedy."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

N_PEOPLE = 12
SHAPE = (6, 5, 4)
SMALL = ("--n-components", "1", "--sparsity", "0.5", "--tol", "1e-3", "--n-splits", "0")


def image(values, affine=None):
    return nib.Nifti1Image(values.astype(np.float32), np.diag([3, 3, 3, 1]) if affine is None else affine)


@pytest.fixture
def people(tmp_path):
    """Maps of twelve people, a mask, and a table of them."""
    rng = np.random.default_rng(0)
    X = 5 + rng.standard_normal((N_PEOPLE, *SHAPE)) + 2 * rng.standard_normal((N_PEOPLE, 1, 1, 1))
    folder = tmp_path / "maps"
    folder.mkdir()
    for number, values in enumerate(X):
        nib.save(image(values), folder / f"sub-{number:02d}_gm.nii")
    nib.save(image(np.ones(SHAPE)), tmp_path / "mask.nii")
    table = tmp_path / "people.tsv"
    rows = [f"sub-{number:02d}\t{20 + 7 * number % 45}\t{'MF'[number % 2]}\t1" for number in range(N_PEOPLE)]
    table.write_text("participant_id\tage\tsex\tone\n" + "\n".join(rows) + "\n")
    return SimpleNamespace(X=X, folder=folder, mask=tmp_path / "mask.nii", table=table, here=tmp_path)


@pytest.fixture
def fit(people, spca_tv):
    def run(*options, images=None, mask=None, output="out"):
        given = (images or people.folder, "--mask", mask or people.mask, "--output", people.here / output)
        return spca_tv("fit", *given, *SMALL, *options)

    return run


def mixing(folder):
    return (folder / "desc-SPCATV_mixing.tsv").read_text()


def test_columns_of_no_table_are_refused(people, fit, spca_tv):
    """They were forgotten without a word, and the confounds stayed in the images."""
    said = fit("--confounds-columns", "age")
    assert said.code == 2
    assert "give the table with --confounds TSV" in said.err
    assert fit().code == 0
    command = ("transform", people.here / "out", people.folder, "--output", people.here / "s.tsv")
    said = spca_tv(*command, "--confounds-columns", "age")
    assert (said.code, "give the table with --confounds TSV" in said.err) == (2, True)


def test_what_is_removed_is_reported_with_its_levels(people, fit):
    said = fit("--confounds", people.table, "--confounds-columns", "age,sex")
    assert said.code == 0, said.err
    assert (
        f"Confounds: {people.table}: rows matched by participant_id; removed: age, sex (F, M)\n" in said.out
    )


def test_confounds_that_remove_nothing_or_nearly_everything(people, fit):
    lines = people.table.read_text().splitlines()
    months = [f"{line}\t{12 * int(line.split(chr(9))[1])}" for line in lines[1:]]
    people.table.write_text("\n".join([f"{lines[0]}\tmonths", *months]) + "\n")
    said = fit("--confounds", people.table)
    assert said.code == 0
    assert "one is the same for all images; months follows from the columns before it" in said.err
    rng = np.random.default_rng(1)
    many = ["\t".join([f"sub-{k:02d}", *map(str, rng.standard_normal(9))]) for k in range(N_PEOPLE)]
    header = "\t".join(["participant_id", *(f"c{k}" for k in range(9))])
    people.table.write_text("\n".join([header, *many]) + "\n")
    said = fit("--confounds", people.table, output="many")
    assert "9 independent columns of confounds for 12 images" in said.err
    assert "2 degrees of freedom are left" in said.err


@pytest.mark.parametrize("column", ["Subject", "PARTICIPANT_ID", "code"])
def test_a_column_of_participants_by_another_name(column, people, fit):
    """In another order: rows must not be taken as they come."""
    expected = fit("--confounds", people.table, "--confounds-columns", "age")
    assert expected.code == 0
    first, *rows = people.table.read_text().splitlines()
    other = people.here / "other.tsv"
    other.write_text("\n".join([first.replace("participant_id", column), *rows[::-1]]) + "\n")
    said = fit("--confounds", other, "--confounds-columns", "age", output="other")
    assert said.code == 0
    assert f"rows matched by {column}" in said.out
    assert mixing(people.here / "other") == mixing(people.here / "out")


def test_tables_of_a_european_spreadsheet(people, fit):
    text = people.table.read_text()
    table = people.here / "people.csv"
    table.write_text(text.replace("\t", ";"), encoding="utf-8-sig", newline="\r\n")
    assert fit("--confounds", people.table, "--confounds-columns", "age,sex").code == 0
    assert fit("--confounds", table, "--confounds-columns", "age,sex", output="csv").code == 0
    assert mixing(people.here / "csv") == mixing(people.here / "out")
    rows = [row.split("\t") for row in text.splitlines()]
    comma = [rows[0], *([who, f"{age},5", *rest] for who, age, *rest in rows[1:])]
    table.write_text("\n".join(";".join(row) for row in comma) + "\n")
    said = fit("--confounds", table, "--confounds-columns", "age", output="comma")
    assert said.code == 2
    assert "numbers of age have a decimal comma (20,5); write them with a point (20.5)" in said.err


def test_a_missing_value_names_the_person(people, fit):
    people.table.write_text(people.table.read_text().replace("sub-03\t41", "sub-03\tn/a"))
    said = fit("--confounds", people.table, "--confounds-columns", "age")
    assert said.code == 2
    assert (
        "the value of age in row 4 is missing (participant_id sub-03); fill it in, or leave out" in said.err
    )


def test_a_broken_link_is_a_missing_person(people, fit):
    os.symlink("/nowhere/sub-99.nii", people.folder / "sub-99_gm.nii")
    said = fit()
    assert said.code == 2
    assert "sub-99_gm.nii (a link to /nowhere/sub-99.nii, which does not exist)" in said.err


def test_files_that_macos_adds_are_no_images(people, fit):
    (people.folder / "._sub-01_gm.nii").write_bytes(b"\0\5\26\7")
    said = fit()
    assert said.code == 0, said.err
    assert "Read 12 images" in said.out


def test_a_mask_that_misses_the_images(people, fit):
    """No advice to leave out the images, which are all alike there."""
    X = people.X.copy()
    X[:, :2] = 0
    for number, values in enumerate(X):
        nib.save(image(values), people.folder / f"sub-{number:02d}_gm.nii")
    mask = np.zeros(SHAPE)
    mask[:2] = 1
    nib.save(image(mask), people.mask)
    said = fit()
    assert said.code == 2
    assert (
        "40 have the same value in all 12 images; check that the images differ, and that the mask" in said.err
    )
    assert "would count twice" not in said.err


def without_orientation(X, folder):
    folder.mkdir()
    for number, values in enumerate(X):
        found = image(values)
        found.set_sform(None, 0)
        found.set_qform(None, 0)
        nib.save(found, folder / f"sub-{number:02d}_gm.nii")
    return folder


def test_files_that_do_not_state_where_left_is(people, fit, tmp_path):
    folder = without_orientation(people.X, tmp_path / "unknown")
    said = fit("--resample", images=folder)
    assert said.code == 0, said.err
    assert "left and right are guessed" in said.err
    assert "left and right are guessed" not in fit(output="known").err
    analyze = tmp_path / "analyze"
    analyze.mkdir()
    for number, values in enumerate(people.X):
        nib.save(nib.AnalyzeImage(values.astype(np.float32), np.eye(4)), analyze / f"sub-{number:02d}.img")
    said = fit("--resample", images=analyze, output="from-analyze")
    assert "left and right are guessed" in said.err


def test_a_report_does_not_name_sides_that_are_a_guess(people, fit, spca_tv):
    pytest.importorskip("jinja2", reason="reports need the extra `report`")
    for images, guess in ((without_orientation(people.X, people.here / "unknown"), True), (None, False)):
        folder = people.here / f"guess-{guess}"
        assert fit(images=images, mask="nonzero", output=folder.name).code == 0
        assert spca_tv("report", folder).code == 0
        page = (folder / "desc-SPCATV_report.html").read_text(encoding="utf-8")
        assert ("Left and right are a guess" in page) is guess
        assert ("Left is left" in page) is not guess


def test_a_guess_from_analyze_files_stays_one(people, fit, spca_tv):
    """The origin in the header of SPM's files is known, and the maps keep it; the sides are not."""
    pytest.importorskip("jinja2", reason="reports need the extra `report`")
    analyze = people.here / "analyze"
    analyze.mkdir()
    for number, values in enumerate(people.X):
        found = nib.Spm99AnalyzeImage(values.astype(np.float32), None)
        found.header.set_origin_from_affine(nib.affines.from_matvec(np.diag([-2.0, 2, 2]), [9, -7, -5]))
        found.to_filename(analyze / f"sub-{number:02d}.img")
        (analyze / f"sub-{number:02d}.mat").unlink(missing_ok=True)
    assert fit(images=analyze, mask="nonzero", output="guessed").code == 0
    assert spca_tv("report", people.here / "guessed").code == 0
    page = (people.here / "guessed" / "desc-SPCATV_report.html").read_text(encoding="utf-8")
    assert "Left and right are a guess" in page
    assert "Left is left" not in page
    maps = nib.load(people.here / "guessed" / "desc-SPCATV_components.nii.gz")
    np.testing.assert_allclose(maps.affine, nib.load(analyze / "sub-00.img").affine)
    assert maps.affine[0, 3] != 0


def test_people_as_volumes_of_one_file(people, fit):
    nib.save(image(np.moveaxis(people.X, 0, -1)), people.here / "all.nii")
    said = fit(images=people.here / "all.nii")
    assert said.code == 0, said.err
    assert "the image is a run of several volumes" in said.err
    assert "--no-standardize-runs leaves the values as they are" in said.err
    assert "Read 1 image, 12 volumes" in said.out


def test_new_images_of_another_unit_or_blank(people, fit, spca_tv):
    assert fit().code == 0
    new = people.here / "new"
    new.mkdir()
    nib.save(image(people.X[0]), new / "sub-00_gm.nii")
    nib.save(image(1000 * people.X[1]), new / "sub-01_gm.nii")
    nib.save(image(5 + 0 * people.X[2]), new / "sub-02_gm.nii")
    said = spca_tv("transform", people.here / "out", new, "--output", people.here / "s.tsv")
    assert said.code == 0, said.err
    assert "1 of 3 images lies far from the mean of the fit: " in said.err
    assert "sub-01_gm.nii (" in said.err
    assert "sub-02_gm.nii (5): the same value in all 120 voxels of the model" in said.err
    said = spca_tv("transform", people.here / "out", people.folder, "--output", people.here / "same.tsv")
    assert (said.code, said.err) == (0, ""), "nothing is said of the images of the fit"


def test_fit_and_select_read_each_others_configurations(people, fit, spca_tv):
    assert fit().code == 0
    quick = ("--cv", "2", "--n-bootstraps", "0")
    config = "desc-SPCATV_config.toml"
    said = spca_tv("select", "--config", people.here / "out" / config, *quick, "--output", people.here / "s")
    assert said.code == 0, said.err
    assert "One setting, sparsity=0.5, smoothness=1, on 2 folds: there was nothing to choose from" in said.out
    said = spca_tv("fit", "--config", people.here / "s" / config, "--output", people.here / "again")
    assert said.code == 2
    assert "'cv' is not an option of spca-tv fit" in said.err


@pytest.mark.parametrize(("option", "column"), [("--variable", "age"), ("--groups", "sex")])
def test_a_report_on_what_was_removed_reports_it(option, column, people, fit, spca_tv):
    """Without it, "p = 1" reads like a finding; a column of text has another name once it is coded."""
    pytest.importorskip("jinja2", reason="reports need the extra `report`")
    assert fit("--confounds", people.table, "--confounds-columns", "age,sex").code == 0
    said = spca_tv("report", people.here / "out", option, people.table, column)
    assert said.code == 0, said.err
    page = (people.here / "out" / "desc-SPCATV_report.html").read_text(encoding="utf-8")
    # in the section, and beside the component
    assert page.count(f"{column} was regressed out of the images before the fit") == 2
