"""The walk in CONTRIBUTING is the one that data take: every station runs, and nothing else but tools."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spcatv

SOURCE = Path(spcatv.__file__).parent
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
MOST_STATIONS = 40
# lists the files of the package whose functions are called by the two commands
TRACER = """
import sys, threading
from pathlib import Path
import spcatv.cli.fit, spcatv.cli.report, spcatv.images, spcatv.report
from spcatv.cli import main

source, folder = sys.argv[1:]
found = set()

def look(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source) and code.co_name != "<module>":
        found.add(Path(code.co_filename).relative_to(source).as_posix())

threading.setprofile(look)
sys.setprofile(look)
results = folder + "/results"
codes = [
    main(["fit", folder + "/maps/*.nii.gz", "--n-components", "1", "--output", results, "--quiet"]),
    main(["report", results, "--quiet"]),
]
sys.setprofile(None)
assert codes == [0, 0]
print("\\n".join(sorted(found)))
"""


@pytest.fixture(scope="module")
def text():
    section = CONTRIBUTING.read_text(encoding="utf-8").split("## A walk through the house\n")[1]
    return section.split("\n## ")[0]


@pytest.fixture(scope="module")
def stations(text):
    return re.findall(r"^\d+\. `([^`]+)`: \S", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
    pytest.importorskip("jinja2", reason="reports are made with Jinja2 (extra `report`)")
    folder = tmp_path_factory.mktemp("walk")
    (folder / "maps").mkdir()
    rng = np.random.default_rng(0)
    for number in range(8):
        values = 5 + rng.standard_normal((8, 7, 6)).astype(np.float32)
        values[2:5, 2:5, 1:4] += 3 * rng.standard_normal()
        nib.save(nib.Nifti1Image(values, np.eye(4)), folder / "maps" / f"{number}.nii.gz")
    command = [sys.executable, "-W", "ignore", "-c", TRACER, str(SOURCE), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_few_stations_and_none_twice(text, stations):
    assert len(stations) == len(re.findall(r"^\d+\. ", text, flags=re.MULTILINE)) <= MOST_STATIONS
    assert len(set(stations)) == len(stations)
    assert [name for name in stations if not (SOURCE / name).is_file()] == []


def test_every_station_is_visited(stations, visited):
    assert [name for name in stations if name not in visited] == []


def test_whatever_else_runs_is_named_as_a_tool(text, stations, visited):
    tools = re.findall(r"`([^`]+(?:/|\.py))`", text.split("These stations use tools")[1])
    assert [name for name in tools if not (SOURCE / name).exists()] == []
    others = sorted(visited - set(stations))
    assert [name for name in others if not name.startswith(tuple(tools))] == []
