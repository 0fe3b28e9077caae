"""Upper bounds on ``||A||_2^2`` (docs/method.md section 2.5).

Step lengths are derived from this number, so it must never be too small. It should not be much too
large either, because every percent above the truth costs about a percent more iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from spcatv._util.types import FloatArray

Product = Callable[[FloatArray], FloatArray]

EXACT_DIMENSION = 300  # a dense Gram matrix of this order costs milliseconds
LANCZOS_SLACK = 0.025  # share by which the Lanczos bound may exceed the truth
LANCZOS_FAILURE = 1e-12  # probability that it is below the truth
SHORT_LANCZOS = 24  # steps before the first comparison of the two bounds
COLLATZ_STEPS = 12
CLOSE_ENOUGH = 1.02  # ratio of upper and lower bound at which more work does not pay


def spectral_norm_squared(matrix: sp.csr_array, *, upper: float = math.inf, bipartite: bool = False) -> float:
    """Return an upper bound on ``||A||_2^2``, at most about 3 % above it.

    The guarantee:

    * ``min(A.shape) <= 300``: the largest eigenvalue of the smaller Gram matrix, exact up to
      rounding.
    * Otherwise the smallest of three bounds. (a) `upper`, if given. (b) Collatz-Wielandt:
      ``max_i (Mx)_i / x_i >= ||A||_2^2`` for ``M = |A|'|A|`` and every x > 0, without exceptions.
      (c) Lanczos on ``A'A`` from a Gaussian start (fixed seed, no global state): its largest Ritz
      value divided by 0.975. By Kuczynski and Wozniakowski (1992, theorem 4.2),
      ``P[ritz < (1 - eps) lambda] <= 1.648 sqrt(P) exp(-sqrt(eps) (2k - 1))`` whatever
      the spectrum, and the number of steps k makes this smaller than 1e-12. The start does not depend on
      A, so this is the probability over the choice of the seed, which is fixed.

    (a) and (b) are proven for every matrix; (c) fails with probability below 1e-12 and is at most
    2.6 % above the truth, because a Ritz value never exceeds it.

    `bipartite`: signs D, E exist with ``|A| = D A E`` (differences on a bipartite graph). Then A
    and ``|A|`` have the same norm, and Rayleigh quotients of M are lower bounds, which can make Lanczos
    unnecessary. The bound is rounded up to 24 bits, so that it does not depend on the last bits of a sum,
    which may vary with the number of threads.
    """
    magnitude = float(np.abs(matrix.data).max(initial=0.0))
    if magnitude == 0.0:
        return 0.0
    # entries of size one: squares neither overflow nor underflow
    scaled = sp.csr_array((matrix.data / magnitude, matrix.indices, matrix.indptr), shape=matrix.shape)
    if min(matrix.shape) <= EXACT_DIMENSION:
        bound = _dense_bound(scaled)
    else:
        bound = _iterative_bound(scaled, upper / magnitude**2, bipartite)
    return round_up(min(bound, upper / magnitude**2)) * magnitude**2


def round_up(value: float) -> float:
    """Round up to 24 bits, after a margin (1e-10, relative) for rounding errors."""
    mantissa, exponent = math.frexp(value * (1 + 1e-10))
    return math.ldexp(math.ceil(mantissa * 2**24), exponent - 24)


def _dense_bound(matrix: sp.csr_array) -> float:
    n_rows, n_features = matrix.shape
    gram = matrix @ matrix.T if n_rows < n_features else matrix.T @ matrix
    return float(np.linalg.eigvalsh(gram.toarray())[-1])


def _iterative_bound(matrix: sp.csr_array, upper: float, bipartite: bool) -> float:
    absolute = abs(matrix)
    transpose = absolute.T
    return bound_from_products(
        lambda x: np.asarray(transpose @ (absolute @ x)),
        lambda: _gram_product(matrix),
        matrix.shape[1],
        upper=upper,
        bipartite=bipartite,
    )


def bound_from_products(
    absolute: Product, signed: Callable[[], Product], size: int, *, upper: float, bipartite: bool
) -> float:
    """Return an upper bound on ``||A||_2^2`` from products; see `spectral_norm_squared` for the guarantee.

    `absolute` is ``x -> |A|'|A| x`` for x of length `size`. `signed` returns ``x -> A'A x``, and is called
    only if it is needed.
    """
    collatz, rayleigh = collatz_wielandt(absolute, size, COLLATZ_STEPS)
    best = min(upper, collatz)
    if bipartite and best <= CLOSE_ENOUGH * rayleigh:
        return best
    steps = lanczos_steps(size)
    ritz = LanczosRun(signed(), size)
    if best <= CLOSE_ENOUGH * ritz.advance(SHORT_LANCZOS):
        return best
    return min(best, ritz.advance(steps - SHORT_LANCZOS) / (1 - LANCZOS_SLACK))


def collatz_wielandt(product_with: Product, size: int, steps: int) -> tuple[float, float]:
    """Return bounds on the largest eigenvalue of a non-negative symmetric matrix M of order `size`.

    The upper one is the smallest ``max_i (Mx)_i / x_i``, the lower one the largest ``x'Mx / x'x`` of all
    steps, each with one product ``x -> M x``.
    """
    x = np.ones(size)
    upper, lower = math.inf, 0.0
    for _ in range(steps):
        product = product_with(x)
        upper = min(upper, float((product / x).max()))
        lower = max(lower, float((x * product).sum() / (x * x).sum()))
        # the shift and the floor keep x > 0 at features without rows and in parts with tiny weights
        x = product + 0.01 * upper * x
        x = np.maximum(x / x.max(), 1e-100)
    return upper, lower


def lanczos_steps(n_features: int) -> int:
    """Return the steps after which the Lanczos bound fails with probability below `LANCZOS_FAILURE`."""
    exponent = math.log(1.648 * math.sqrt(n_features) / LANCZOS_FAILURE)
    return math.ceil((exponent / math.sqrt(LANCZOS_SLACK) + 1) / 2)


def _gram_product(matrix: sp.csr_array) -> Product:
    """Return ``x -> A'Ax``, as one product with A'A or two with A and A', whichever is cheaper."""
    transpose = matrix.T.tocsr()
    # entries of A'A before duplicates are summed; a dense row of A would make A'A dense
    work = int((np.diff(matrix.indptr).astype(np.int64) ** 2).sum())
    if work <= 8 * matrix.nnz:
        gram = transpose @ matrix
        return lambda x: np.asarray(gram @ x)
    return lambda x: np.asarray(transpose @ (matrix @ x))


