"""Results folders follow BIDS: names, sidecars, description; and the validator agrees, if there is one."""

import fnmatch
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_files import read_tsv
from stand_ins import write_surfaces, write_volumes

from spcatv._util.bids import ENTITIES
from spcatv.cli import main
from spcatv.results.layout import REPORT

pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

# files at the top of a dataset for which BIDS has rules
CORE = ("dataset_description.json", "README.md", ".bidsignore")
NAME = re.compile(r"((?:[a-z]+-[a-zA-Z0-9]+_)*)([a-zA-Z0-9]+)((?:\.[a-zA-Z0-9]+)+)")
QUICK = (
    *("--sparsity", "0.5", "0.7", "--smoothness", "1", "--cv", "2"),
    *("--n-bootstraps", "2", "--n-splits", "1"),
)
WITH_PYTHON = Path(sys.executable).with_name("bids-validator-deno")
VALIDATOR = shutil.which(WITH_PYTHON) or shutil.which(WITH_PYTHON.name)


@pytest.fixture(scope="module", params=["volumes", "surfaces"])
def results(request, tmp_path_factory):
    """The results of `select`, which writes all that `fit` writes."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "volumes":
        write_volumes(folder, "maps/sub-{:02d}_map.nii.gz")
        number = ("--n-components", "auto", "--max-components", "2")
        given = [folder / "maps", "--mask", folder / "gm_mask.nii.gz", *number]
    else:
        write_surfaces(folder)
        meshes = ("--surface", folder / "lh.white", folder / "rh.white")
        given = [*sorted(folder.glob("s*/?h.thickness")), *meshes, "--n-components", "2"]
    argv = ["select", *given, *QUICK, "--quiet", "--output", folder / "out"]
    assert main(list(map(str, argv))) == 0
    return folder / "out"


def test_the_readme_lists_every_file(results):
    text = (results / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`([^` ]+)`", text))
    names = {file.name for file in results.iterdir()} - {"README.md"}
    assert {name for name in names if not name.endswith(".json") or name == CORE[0]} <= listed
    sidecars = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    assert all(any(stem in name for name in listed) for stem in sidecars)
    assert listed <= names | {REPORT, ".json"}
    assert "spca-tv select --config" in text


def test_names_and_sidecars(results):
    ignored = [line for line in (results / ".bidsignore").read_text().splitlines() if line[0] != "#"]
    names = {file.name for file in results.iterdir()} | {REPORT}
    assert set(CORE) < names
    for name in names - set(CORE):
        assert any(fnmatch.fnmatch(name, pattern) for pattern in ignored), name
    for name in names - {*CORE, "model", "stability.npz"}:
        entities, suffix, extension = NAME.fullmatch(name).groups()
        keys = [entity.split("-")[0] for entity in entities.split("_")[:-1]]
        assert "desc" in keys, name
        assert keys == [key for key in ENTITIES if key in keys], f"{name}: entities are out of order"
        if extension in (".tsv", ".nii.gz", ".func.gii"):
            stem = "".join(part for part in re.findall("[^_]+_", entities) if not part.startswith("hemi-"))
            sidecar = json.loads((results / f"{stem}{suffix}.json").read_text())
            assert "Description" in sidecar or set(read_tsv(results / name)[0]) <= set(sidecar), name


def test_every_column_is_described(results):
    tables = list(results.glob("*.tsv"))
    assert len(tables) >= 5
    for table in tables:
        sidecar = json.loads(table.with_suffix(".json").read_text())
        for column in read_tsv(table)[0]:
            assert sidecar[column]["Description"].endswith("."), (table.name, column)


def test_the_description_states_who_made_it(results):
    about = json.loads((results / "dataset_description.json").read_text())
    assert {"Name", "BIDSVersion", "DatasetType", "GeneratedBy"} <= set(about)
    assert about["DatasetType"] == "derivative"
    assert re.fullmatch(r"1\.\d+\.\d+", about["BIDSVersion"])
    assert about["GeneratedBy"][0]["Name"] == "spca-tv"


@pytest.mark.skipif(VALIDATOR is None, reason="bids-validator-deno is not installed (make bids)")
def test_the_validator_finds_no_error(results):
    done = subprocess.run([VALIDATOR, results, "--format", "json"], capture_output=True, text=True)
    issues = json.loads(done.stdout)["issues"]["issues"]
    assert [issue for issue in issues if issue["severity"] == "error"] == []
    # a folder without participants, and authors whom only the user knows
    assert {issue["code"] for issue in issues} <= {"SUBJECT_FOLDERS", "TOO_FEW_AUTHORS"}
    assert done.returncode == 0
