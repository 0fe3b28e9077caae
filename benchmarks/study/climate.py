"""Beside xeofs on the data of the El Nino example: ``python -m benchmarks.study.climate``.

xeofs is not among the dependencies: ``pip install xeofs``. Times are processor time, so that other work on
the machine matters little.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce.methods import alpha_for_zeros
from benchmarks.tables import each, markdown, seconds
from spcatv import SPCATV
from spcatv._util.threads import one_blas_thread
from spcatv.xarray import XarraySPCATV

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plot_el_nino.py"
N_MODES, ZEROS, N_REPEATS = 2, 0.9, 5
FIRST_ALPHA = 1e-4  # of the search for the strength of SparsePCA
Fit = Callable[[Any], tuple[Any, Any]]


def main() -> None:
    """Print a table: time, explained variance, zeros, and how well the scores follow the truth."""
    import xeofs

    names = example_data()
    sst, truth = names["sst"], [names["nino"], names["south"]]
    weight = np.sqrt(np.cos(np.deg2rad(sst.lat)))  # all methods see data that are weighted by area
    samples = matrix((sst - sst.mean("time")) * weight)
    rows = []
    for label, fit in methods(xeofs, weight).items():
        fit(sst)  # compiles and imports
        taken, (maps, scores) = timed(fit, sst)
        loadings, scores = matrix(maps), scores.transpose(..., "time").values
        follow = np.abs(np.corrcoef(truth, scores)[:N_MODES, N_MODES:]).max(axis=1)
        zeros = (loadings == 0).mean(axis=1)
        shown = [f"{explained(samples, loadings):.1%}", each(zeros, ".0%"), each(follow, ".2f")]
        rows.append([label, seconds(taken), *shown])
    print(f"xeofs {xeofs.__version__}, {samples.shape[0]} months, {samples.shape[1]:,} cells of sea\n")
    print(markdown(["method", "time", "explained variance", "zeros", "correlation with the truth"], rows))


def example_data() -> dict[str, Any]:
    """Run the first part of the example, and return its names."""
    source, _, _ = EXAMPLE.read_text(encoding="utf-8").partition("# %%\n# The fit\n")
    names: dict[str, Any] = {}
    exec(compile(source, str(EXAMPLE), "exec"), names)
    return names


def methods(xeofs: Any, weight: Any) -> dict[str, Fit]:
    """By name: functions of a DataArray that return weighted maps and scores."""
    single = xeofs.single

    def eof(sst: Any) -> tuple[Any, Any]:
        model = single.EOF(n_modes=N_MODES, use_coslat=True, random_state=0).fit(sst, dim="time")
        return model.components(), model.scores()

    def rotated(sst: Any) -> tuple[Any, Any]:
        model = single.EOF(n_modes=N_MODES, use_coslat=True, random_state=0).fit(sst, dim="time")
        turned = single.EOFRotator(n_modes=N_MODES).fit(model)
        return turned.components(), turned.scores()

    def sparse(sst: Any, alpha: float) -> tuple[Any, Any]:
        model = single.SparsePCA(n_modes=N_MODES, alpha=alpha, use_coslat=True, random_state=0)
        model.fit(sst, dim="time")
        return model.components(), model.scores()

    def ours(sst: Any) -> tuple[Any, Any]:
        model = XarraySPCATV(SPCATV(N_MODES, sparsity=ZEROS), weights="coslat")
        scores = model.fit_transform(sst, dim="time")
        return model.components_ * weight, scores

    def sparse_at_zeros(sst: Any) -> tuple[Any, Any]:
        if "alpha" not in chosen:  # in the first call, which is not timed
            chosen["alpha"] = alpha_for_zeros(
                lambda alpha: float((matrix(sparse(sst, alpha)[0]) == 0).mean()), FIRST_ALPHA, ZEROS
            )
        return sparse(sst, chosen["alpha"])

    chosen: dict[str, float] = {}
    return {
        "xeofs `EOF`": eof,
        "xeofs `EOFRotator` (varimax)": rotated,
        "xeofs `SparsePCA`": sparse_at_zeros,
        "`XarraySPCATV`": ours,
    }


def matrix(fields: Any) -> np.ndarray:
    """One row per month or map, one column per cell of sea."""
    return np.asarray(fields.stack(cell=("lat", "lon")).dropna("cell").transpose(..., "cell").values)


def explained(samples: np.ndarray, loadings: np.ndarray) -> float:
    """Share of the variance that least-squares scores on the maps explain, whatever the method."""
    residual = samples - samples @ np.linalg.pinv(loadings) @ loadings
    return 1 - float(np.sum(residual**2) / np.sum(samples**2))


def timed(fit: Fit, sst: Any) -> tuple[float, tuple[Any, Any]]:
    """Return the least processor time of several fits on one thread, in seconds, and the last result."""
    taken = []
    with one_blas_thread(), warnings.catch_warnings(action="ignore"):
        for _ in range(N_REPEATS):
            started = time.process_time()
            found = fit(sst)
            taken.append(time.process_time() - started)
    return min(taken), found


if __name__ == "__main__":
    main()