class LanczosRun:
    """Lanczos iteration on a symmetric operator from a Gaussian start; it can be continued.

    There is no reorthogonalisation: rounding adds copies of converged eigenvalues, but never a Ritz value
    outside the spectrum.
    """

    def __init__(self, product: Product, size: int) -> None:
        self._product = product
        self._current = np.random.default_rng(20180208).standard_normal(size)
        self._current /= _norm(self._current)
        self._previous = np.zeros(size)
        self._diagonal: list[float] = []
        self._off_diagonal: list[float] = []
        self._finished = False

    def advance(self, steps: int) -> float:
        """Do that many more steps and return the largest Ritz value."""
        for _ in range(steps):
            if self._finished:
                break
            self._step()
        size = len(self._diagonal)
        off_diagonal = np.array(self._off_diagonal[: size - 1])
        values = eigh_tridiagonal(
            np.array(self._diagonal),
            off_diagonal,
            eigvals_only=True,
            select="i",
            select_range=(size - 1,) * 2,
        )
        return float(values[-1])

    def _step(self) -> None:
        beta = self._off_diagonal[-1] if self._off_diagonal else 0.0
        residual = self._product(self._current) - beta * self._previous
        # elementwise sums, not BLAS: the same bits for any number of threads
        overlap = float((residual * self._current).sum())
        residual -= overlap * self._current
        length = _norm(residual)
        self._diagonal.append(overlap)
        self._off_diagonal.append(length)
        # an invariant subspace; from a random start it contains the largest eigenvalue
        self._finished = length <= 1e-12 * max(abs(value) for value in self._diagonal)
        if not self._finished:
            self._previous, self._current = self._current, residual / length


def _norm(x: FloatArray) -> float:
    return math.sqrt(float((x * x).sum()))
