"""Tables in another order than the images, and samples that belong together, on the command line."""

import csv
import random

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

SHAPE = (6, 5, 4)
N_PEOPLE = 12
FIT = ("--n-components", "1", "--alpha", "0.1")
SELECT = (*FIT[:2], "--alpha", "0.1", "0.2", "--tol", "1e-3", "--n-bootstraps", "2", "--n-splits", "2")
ORDER = "matched by their order alone"


def save(values, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(np.asarray(values, dtype=np.float32), np.diag([3.0, 3.0, 3.0, 1.0])), file)


def read_tsv(file):
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def scores(file):
    return np.array([float(row["component_1"]) for row in read_tsv(file)])


def write_people(file, order, *, sep="\t"):
    """Age, sex and group of the people, in any order and as often as they stand in it."""
    rows = [
        (f"sub-{person:02d}", str(20 + 7 * person % 45), "FM"[person % 2], "ab"[person % 3 % 2])
        for person in order
    ]
    header = ("participant_id", "age", "sex", "group")
    file.write_text("".join(sep.join(row) + "\n" for row in [header, *rows]))
    return file


@pytest.fixture
def maps(tmp_path):
    """One map of each of twelve people that depends on age, a mask, and the folder."""
    rng = np.random.default_rng(0)
    for person in range(N_PEOPLE):
        values = rng.standard_normal(SHAPE)
        values[1:4, 1:4, 1:3] += 3 * rng.standard_normal()
        values[4:, :, :] += 0.3 * (20 + 7 * person % 45)
        save(values, tmp_path / "maps" / f"sub-{person:02d}_map.nii")
    save(np.ones(SHAPE), tmp_path / "mask.nii")
    return tmp_path


@pytest.fixture
def fit(maps, spca_tv):
    """Fit the maps with more options; what was said, and the results folder."""

    def run(name, *options, images=None):
        folder = maps / name
        given = [maps / "maps"] if images is None else images
        said = spca_tv("fit", *given, "--mask", maps / "mask.nii", *FIT, *options, "--output", folder)
        return said, folder

    return run


@pytest.fixture
def shuffled(maps):
    order = list(range(N_PEOPLE))
    random.Random(1).shuffle(order)
    return write_people(maps / "participants.tsv", [*order, 77, 78])


def test_shuffled_confounds(fit, maps, shuffled, spca_tv):
    """Rows of participants.tsv are found by participant_id, which is no confound itself."""
    ordered = write_people(maps / "ordered.tsv", range(N_PEOPLE))
    said, folder = fit("shuffled", "--confounds", shuffled, "--confounds-columns", "age,sex")
    assert said.code == 0, said.err
    assert (
        f"{shuffled}: rows matched by participant_id; 2 of 14 rows are about others and not used" in said.out
    )
    assert ORDER not in said.err
    _, expected = fit("ordered", "--confounds", ordered, "--confounds-columns", "age,sex")
    mixing = "desc-SPCATV_mixing.tsv"
    assert (folder / mixing).read_text() == (expected / mixing).read_text()
    ages = np.array([20 + 7 * person % 45 for person in range(N_PEOPLE)])
    assert abs(np.corrcoef(ages, scores(folder / mixing))[0, 1]) < 1e-4, "age is removed"
    # without --confounds-columns: all but the ids
    said, everything = fit("all", "--confounds", shuffled)
    assert said.code == 0, said.err
    _, named = fit("named", "--confounds", ordered, "--confounds-columns", "age,sex,group")
    assert (everything / mixing).read_text() == (named / mixing).read_text()
    # new images: another order of the rows, and not all of the people
    some = sorted((maps / "maps").iterdir())[3:6]
    said = spca_tv("transform", folder, *some, "--confounds", shuffled, "--output", maps / "new.tsv")
    assert said.code == 0, said.err
    assert ORDER not in said.err
    assert (
        f"Confounds: {shuffled}: rows matched by participant_id; 11 of 14 rows are about others" in said.out
    )
    assert_allclose(scores(maps / "new.tsv"), scores(folder / mixing)[3:6], atol=1e-4)


def test_scores_state_whom_they_are_about(fit, maps, spca_tv):
    _, folder = fit("out")
    rows = read_tsv(folder / "desc-SPCATV_mixing.tsv")
    assert list(rows[0])[:3] == ["participant_id", "input", "component_1"]
    assert [row["participant_id"] for row in rows] == [f"sub-{person:02d}" for person in range(N_PEOPLE)]
    spca_tv("transform", folder, maps / "maps", "--output", maps / "scores.tsv")
    assert [list(row)[:2] for row in read_tsv(maps / "scores.tsv")] == [
        ["participant_id", "input"]
    ] * N_PEOPLE
    # the table of scores is itself a table of the people: it can be put beside the maps in any order
    table = (maps / "scores.tsv").read_text().splitlines()
    (maps / "back.tsv").write_text("\n".join([table[0], *reversed(table[1:])]) + "\n")
    said, _ = fit("again", "--confounds", maps / "back.tsv", "--confounds-columns", "component_1")
    assert said.code == 0, said.err
    assert "rows matched by input" in said.out


