"""A few damaged inputs of every kind; `make fuzz` runs thousands."""

import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("nilearn")
sys.path.insert(0, str(Path(__file__).parent))
import harness

pytestmark = pytest.mark.no_cover


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    harness.write_inputs(folder)
    return folder


@pytest.mark.parametrize("kind", harness.TARGETS)
def test_damaged_inputs_are_read_or_named(kind, originals, tmp_path):
    for number in range(4):
        wrong, _ = harness.run_case(number, originals, tmp_path / "work", (kind,))
        assert not wrong, f"python tests/fuzz/harness.py 1 --only {number} --kinds '{kind}'"


@pytest.mark.parametrize("kind", harness.TARGETS)
def test_inputs_that_are_not_damaged_are_read(kind, originals, tmp_path):
    """Otherwise nothing is learnt from damaged ones."""
    shutil.copytree(originals, tmp_path / "work")
    assert harness.TARGETS[kind][2](tmp_path / "work") == 0
