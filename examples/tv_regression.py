"""TV-elastic-net regression and classification with the same structures, solvers and certificates.

The solvers are not tied to PCA: any smooth loss, plus a penalty with a proximal operator, plus the
structured penalty of a grid, a mesh or a graph is a `CompositeProblem`. Here an image of two squares
is found back from noisy projections, once by least squares and once by logistic regression.

Run with ``python examples/tv_regression.py`` (a few seconds).
"""

import numpy as np

from spcatv.problem.composite import ElasticNet, LeastSquares, Logistic, RegularizedLoss
from spcatv.solvers import solve
from spcatv.structure import grid

SHAPE = (16, 16)


def simulate(n_samples=150, noise=1.0, seed=0):
    """Return the images B (one a row), the outcome b and the true coefficients."""
    rng = np.random.default_rng(seed)
    image = np.zeros(SHAPE)
    image[2:7, 2:7] = 1.0
    image[9:14, 8:13] = -1.0
    truth = image.ravel()
    B = rng.normal(size=(n_samples, truth.size))
    return B, B @ truth + noise * rng.normal(size=n_samples), truth


def support_error(v, truth):
    """Share of the pixels that are wrongly in or out of the support."""
    return np.mean((np.abs(v) > 0.1 * np.abs(v).max()) != (truth != 0))


def main():
    B, b, truth = simulate()
    structure = grid(SHAPE)
    squares, logistic = LeastSquares(B, b), Logistic(B, np.sign(b))
    problems = {
        "least squares, elastic net": RegularizedLoss(squares, ElasticNet(0.1, 0.05), structure),
        "least squares, TV": RegularizedLoss(squares, ElasticNet(0.05, 0.05), structure, tv=0.15),
        "logistic, elastic net": RegularizedLoss(logistic, ElasticNet(0.02, 0.01), structure),
        "logistic, TV": RegularizedLoss(logistic, ElasticNet(0.005, 0.01), structure, tv=0.02),
    }
    print(f"{'problem':28} {'method':8}  objective relative gap iterations support error")
    for name, problem in problems.items():
        for method in ("conesta", "fista"):
            answer = solve(problem, method, tol=1e-4)
            print(
                f"{name:28} {method:8} {answer.value:10.5f} {answer.relative_gap:12.1e} {answer.n_iter:10d} "
                f"{support_error(answer.v, truth):13.1%}"
            )


if __name__ == "__main__":
    main()
