"""Files of one's own become tables, whatever their neighbours are."""

import numpy as np
import pytest
from benchmarks.reproduce import realdata
from benchmarks.study import others

from spcatv.structure import grid

N_SAMPLES = 12


@pytest.fixture(name="X")
def blocks():
    rng = np.random.default_rng(0)
    found = 0.3 * rng.standard_normal((N_SAMPLES, 12))
    found[:, :4] += rng.standard_normal((N_SAMPLES, 1))
    found[:, 8:] += rng.standard_normal((N_SAMPLES, 1))
    return found


def test_structures_of_files(X, tmp_path):
    def structure(**arrays):
        np.savez(tmp_path / "data.npz", X=X, **arrays)
        return realdata.read(tmp_path / "data.npz").structure

    assert structure(mask=np.ones(12, bool)) == grid((12,))
    assert structure(labels=np.repeat([1, 2], 6)).n_rows == 10
    assert structure(edges=np.stack([np.arange(11), np.arange(1, 12)], axis=1)).n_rows == 11
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]])
    assert structure(coords=corners, triangles=np.array([[0, 1, 2], [1, 3, 2]])).n_rows == 5


def test_tables_of_files(X, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(realdata, "N_FOLDS", 3)
    groups = np.repeat(np.arange(4), 3)
    np.savez(tmp_path / "grid.npz", X=X, mask=np.ones((3, 4), bool))
    np.savez(tmp_path / "visits.npz", X=X, mask=np.ones(12, bool), groups=groups)
    others.main([str(tmp_path / "grid.npz"), str(tmp_path / "visits.npz")])
    said = capsys.readouterr().out
    assert said.count("| grid, 12 × 12 |") == said.count("| visits, 12 × 12 |") == 2
    assert said.count(" → ") == 1 + 2 * 6
    assert " of 6.\n" in said


def test_people_stay_on_one_side_of_every_split():
    groups = np.repeat(np.arange(6), 2)
    parts = realdata.folds(12, groups)
    assert len(parts) == realdata.N_FOLDS
    for rows in parts:
        assert not set(groups[rows.train]) & set(groups[rows.test])
