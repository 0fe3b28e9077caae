"""Simulations of the calibration have the truth that they say, and finished ones are not done again."""

import numpy as np
import pytest
from benchmarks.calibration import __main__ as calibration
from benchmarks.calibration import choice, number
from benchmarks.calibration.simulations import simulate, simulate_noise

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize("seed", range(3))
def test_strong_factors_span_the_leading_singular_vectors(seed):
    data = simulate(seed, strength=1000.0, n_factors=2)
    leading = np.linalg.svd(data.X - data.X.mean(axis=0), full_matrices=False)[2][:2]
    basis = np.linalg.qr(data.truth.T)[0]
    np.testing.assert_allclose(np.linalg.svd(leading @ basis, compute_uv=False), 1.0, atol=0.05)


def test_noise_has_no_factors_and_unit_variance():
    data = simulate_noise(3)
    assert data.truth.shape == (0, data.X.shape[1])
    np.testing.assert_allclose(np.square(data.X).mean(), 1.0, atol=0.2)


def test_finished_simulations_are_not_repeated(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(number, "measure", lambda seed: calls.append(seed) or [{"about": {}}])
    first = calibration.rows_of("number", range(3), tmp_path)
    assert calibration.rows_of("number", range(5), tmp_path)[:3] == first
    assert calls == [0, 1, 2, 3, 4]
    calibration.rows_of("number", range(2), tmp_path, again=True)
    assert calls[5:] == [0, 1]


def test_slack_is_the_smaller_of_both():
    spans = np.array([[[0.50], [0.54]], [[0.49], [0.53]], [[0.45], [0.49]]])
    table = {
        "span": spans,
        "sparsity": np.array([0.5, 0.7, 0.9]),
        "stability": np.ones((3, 1)),
    }
    assert choice.within(table, n_errors=3.0) == 2
    assert choice.within(table, n_errors=3.0, most=0.05) == 1
    assert choice.within(table, n_errors=0.1, most=0.05) == 0
