"""The suite runs, scores what it should score, and ends what takes too long."""

import json
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import __main__ as suite
from benchmarks.machine import Meter
from benchmarks.peers import judge_fit
from benchmarks.promises import verdicts
from benchmarks.report import comparison
from benchmarks.sections.kernel import bytes_to_move
from benchmarks.sections.vstep import Judge, make_nilearn, on_full_box, time_to_gaps
from benchmarks.tables import table_of
from benchmarks.worker import Entrant, Worker, interleave

from spcatv import SPCATV
from spcatv.problem import LoadingProblem
from spcatv.structure import grid

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).resolve().parents[2]


def make_caller():
    def call(answers):
        if not answers:
            threading.Event().wait()  # for ever: the worker is ended at its limit
        return {"seconds": 0}

    return call


def make_failure():
    raise RuntimeError("on purpose")


@pytest.fixture
def problem():
    mask = np.ones((6, 7, 5), dtype=bool)
    mask[0, 0] = False
    y = np.random.default_rng(0).normal(scale=3.0, size=mask.sum())
    y[:60] += 3.0
    return LoadingProblem(y, grid(mask), l1=0.7, tv=1.3), mask


def test_quick_run_writes_its_files(tmp_path):
    suite.main(["--quick", "--only", "kernel", "--output", str(tmp_path)])
    numbers = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert numbers["quick"]
    rows = numbers["sections"]["kernel"]
    assert {row["dtype"] for row in rows} == {"float32", "float64"}
    for row in rows:
        assert row["seconds"] > 0
        # nothing about its size: two measurements on a busy machine may have any ratio
        assert row["share"] == pytest.approx(row["GB/s"] / row["copy GB/s"])
    assert {row["verdict"] for row in numbers["promises"]} == {"not measured"}
    assert "| box | float32 | 64,000 |" in (tmp_path / "results.md").read_text(encoding="utf-8")


@pytest.fixture
def section(monkeypatch):
    """A section that gives two rows, and is then interrupted."""

    def run(options):
        yield {"what": "one", "seconds": 1.0}
        yield {"what": "two", "seconds": 2.0}
        raise KeyboardInterrupt

    made_up = SimpleNamespace(TITLE="Made up", run=run)
    monkeypatch.setitem(sys.modules, "benchmarks.sections.made_up", made_up)
    monkeypatch.setattr(suite, "SECTIONS", ("made_up",))
    return made_up


def test_a_section_that_is_killed_leaves_its_rows(section, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        suite.main(["--quick", "--only", "made_up", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "results.json").read_text())["sections"]["made_up"]
    assert [row["what"] for row in rows] == ["one", "two"]
    assert "| two | 2.00 s |" in (tmp_path / "results.md").read_text()


def test_two_runs_are_compared_row_by_row():
    before = {"fit": [{"data": "a", "seconds": 2.0, "processor": 4.0}, {"data": "gone", "seconds": 1.0}]}
    after = {"fit": [{"data": "a", "seconds": 9.0, "processor": 2.0}, {"data": "new", "seconds": 1.0}]}
    *_, row = comparison(before, after).splitlines()
    assert row == "| fit | a | 4.00 s | 2.00 s | 0.5x |"
    assert "new" not in comparison(before, after)


def test_a_missing_time_shows_its_note_and_a_bound():
    rows = [{"method": "a", "seconds": None, "note": "> 60 s", "ratio": 12.0, "zeros": [0.5, 1.0]}]
    assert table_of(rows).splitlines()[-1] == "| a | > 60 s | > 12x | 50%, 100% |"


def test_nilearn_solves_the_same_problem(problem):
    pytest.importorskip("nilearn")
    masked, mask = problem
    box = on_full_box(masked, mask)
    assert Judge(box).score(make_nilearn(box, mask.shape)(3000))["relative_gap"] < 1e-6


def test_judge_prefers_a_solvers_own_certificate(problem):
    masked, _ = problem
    judge = Judge(masked)
    v = judge.reference.v
    assert judge.score({"v": v})["relative_gap"] < 2e-9
    poor = judge.score({"v": v, "alpha": np.zeros(masked.structure.n_rows)})
    assert poor["relative_gap"] > 1e-4


def test_judge_finds_what_the_fit_certifies(striped):
    model = SPCATV(2, structure=(60,), alpha=0.2, tol=1e-6).fit(striped)
    assert max(judge_fit(model, striped)) <= 1.2e-6
    model.components_[1] = np.roll(model.components_[1], 3)
    assert judge_fit(model, striped)[1] > 1e-3


def test_time_to_gaps_interpolates_between_efforts():
    points = [(1.0, 1e-2), (100.0, 1e-4), (200.0, 1e-5)]
    *times, missed = time_to_gaps(points, (1e-1, 1e-3, 1e-5, 1e-6))
    assert times == pytest.approx([1.0, 10.0, 200.0])
    assert missed is None


def test_workers_take_turns_and_are_ended():
    with Worker(make_caller, threads=1) as worker:
        fast = Entrant("a", worker, (True,), limit=600)
        slow = Entrant("b", worker, (False,), limit=0.5)
        late = Entrant("c", worker, (True,), limit=0.5)
        interleave([fast, slow, late], repeats=2)
        assert fast.seconds == 0
        assert slow.note == late.note == "> 0.5 s"
        assert slow.seconds is None


def test_a_failure_is_an_error_or_the_note_of_an_optional_entrant():
    with Worker(make_failure, threads=1) as worker:
        with pytest.raises(RuntimeError, match="on purpose"):
            interleave([Entrant("needed", worker)], repeats=1)
        optional = Entrant("peer", worker, optional=True)
        interleave([optional], repeats=1)
    assert "on purpose" in optional.note
    assert optional.seconds is None


def test_peak_memory_sees_what_is_freed_again():
    # more than 32 MiB, which the C library never takes from memory that was freed before
    with Meter() as meter:
        np.ones(8_000_000).sum()
    assert 0.8 * 64e6 < meter.bytes < 1.5 * 64e6


def test_bytes_of_an_iteration():
    n = 4 * 5 * 6
    assert bytes_to_move(grid((4, 5, 6)), "float32") == (n * (9 * 4 + 1), n * (5 * 4 + 1))


def test_promises_without_results_are_not_measured():
    rows = verdicts({}, quick=False)
    assert {row["verdict"] for row in rows} == {"not measured"}


def test_promises_are_judged_by_the_rows_of_their_section():
    fits = [
        {"method": "spcatv, alpha", "seconds": 1.0, "gaps": [1e-7], "judged": [2e-6, 1e-7]},
        {"method": "SparsePCA", "seconds": None, "ratio": 120.0},
        {"method": "MiniBatchSparsePCA", "seconds": 9.0, "ratio": 9.0},
    ]
    fits = [{"data": "ellipsoid volume, 83 x 63,966", **row} for row in fits]
    rows = verdicts({"fit": fits}, quick=False)
    found = {row["what"].split(": ")[-1]: (row["measured"], row["verdict"]) for row in rows}
    assert found["times of SparsePCA"] == ("> 120x", "pass")
    assert found["times of MiniBatchSparsePCA"] == ("9x", "miss")
    assert found["times of PCA full"] == (None, "not measured")
    assert {row["verdict"] for row in verdicts({"fit": fits}, quick=True)} == {"not judged", "not measured"}
    assert found["gaps of fits, judged from outside"] == ("2.0e-06, 1.0e-07", "miss")
