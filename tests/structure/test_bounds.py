import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigvals_banded

from spcatv.structure import bounds
from spcatv.structure.bounds import LanczosRun, collatz_wielandt, lanczos_steps, spectral_norm_squared


def true_norm_squared(matrix):
    return np.linalg.eigvalsh((matrix.T @ matrix).toarray())[-1]


@settings(max_examples=30, deadline=None)
@given(
    n_rows=st.integers(1, 60),
    n_columns=st.integers(1, 60),
    exponent=st.sampled_from([0, 3, 12]),
    iterative=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_never_below_and_hardly_above(n_rows, n_columns, exponent, iterative, seed):
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((n_rows, n_columns), density=0.2, rng=rng, format="csr")
    matrix.data = rng.choice([-1, 1], matrix.nnz) * 10 ** rng.uniform(-exponent, 0, matrix.nnz)
    with pytest.MonkeyPatch.context() as patch:
        if iterative:
            patch.setattr(bounds, "EXACT_DIMENSION", 0)
        bound = spectral_norm_squared(matrix)
    truth = true_norm_squared(matrix)
    assert truth <= bound * (1 + 1e-14)
    assert bound <= 1.03 * truth


@pytest.mark.parametrize("density", [0.002, 0.02])
def test_large_random_matrices(density):
    matrix = sp.random_array((500, 400), density=density, rng=np.random.default_rng(1), format="csr")
    matrix.data -= 0.5
    truth = true_norm_squared(matrix)
    assert truth <= spectral_norm_squared(matrix) <= 1.03 * truth


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_scale_does_not_matter(scale):
    matrix = sp.random_array((400, 400), density=0.02, rng=np.random.default_rng(2), format="csr")
    assert spectral_norm_squared(matrix * scale) == pytest.approx(spectral_norm_squared(matrix) * scale**2)


def test_nothing_has_norm_zero():
    assert spectral_norm_squared(sp.csr_array((0, 7))) == 0
    assert spectral_norm_squared(sp.csr_array((5, 7))) == 0
    assert spectral_norm_squared(sp.csr_array((500, 700))) == 0


def test_collatz_wielandt_brackets_the_eigenvalue():
    rng = np.random.default_rng(0)
    matrix = abs(sp.random_array((80, 50), density=0.02, rng=rng, format="csr"))
    assert (np.diff(matrix.tocsc().indptr) == 0).any()  # some features have no row
    upper, lower = collatz_wielandt(lambda x: matrix.T @ (matrix @ x), 50, 200)
    assert lower <= true_norm_squared(matrix) * (1 + 1e-12)
    assert true_norm_squared(matrix) * (1 - 1e-12) <= upper <= 1.05 * true_norm_squared(matrix)


def test_lanczos_reaches_the_promised_share():
    # eigenvalues that crowd at the top are the hard case: those of a long chain
    n = 4000
    chain = sp.diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n), format="csr")
    gram = (chain.T @ chain).tocsr()
    truth = 4 * np.cos(np.pi / (2 * n)) ** 2
    run = LanczosRun(lambda x: gram @ x, n)
    early = run.advance(10)
    late = run.advance(lanczos_steps(n) - 10)
    assert early <= late <= truth * (1 + 1e-12)
    assert late >= (1 - bounds.LANCZOS_SLACK) * truth
    fresh = LanczosRun(lambda x: gram @ x, n).advance(lanczos_steps(n))
    assert fresh == late


def test_the_slack_covers_ritz_values_that_have_not_converged():
    # neighbours and next neighbours in a chain: not bipartite, and crowded at the top
    n = 2000
    one, two = (
        sp.diags_array([-np.ones(n - k), np.ones(n - k)], offsets=[0, k], shape=(n - k, n)) for k in (1, 2)
    )
    matrix = sp.vstack([one, two], format="csr")
    gram = (matrix.T @ matrix).tocsr()
    bands = np.zeros((3, n))
    for k in range(3):
        bands[k, : n - k] = gram.diagonal(k)
    truth = eigvals_banded(bands, lower=True, select="i", select_range=(n - 1, n - 1))[0]
    ritz = LanczosRun(lambda x: gram @ x, n).advance(lanczos_steps(n))
    assert ritz < truth * (1 - 1e-6)
    assert truth <= spectral_norm_squared(matrix) <= 1.03 * truth


def test_number_of_lanczos_steps_is_the_theorems():
    for n in (10, 10**4, 10**7):
        k = lanczos_steps(n)
        failure = [1.648 * np.sqrt(n) * np.exp(-np.sqrt(0.025) * (2 * j - 1)) for j in (k, k - 1)]
        assert failure[0] <= 1e-12 < failure[1]


def test_lanczos_stops_in_an_invariant_subspace():
    run = LanczosRun(lambda x: 3.0 * x, 50)
    assert run.advance(20) == pytest.approx(3)
    assert LanczosRun(lambda x: 0.0 * x, 50).advance(5) == 0


def test_known_bounds_help_and_global_seeds_stay_alone():
    matrix = sp.random_array((500, 400), density=0.02, rng=np.random.default_rng(3), format="csr")
    matrix.data -= 0.5
    truth = true_norm_squared(matrix)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - this is what must not move
    assert spectral_norm_squared(matrix, upper=1.001 * truth) == pytest.approx(1.001 * truth, rel=1e-6)
    assert spectral_norm_squared(matrix, upper=100 * truth) <= 1.03 * truth
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
