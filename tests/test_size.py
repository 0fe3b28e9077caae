"""The table of `tools/size.py`."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "size.py"
if not SCRIPT.is_file():
    pytest.skip("a source distribution has no tools", allow_module_level=True)


def test_lines_and_files_are_counted_by_folder(tmp_path):
    size = runpy.run_path(str(SCRIPT))
    package = tmp_path / size["PACKAGE"]
    (package / "data" / "deep").mkdir(parents=True)
    (package / "module.py").write_text("1\n2\n3\n")
    (package / "data" / "a.py").write_text("1\n")
    (package / "data" / "deep" / "b.py").write_text("1\n2\n")
    (package / "data" / "c.txt").write_text("1\n")
    now = size["sizes"](size["working_tree"](tmp_path))
    assert now == ({"data/": 3, "module.py": 3}, {"data/": 2, "module.py": 1})
    before = ({"module.py": 1_000}, {"module.py": 1})
    shown = size["table"]([tuple(map(type(now[0]), before)), now], ["then", "now"])
    assert shown.splitlines()[2:] == [
        "| data/ | 0 | 0 | 3 | 2 |",
        "| module.py | 1,000 | 1 | 3 | 1 |",
        "| total | 1,000 | 1 | 6 | 3 |",
    ]
