"""Rows of a table are found by names, by numbers in names, and by order only without id columns."""

import random
from pathlib import Path

import pytest

from spcatv._util.matching import match_rows
from spcatv._util.tables import Table, TableError

NAMES = [f"/data/sub-{number:02d}_map.nii.gz" for number in range(1, 9)]


def table(**columns):
    return Table(Path("/data/t.tsv"), tuple(columns), tuple(zip(*columns.values(), strict=True)))


def refused(given, names, **options):
    with pytest.raises(TableError) as caught:
        match_rows(given, names, **options)
    assert str(caught.value).startswith("/data/t.tsv")
    return str(caught.value)


@pytest.mark.parametrize("column", ["participant_id", "participant", "subject_id", "subject", "sub"])
@pytest.mark.parametrize("form", ["sub-{:02d}", "{:02d}", "{}"])
def test_participants_in_any_order(column, form):
    order = list(range(1, 9))
    random.Random(0).shuffle(order)
    match = match_rows(table(**{column: [form.format(number) for number in order]}), NAMES)
    assert [order[row] for row in match.rows] == list(range(1, 9))
    assert match.columns == (column,)
    assert match.sentence == f"/data/t.tsv: rows matched by {column}"
    assert not match.guessed


def test_leading_zeros_count_where_they_distinguish_people():
    match = match_rows(table(participant_id=["01", "1", "2"]), ["sub-1.nii", "sub-01.nii"])
    assert match.rows == (1, 0)
    assert "sub-01" in refused(table(participant_id=["1", "2"]), ["sub-1.nii", "sub-01.nii"])


def test_one_row_holds_for_all_samples_of_a_person():
    names = ["sub-2_run-1.nii[0]", "sub-2_run-1.nii[1]", "sub-1_run-1.nii", "sub-2_run-2.nii"]
    assert match_rows(table(participant_id=["sub-1", "sub-2"]), names).rows == (1, 1, 0, 1)


