"""The comparison with what people can do without this package."""

import numpy as np
import pytest
from benchmarks import components
from benchmarks.reproduce.methods import SIGMA, rotated_at, smoothed
from benchmarks.reproduce.realdata import QUICK_DATA
from numpy.testing import assert_allclose

from spcatv.structure import graph, grid

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize("shape", [(41,), (31, 31), (25, 25, 25)])
def test_smoothing_is_a_gaussian_of_the_same_width_on_any_grid(shape):
    impulse = np.zeros(shape)
    impulse[tuple(n // 2 for n in shape)] = 1.0
    found = smoothed(impulse.reshape(1, -1), grid(shape)).reshape(shape)
    assert_allclose(found.sum(), 1, atol=1e-3)
    profile = found.sum(axis=tuple(range(1, len(shape))))
    variance = profile @ np.square(np.arange(shape[0]) - shape[0] // 2)
    assert_allclose(np.sqrt(variance), SIGMA, rtol=0.1)


def test_without_neighbours_nothing_is_smoothed():
    X = np.random.default_rng(0).standard_normal((3, 5))
    assert_allclose(smoothed(X, graph(np.zeros((5, 5)))), X)


def test_rotated_components_have_the_zeros_requested():
    data = QUICK_DATA["tiny"]()
    found = rotated_at(0.7).fit(data.X, data.structure)
    assert_allclose((found.components == 0).mean(axis=1), 0.7, atol=0.01)
    assert_allclose(np.linalg.norm(found.components, axis=1), 1)


def test_a_table_of_all_methods(capsys):
    components.main(["tiny", "--number"], QUICK_DATA)
    said = capsys.readouterr().out
    rows = [line.split(" | ") for line in said.splitlines() if line.startswith("| tiny")]
    assert len(rows) == 3 * len(components.SHARES)
    numbers = np.array([[float(cell) for cell in row[3:6]] for row in rows])
    assert (numbers <= 1).all()
    assert (numbers[:, 0] > 0.2).all()
    assert "tiny volume: " in said
