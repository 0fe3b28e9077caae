"""From names to files: patterns, folders, lists and tables."""

import re
from pathlib import Path

import numpy as np
import pytest

from spcatv._util.tables import TableError, read_table
from spcatv.cli.inputs import sample_files
from spcatv.cli.parser import InputError
from spcatv.results.write import table_text


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    for name in ("a/2.nii.gz", "a/1.nii", "a/notes.txt", "a/10.MGZ", "left.gii", "right.gii", "odd[1].nii"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def found(*sources, path_column=None):
    rows = sample_files(sources, path_column=path_column)
    return [str(row[0]) if len(row) == 1 else tuple(map(str, row)) for row in rows]


def test_order_is_that_of_the_command_line_and_sorted_inside(here):
    assert found("left.gii", "a") == ["left.gii", "a/1.nii", "a/10.MGZ", "a/2.nii.gz"]
    assert found("a/*.nii*", "left.gii") == ["a/1.nii", "a/2.nii.gz", "left.gii"]
    assert found("**/*.nii.gz") == ["a/2.nii.gz"]


def test_a_file_whose_name_looks_like_a_pattern(here):
    assert found("odd[1].nii") == ["odd[1].nii"]


def test_list_is_relative_to_itself_and_may_hold_patterns(here):
    (here / "a" / "list.txt").write_text("# two\n\n2.nii.gz\n  1.*  \n../left.gii\n", encoding="utf-8-sig")
    assert found("a/list.txt") == ["a/2.nii.gz", "a/1.nii", "a/../left.gii"]


def test_tables(here):
    (here / "t.tsv").write_text("participant_id\tfile\nsub-2\ta/2.nii.gz\nsub-1\ta/1.nii\n")
    assert found("t.tsv") == ["a/2.nii.gz", "a/1.nii"]
    (here / "t.csv").write_text('where,"what, if any"\na/1.nii,x\n')
    assert found("t.csv", path_column="where") == ["a/1.nii"]
    (here / "pairs.tsv").write_text("left\tright\nleft.gii\tright.gii\n")
    assert found("pairs.tsv") == [("left.gii", "right.gii")]


def test_pairs_stay_pairs(here):
    assert sample_files([("left.gii", "right.gii")], path_column=None) == (
        (Path("left.gii"), Path("right.gii")),
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\tage\n1\t2\n", r"t\.tsv has no column of paths .* name one of id, age with --path-column"),
        ("path\n", r"t\.tsv has a header but no row"),
        ("path\tid\n\t1\n", r"t\.tsv: the path in row 1 is missing"),
        ("path\nno.nii\n", r"no such file: no\.nii"),
        ("path\tpath\na\tb\n", "a column name stands twice"),
        ("path\tid\na\n", r"row 1 has 1 cells, the header has 2 \(columns are separated by tabs\)"),
    ],
)
def test_wrong_tables(content, message, here):
    (here / "t.tsv").write_text(content)
    with pytest.raises((InputError, TableError), match=message):
        found("t.tsv")


def test_wrong_names(here):
    (here / "empty").mkdir()
    (here / "empty.txt").write_text("# nothing\n")
    (here / "bytes.txt").write_bytes(b"\xff\xfe\xff")
    for source, message in {
        "no.nii": "no such file: no.nii",
        "*.mgh": r"no file matches '\*\.mgh'",
        "empty": "the folder empty holds no image",
        "empty.txt": "the list empty.txt is empty",
        "bytes.txt": "not a text file in UTF-8",
        "x" * 300: "no such file",
    }.items():
        with pytest.raises(InputError, match=message):
            found(source)
    with pytest.raises(InputError, match=r"a/1\.nii is given twice"):
        found("a", "a/1.nii")
    with pytest.raises(InputError, match="no input"):
        found()
    (here / "t.tsv").write_text("path\na/1.nii\n")
    with pytest.raises(TableError, match="has no column 'x'; it has path"):
        found("t.tsv", path_column="x")


def test_columns_of_a_table(here):
    (here / "c.tsv").write_text("path\tage\tiq\tsex\nx\t1\t-2e1\tF\ny\t 3 \t4\tM\n")
    table = read_table(Path("c.tsv"))
    assert table.values("age", (0, 1)) == [1, 3]
    assert table.values("iq", (1, 0)) == [4, -20]
    assert table.values("sex", (1, 1, 0)) == ["M", "M", "F"]


def test_tables_keep_every_digit():
    values = [1 / 3, np.float64(2 / 3), np.float32(1 / 3), True, None, "a\tb", 7]
    lines = table_text({"v": values}).splitlines()
    assert float(lines[1]) == 1 / 3
    assert float(lines[2]) == 2 / 3
    assert np.float32(lines[3]) == np.float32(1 / 3)
    assert lines[4:] == ["true", "n/a", '"a\tb"', "7"]


def test_an_error_about_a_folder_does_not_search_all_of_it(tmp_path, monkeypatch):
    """The folder may be the home folder, with millions of files."""

    def entries(folder, pattern):
        for number in range(100_000):
            yield folder / f"{number}.txt"
        raise AssertionError("the whole folder was listed")

    monkeypatch.setattr(Path, "rglob", entries)
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        sample_files([str(tmp_path)], path_column=None)