@pytest.mark.parametrize(("column", "cells"), [("session_id", "ses-{}"), ("session", "{}"), ("ses", "0{}")])
def test_sessions_and_runs(column, cells):
    names = [f"sub-1_ses-{ses}_run-0{run}.nii" for ses in (1, 2) for run in (1, 2)]
    rows = [(ses, run) for run in (2, 1) for ses in (1, 2)]
    given = table(
        participant_id=["sub-1"] * 4,
        **{column: [cells.format(ses) for ses, _ in rows]},
        run=[str(run) for _, run in rows],
    )
    match = match_rows(given, names)
    assert [rows[row] for row in match.rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert match.columns == ("participant_id", column, "run")
    # names without sessions: the table has several rows for the person
    assert "more than one row is about sub-1_run-01" in refused(given, ["sub-1_run-01.nii"])
    assert "no row is about sub-1_ses-3_run-01 (" in refused(given, [*names, "sub-1_ses-3_run-01.nii"])


def test_people_without_a_row_or_with_two_are_named():
    people = [f"sub-{number:02d}" for number in range(1, 9)]
    assert "no row is about sub-03 (rows are found by participant_id)" in refused(
        table(participant_id=[*people[:2], *people[3:], "sub-99"]), NAMES
    )
    assert "no row is about sub-03, sub-04, sub-05, sub-06, sub-07 and 1 more (" in refused(
        table(participant_id=people[:2]), NAMES
    )
    assert "more than one row is about sub-03 (first rows 3 and 9;" in refused(
        table(participant_id=[*people, "sub-03"]), NAMES
    )
    assert "no row is about sub-01" in refused(table(participant_id=["n/a", *people[1:]]), NAMES)


def test_rows_about_others_are_counted():
    given = table(participant_id=[f"sub-{number:02d}" for number in range(20, 0, -1)])
    match = match_rows(given, NAMES)
    assert match.rows == tuple(range(19, 11, -1))
    assert match.sentence.endswith("; 12 of 20 rows are about others and not used")
    # even two rows about somebody else do no harm
    assert match_rows(table(participant_id=["sub-9", "sub-9", "sub-1"]), NAMES[:1]).rows == (2,)


@pytest.mark.parametrize(
    "cell", ["{}", "elsewhere/{}", "/data/{}", "../data/{}"], ids=["name", "elsewhere", "full", "relative"]
)
@pytest.mark.parametrize("column", ["path", "file", "filename", "image", "input"])
def test_paths_in_any_order(cell, column):
    files = [cell.format(Path(name).name) for name in reversed(NAMES)]
    # participants that say something else do not matter
    match = match_rows(table(participant_id=["sub-1"] * 8, **{column: files}), NAMES)
    assert match.rows == tuple(range(7, -1, -1))
    assert match.columns == (column,)


def test_paths_that_differ_in_the_folder_only():
    names = [f"/data/sub-{number}/map.nii" for number in (1, 2, 3)]
    given = table(path=["sub-2/map.nii", "sub-3/map.nii", "sub-1/map.nii"])
    assert match_rows(given, names).rows == (2, 0, 1)
    assert "map.nii" in refused(table(path=["map.nii"] * 3), names)


def test_paths_of_volumes_pairs_and_named_columns():
    assert match_rows(table(input=["a.nii[1]", "a.nii[0]"]), ["a.nii[0]", "a.nii[1]"]).rows == (1, 0)
    assert match_rows(table(path=["b.nii", "a.nii"]), ["a.nii[0]", "a.nii[1]", "b.nii"]).rows == (1, 1, 0)
    pairs = ["lh.1.gii + rh.1.gii", "lh.2.gii + rh.2.gii"]
    assert match_rows(table(right=["rh.2.gii", "rh.1.gii"]), pairs).rows == (1, 0)
    assert match_rows(table(scan=["b.nii", "a.nii"]), ["a.nii", "b.nii"], path_column="scan").rows == (1, 0)


def test_half_matching_paths_are_an_error():
    assert "no row is about b.nii, c.nii (" in refused(table(path=["a.nii"]), ["a.nii", "b.nii", "c.nii"])
    assert "more than one row is about a.nii" in refused(
        table(path=["x/a.nii", "y/a.nii", "b.nii"]), ["a.nii", "b.nii"]
    )


def test_order_only_without_id_columns():
    names = ["con_1.nii", "con_2.nii", "con_3.nii"]
    match = match_rows(table(age=["1", "2", "3"]), names)
    assert (match.rows, match.columns, match.guessed) == ((0, 1, 2), (), True)
    assert "con_1.nii" in match.sentence
    assert "con_3.nii" in match.sentence
    match = match_rows(table(age=["1"] * 8), NAMES)
    assert match.columns == ()
    assert match.guessed, "the files have names"
    assert "has 2 rows, but there are 3 samples" in refused(table(age=["1", "2"]), names)
    assert "no row is about c.nii" in refused(
        table(participant_id=["1", "2"]), ["sub-1.nii", "sub-2.nii", "c.nii"]
    )


@pytest.mark.parametrize(
    "column", ["participant_id", "subject", "ID", "ID2", "id", "IXI_ID", "path", "input"]
)
@pytest.mark.parametrize(
    "names",
    [NAMES, [f"con_{k:04d}.nii" for k in range(8)], [f"X.npy[{k}]" for k in range(8)]],
    ids=["people", "files", "array"],
)
@pytest.mark.parametrize("partial", [False, True])
def test_ids_of_other_people_are_refused_with_both_lists(column, names, partial):
    said = refused(table(**{column: [f"S{k}" for k in range(8)], "age": ["1"] * 8}), names, partial=partial)
    for shown in (column, "S0", "S1", Path(names[0]).name, Path(names[1]).name):
        assert shown in said


@pytest.mark.parametrize("column", ["participant_id", "ID", "path", "scan", "left"])
@pytest.mark.parametrize("folder", ["", "maps/"])
def test_whole_stems_in_any_order(column, folder):
    """The stems are ids, with or without folders; the column of any name holds them."""
    stems = [f"con_{number:04d}0001" for number in (81, 7, 12, 3)]
    names = [f"/data/maps/{stem}.nii.gz" for stem in sorted(stems)]
    match = match_rows(table(**{column: [folder + stem for stem in stems]}), names)
    assert [stems[row] for row in match.rows] == sorted(stems)
    assert match.columns == (column,)
    assert not match.guessed
    # two files of one stem: the ending tells them apart
    assert "x/a" in refused(table(path=["x/a", "x/b"]), ["x/a.nii", "x/a.mgz"])


def test_samples_without_a_row_count_as_missing_if_they_may():
    people = [f"sub-{number:02d}" for number in range(1, 9)]
    match = match_rows(table(participant_id=people[:1:-1]), NAMES, partial=True)
    assert match.rows == (-1, -1, 5, 4, 3, 2, 1, 0)
    assert match.values("abcdef") == ["n/a", "n/a", *"fedcba"]
    assert "2 of 8" in match.sentence


def test_order_is_no_surprise_where_nothing_has_a_name():
    for names in (["X.npy[0]", "X.npy[1]"], ["image 1", "image 2"]):
        match = match_rows(table(age=["1", "2"]), names)
        assert (match.rows, match.guessed) == ((0, 1), False)
        assert "order" in match.remark


def numbered(numbers, form="/data/IXI{:03d}-Guys-{:04d}_T1.nii.gz"):
    """Names with the number of a person, the number of a scan, and a number that all share."""
    return [form.format(number, 900 - 7 * place) for place, number in enumerate(numbers)]


@pytest.mark.parametrize("column", ["ID", "id", "IXI_ID", "RID", "subject_no", "eid", "SubjectID"])
@pytest.mark.parametrize(
    "form",
    [
        "/data/sub-{:03d}_map.nii.gz",
        "/data/IXI{:03d}-Guys-{:04d}_T1.nii.gz",
        "/d/p{}/con_0001.nii",
        "/d/sub-CTRL{:03d}.nii",
    ],
)
def test_numbers_that_identify_people(column, form):
    order = [7, 2, 31, 12, 5]
    match = match_rows(
        table(age=["50"] * 6, **{column: ["99", *map(str, order)]}), numbered(sorted(order), form)
    )
    assert [[99, *order][row] for row in match.rows] == sorted(order)
    assert match.columns == (column,)
    assert match.guessed
    assert "2 is " in match.sentence, "an example is given"


def test_numbers_that_do_not_identify_all_samples_are_an_error():
    names = numbered([1, 2, 3, 4])
    assert "IXI003" in refused(table(ID=["1", "2", "4", "8"]), names)
    match = match_rows(table(ID=["1", "2", "4", "8"]), names, partial=True)
    assert match.rows == (0, 1, -1, 2)
    # hospital numbers, of which one stands in a name by chance
    assert "3301" in refused(table(ID=["3301", "4", "5817", "6000"]), names, partial=True)


@pytest.mark.parametrize("partial", [False, True])
def test_two_candidate_numbers_are_refused(partial):
    both = [f"p{number}_s{9 - 2 * number}.nii" for number in (1, 2, 3, 4)]
    for ids in (["4", "3", "2", "1"], ["1", "2", "3", "4", "7"]):
        assert "p1_s7.nii" in refused(table(ID=ids), both, partial=partial)
    # two columns that tell different rows
    names = numbered([1, 2, 3], "con_{}.nii")
    assert "con_1.nii" in refused(table(ID=["1", "2", "3"], ID2=["3", "2", "1"]), names, partial=partial)
    assert match_rows(table(ID=["3", "2", "1"], subject=["3", "2", "1"]), names).rows == (2, 1, 0)


def test_volumes_of_one_file_have_no_numbers():
    names = [f"all_3.nii[{k}]" for k in range(3)]
    assert "all_3.nii" in refused(table(ID=["1", "2", "3"]), names)


@pytest.mark.parametrize("column", ["ID2", "ID", "subject"])
def test_numbers_of_the_surfaces_of_micaopen(column):
    """Names hold further numbers; a row of one person is missing, and there are rows of others."""
    numbers = [32074, 32077, 32081, 32083]
    names = ["{0}/{1}_lh2fsaverage5_20.mgh + {0}/{1}_rh2fsaverage5_20.mgh".format("t", n) for n in numbers]
    ids = ["32083", "50001", "32074", "32081"]
    given = table(**{column: ids}, group=["a", "b", "a", "b"], AGE=["9", "8", "7", "6"])
    match = match_rows(given, names, partial=True)
    assert match.values(ids) == ["32074", "n/a", "32081", "32083"]
    assert match.columns == (column,)
    assert "32077" in refused(given, names)
    # a single new image
    assert match_rows(given, names[:1]).rows == (2,)


def test_columns_that_only_look_like_ids():
    names = ["con_1.nii", "con_2.nii", "con_3.nii"]
    for given in ({"site_id": ["1", "1", "2"]}, {"valid": ["1", "3", "2"]}, {"COVID": ["0", "1", "0"]}):
        match = match_rows(table(**given), names)
        assert (match.rows, match.columns) == ((0, 1, 2), ())