def test_shuffled_groups_and_variable_of_a_report(fit, maps, shuffled, spca_tv, monkeypatch):
    pytest.importorskip("jinja2", reason="reports are made with Jinja2 (extra `report`)")
    pytest.importorskip("matplotlib", reason="reports are made with matplotlib (extra `report`)")
    from spcatv import report

    _, folder = fit("out")
    shown = {}
    make = report.generate_report

    def spy(*arguments, **options):
        shown.update(options)
        return make(*arguments, **options)

    monkeypatch.setattr(report, "generate_report", spy)
    said = spca_tv("report", folder, "--groups", shuffled, "group", "--variable", shuffled, "age")
    assert said.code == 0, said.err
    assert ORDER not in said.err
    for what in ("Groups", "Variable"):
        assert (
            f"{what}: {shuffled}: rows matched by participant_id; 2 of 14 rows are about others" in said.out
        )
    assert list(shown["groups"].values) == ["ab"[person % 3 % 2] for person in range(N_PEOPLE)]
    assert [float(age) for age in shown["variable"].values] == [
        20 + 7 * person % 45 for person in range(N_PEOPLE)
    ]
    short = write_people(maps / "short.tsv", range(4, N_PEOPLE))
    said = spca_tv("report", folder, "--groups", short, "group", "--overwrite")
    assert said.code == 0, said.err
    assert "4 of 12" in said.out
    assert list(shown["groups"].values) == ["n/a"] * 4 + [
        "ab"[person % 3 % 2] for person in range(4, N_PEOPLE)
    ]
    others = write_people(maps / "others.tsv", range(40, 40 + N_PEOPLE))
    said = spca_tv("report", folder, "--groups", others, "group", "--overwrite")
    assert said.code == 2
    assert f"{others}: " in said.err
    assert "sub-40, sub-41" in said.err
    assert "sub-00_map.nii, sub-01_map.nii" in said.err


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            "no row is about sub-03 (rows are found by participant_id)",
        ),
        ([*range(N_PEOPLE), 5], "more than one row is about sub-05 (first rows 6 and 13"),
        (range(40, 40 + N_PEOPLE), "sub-40, sub-41, sub-42, sub-43, sub-44 and 7 more"),
    ],
    ids=["missing", "double", "others"],
)
def test_people_without_a_row_or_with_two(order, message, fit, maps):
    table = write_people(maps / "participants.tsv", order)
    said, folder = fit("out", "--confounds", table, "--confounds-columns", "age")
    assert said.code == 2
    assert said.err == f"spca-tv: error: {table}: {said.err.split(': ', 3)[3]}"
    assert message in said.err
    assert not folder.exists()


@pytest.mark.parametrize("option", ["--confounds", "--groups"])
def test_ids_of_other_people_are_refused(option, maps, spca_tv):
    """Never by order: the table has as many rows as there are images."""
    for number, file in enumerate(sorted((maps / "maps").iterdir())):
        file.rename(file.with_name(f"con_{number:04d}.nii"))
    table = write_people(maps / "participants.tsv", range(40, 40 + N_PEOPLE))
    value = f"{table}:group" if option == "--groups" else table
    options = ("--mask", maps / "mask.nii", *SELECT, "--cv", "2", option, value)
    said = spca_tv("select", maps / "maps", *options, "--output", maps / "out")
    assert said.code == 2
    assert "sub-40" in said.err
    assert "con_0000.nii" in said.err
    assert not (maps / "out").exists()


def test_stems_in_shuffled_order(fit, maps, shuffled):
    _, expected = fit("expected", "--confounds", shuffled, "--confounds-columns", "age")
    for number, file in enumerate(sorted((maps / "maps").iterdir())):
        file.rename(file.with_name(f"con_{number:04d}0001.nii"))
    stems = [
        line.replace("sub-", "con_00", 1).replace("\t", "0001\t", 1)
        for line in shuffled.read_text().splitlines()
    ]
    shuffled.write_text("\n".join([stems[0].replace("0001", ""), *stems[1:]]))
    said, folder = fit("out", "--confounds", shuffled, "--confounds-columns", "age")
    assert said.code == 0, said.err
    assert "rows matched by participant_id" in said.out
    assert_allclose(*(scores(place / "desc-SPCATV_mixing.tsv") for place in (folder, expected)), atol=1e-6)


