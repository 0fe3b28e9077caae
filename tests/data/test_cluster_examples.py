"""The scripts for Slurm and Kubernetes, on a local cluster and tiny data."""

import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spcatv import SPCATV
from spcatv.structure import grid

distributed = pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')
h5py = pytest.importorskip("h5py", reason="not installed")
zarr = pytest.importorskip("zarr", reason="not installed")

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "cluster"
WRITERS = {
    "X.zarr": lambda path, X: zarr.create_array(path, data=X, chunks=(8, 48)),
    "X.npy": np.save,
}


def write_hdf5(path, X):
    with h5py.File(path, "w") as file:
        file["X"] = X


@pytest.fixture
def cohort():
    """60 images of 6 x 8 pixels with one region."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6, 8))
    X[:, 1:4, 2:6] += 3.0 * rng.standard_normal((60, 1, 1))
    return X.reshape(60, 48)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("script", "name"), [("on_slurm.py", "X.zarr"), ("on_slurm.py", "X.h5"), ("on_kubernetes.py", "X.npy")]
)
def test_the_scripts_fit_a_cohort(script, name, cohort, tmp_path, monkeypatch, capsys):
    WRITERS.get(name, write_hdf5)(tmp_path / name, cohort)
    np.save(tmp_path / "mask.npy", np.ones((6, 8), dtype=bool))
    # threads in the place of worker processes, which take seconds to start
    local = partial(distributed.LocalCluster, processes=False, silence_logs=50)
    monkeypatch.setattr(distributed, "LocalCluster", local)
    monkeypatch.syspath_prepend(SCRIPTS)
    sys.modules.pop("cohort", None)
    options = ["--local", "--workers=2", "--threads=1", "--memory=64GB", "--components=1", "--sparsity=0.7"]
    paths = [str(tmp_path / file) for file in (name, "mask.npy", "model")]
    monkeypatch.setattr(sys, "argv", [script, *paths, *options])
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    assert "60 x 48, 1 components" in capsys.readouterr().out
    found = SPCATV.load(tmp_path / "model")
    expected = SPCATV(1, structure=grid((6, 8)), sparsity=0.7).fit(cohort)
    assert_allclose(found.components_, expected.components_, atol=1e-3)
    assert_allclose(np.load(tmp_path / "model-scores.npy"), found.transform(cohort), atol=1e-8)