@pytest.mark.parametrize("name", ["sub-{:02d}_map.nii", "IXI{:03d}-Guys_T1.nii"])
def test_numbers_of_people_are_matched_and_no_confound(name, fit, maps, shuffled):
    """Sheets number people, and the names of files hold these numbers."""
    _, expected = fit("expected", "--confounds", shuffled, "--confounds-columns", "age")
    rows = read_tsv(shuffled)
    lines = [f"{int(row['participant_id'][4:])},{row['age']}\n" for row in rows]
    (maps / "sheet.csv").write_text("ID,age\n" + "".join(lines))
    for number, file in enumerate(sorted((maps / "maps").iterdir())):
        file.rename(file.with_name(name.format(number)))
    said, folder = fit("out", "--confounds", maps / "sheet.csv")
    assert said.code == 0, said.err
    assert "rows matched by ID" in said.err
    assert f"0 is {name.format(0).removesuffix('_map.nii')}" in said.err, "an example"
    assert ORDER not in said.err
    assert "removed: age" in said.out
    mixing = "desc-SPCATV_mixing.tsv"
    assert_allclose(scores(folder / mixing), scores(expected / mixing), atol=1e-6)
    # somebody without a row is named, although there are as many rows as images
    (maps / "sheet.csv").write_text("ID,age\n" + "".join(line for line in lines[1:-1] if line))
    said, _ = fit("other", "--confounds", maps / "sheet.csv")
    assert said.code == 2
    assert "no row is about" in said.err


def test_table_without_names_is_matched_by_order_with_a_warning(fit, maps):
    (maps / "ages.csv").write_text("age\n" + "".join(f"{20 + 7 * n % 45}\n" for n in range(N_PEOPLE)))
    said, _ = fit("out", "--confounds", maps / "ages.csv")
    assert said.code == 0, said.err
    assert f"rows {ORDER}: row 1 is taken for sub-00_map.nii" in said.err
    assert "a column participant_id" in said.err


def test_missing_values_of_other_people_do_not_matter(fit, maps):
    table = write_people(maps / "participants.tsv", range(N_PEOPLE, -1, -1))
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines, "sub-99\tn/a\tn/a\tn/a"]) + "\n")
    said, _ = fit("out", "--confounds", table, "--confounds-columns", "age")
    assert said.code == 0, said.err
    table.write_text("\n".join([line.replace("\t20\t", "\tn/a\t") for line in lines]) + "\n")
    said, _ = fit("gap", "--confounds", table, "--confounds-columns", "age")
    assert said.code == 2
    assert "the value of age in row 13 is missing" in said.err, "the row of the file, not of the image"


@pytest.fixture
def runs(tmp_path):
    """Make 4-D runs whose volumes are alike: named files, four volumes each."""
    save(np.ones(SHAPE), tmp_path / "mask.nii")

    def make(*names, n_volumes=4):
        rng = np.random.default_rng(2)
        patterns = {}
        for name in names:
            person = name.split("_")[0]
            own = patterns.setdefault(person, 2 * rng.standard_normal(SHAPE))
            values = own[..., None] + rng.standard_normal((*SHAPE, n_volumes))
            values[1:4, 1:4, 1:3] += 2 * rng.standard_normal(n_volumes)
            save(values, tmp_path / "runs" / name)
        return tmp_path / "runs"

    return make


def kept_together(monkeypatch):
    """The groups of every resampling and splitting, in the order in which they are made."""
    from spcatv import stability

    seen = []
    original = stability._kept_together

    def spy(n_samples, groups):
        seen.append(groups)
        return original(n_samples, groups)

    monkeypatch.setattr(stability, "_kept_together", spy)
    return seen


def methods_of(folder):
    """The methods paragraph of the report of a results folder."""
    pytest.importorskip("jinja2", reason="reports are made with Jinja2 (extra `report`)")
    pytest.importorskip("matplotlib", reason="reports are made with matplotlib (extra `report`)")
    from spcatv.report.inputs import gather
    from spcatv.report.methods_text import methods_text

    return methods_text(gather(folder), ())


@pytest.mark.parametrize(
    ("names", "labels", "line"),
    [
        (
            [f"sub-{person}_run-{run}_bold.nii" for person in range(5) for run in (1, 2)],
            [f"sub-{person}" for person in range(5) for _ in range(8)],
            "Groups: 40 samples of 5 people; those of one person stay together",
        ),
        (
            [f"scan{number}.nii" for number in range(6)],
            [f"scan{number}.nii" for number in range(6) for _ in range(4)],
            "Groups: 24 samples of 6 files; those of one file stay together",
        ),
    ],
    ids=["people", "files"],
)
def test_volumes_that_belong_together_stay_together(
    names, labels, line, runs, spca_tv, tmp_path, monkeypatch
):
    """In the folds of `select`, its resamples and its halves."""
    from spcatv import SPCATVCV
    from spcatv.images import read_cohort

    folder, seen = runs(*names), kept_together(monkeypatch)
    mask = ("--mask", tmp_path / "mask.nii")
    said = spca_tv("select", folder, *mask, *SELECT, "--cv", "4", "--output", tmp_path / "out")
    assert said.code == 0, said.err
    assert line in said.out
    assert [[label.rsplit("/")[-1] for label in groups] for groups in seen] == [labels, labels]
    cohort = read_cohort(sorted(folder.iterdir()), mask=tmp_path / "mask.nii")
    assert [label.rsplit("/")[-1] for label in cohort.groups] == labels
    search = SPCATVCV(1, structure=cohort.space.structure(), alpha=(0.1, 0.2), cv=4, random_state=0)
    search.set_params(tol=1e-3, standardize=cohort.adjustment.standardize)
    together, torn = (
        search.fit(cohort.X, groups=groups).cv_results_["mean_test_error"] for groups in (labels, None)
    )
    rows = read_tsv(tmp_path / "out" / "desc-SPCATV_selection.tsv")
    assert_array_equal([float(row["mean_test_error"]) for row in rows], together)
    assert not np.allclose(together, torn)
    noun = line.split("of one ")[1].split()[0]
    assert f"halves kept all samples of one {noun} together ({len(set(labels))} in all)." in methods_of(
        tmp_path / "out"
    )


def test_fewer_people_than_folds(runs, spca_tv, tmp_path):
    folder = runs("sub-1_bold.nii", "sub-2_bold.nii", "sub-3_bold.nii")
    options = ("--mask", tmp_path / "mask.nii", *SELECT[:-1], "0")
    said = spca_tv("select", folder, *options, "--output", tmp_path / "out")
    assert said.code == 0, said.err
    assert "on 3 folds" in said.out


def test_groups_of_a_table_count_before_people(runs, spca_tv, tmp_path, monkeypatch):
    """One row of participants.tsv holds for all volumes of a person."""
    names = [f"sub-{person}_bold.nii" for person in range(1, 9)]
    folder, seen = runs(*names, n_volumes=2), kept_together(monkeypatch)
    sites = {person: "abcd"[person % 4] for person in range(1, 9)}
    table = tmp_path / "participants.tsv"
    table.write_text(
        "participant_id\tsite\n" + "".join(f"{p}\t{sites[p]}\n" for p in (3, 1, 8, 7, 5, 6, 2, 4))
    )
    options = ("--mask", tmp_path / "mask.nii", *SELECT, "--cv", "2", "--groups", f"{table}:site")
    said = spca_tv("select", folder, *options, "--output", tmp_path / "out")
    assert said.code == 0, said.err
    assert "samples of one site stay together" in said.out
    assert "rows matched by participant_id" in said.out
    expected = [sites[person] for person in range(1, 9) for _ in range(2)]
    assert [list(groups) for groups in seen] == [expected, expected]
    assert "Folds, resamples and halves kept all samples of one site together (4 in all)." in methods_of(
        tmp_path / "out"
    )


def test_the_halves_of_a_fit_are_reported_to_keep_people_together(runs, spca_tv, tmp_path):
    folder = runs(*(f"sub-{person}_run-{run}_bold.nii" for person in range(6) for run in (1, 2)))
    options = ("--mask", tmp_path / "mask.nii", *FIT, "--n-splits", "2")
    said = spca_tv("fit", folder, *options, "--output", tmp_path / "out")
    assert said.code == 0, said.err
    assert "The halves kept all samples of one person together (6 in all)." in methods_of(tmp_path / "out")


def test_samples_on_their_own_are_not_called_together(maps, spca_tv):
    options = ("--mask", maps / "mask.nii", *SELECT, "--cv", "2")
    said = spca_tv("select", maps / "maps", *options, "--output", maps / "out")
    assert said.code == 0, said.err
    assert "together" not in methods_of(maps / "out")


def test_one_run_alone_is_reported(runs, spca_tv, tmp_path):
    folder = runs("sub-1_bold.nii", n_volumes=12)
    options = ("--mask", tmp_path / "mask.nii", *FIT)
    said = spca_tv("fit", folder, *options, "--output", tmp_path / "out")
    assert said.code == 0, said.err
    assert "sub-1_bold.nii: all 12 samples are volumes of one file and count as separate samples" in said.err
