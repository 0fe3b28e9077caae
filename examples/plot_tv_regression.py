"""
Regression and classification with the same penalties
=====================================================

The solvers are not tied to PCA. Any smooth loss, plus a penalty with a proximal operator, plus the
structured penalty of a grid, a mesh or a graph is a ``spcatv.problem.composite.CompositeProblem``, with the
same exact duality gap. Here an image of two squares is found back from noisy projections, once by least
squares and once by logistic regression.
"""

# %%
# Data
# ----
# Every sample is an image of noise. The outcome is its product with the true image, plus noise; the
# logistic regression only sees the sign of it.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from spcatv.problem.composite import ElasticNet, LeastSquares, RegularizedLoss
from spcatv.solvers import solve
from spcatv.structure import grid

shape = (16, 16)
image = np.zeros(shape)
image[2:7, 2:7] = 1.0
image[9:14, 8:13] = -1.0
truth = image.ravel()
rng = np.random.default_rng(0)
B = rng.normal(size=(150, truth.size))
b = B @ truth + rng.normal(size=150)

# %%
# A loss of one's own
# -------------------
# A loss needs its value, its gradient and a Lipschitz constant of the gradient.


class Logistic:
    """``L(v) = mean_i log(1 + exp(-t_i (Bv)_i))`` for labels t in {-1, 1}."""

    def __init__(self, B, labels):
        self.B, self.labels, self.n_features = B, labels, B.shape[1]

    def value(self, v):
        """Return the mean loss."""
        return np.logaddexp(0.0, -self.labels * (self.B @ v)).mean()

    def gradient(self, v):
        """Return the gradient, shape (n_features,)."""
        return -self.B.T @ (self.labels * expit(-self.labels * (self.B @ v))) / len(self.B)

    def lipschitz(self):
        """Return ``||B||^2 / (4 n)``."""
        return np.linalg.norm(self.B, 2) ** 2 / (4 * len(self.B))


# %%
# Four problems
# -------------
# With and without total variation. All strengths were chosen by eye.

structure = grid(shape)
squares, logistic = LeastSquares(B, b), Logistic(B, np.sign(b))
problems = {
    "least squares,\nelastic net": RegularizedLoss(squares, ElasticNet(0.1, 0.05), structure),
    "least squares,\ntotal variation": RegularizedLoss(squares, ElasticNet(0.05, 0.05), structure, tv=0.15),
    "logistic,\nelastic net": RegularizedLoss(logistic, ElasticNet(0.02, 0.01), structure),
    "logistic,\ntotal variation": RegularizedLoss(logistic, ElasticNet(0.005, 0.01), structure, tv=0.02),
}
maps = {"truth": truth}
print(f"{'problem':32} solver    objective  relative gap  iterations  wrong pixels")
for name, problem in problems.items():
    for method in ("conesta", "fista"):
        answer = solve(problem, method, tol=1e-3)
        wrong = np.mean((np.abs(answer.v) > 0.1 * np.abs(answer.v).max()) != (truth != 0))
        print(
            f"{name.replace(chr(10), ' '):32} {method:8} {answer.value:10.5f} {answer.relative_gap:13.1e} "
            f"{answer.n_iter:11d} {wrong:13.1%}"
        )
    maps[name] = answer.v

# %%
# Both solvers reach the same objective, to the gap that they certify.

figure, axes = plt.subplots(1, 5, figsize=(10, 2.6), layout="constrained")
for ax, (name, values) in zip(axes, maps.items(), strict=True):
    limit = np.abs(values).max()
    ax.imshow(values.reshape(shape), cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set(xticks=[], yticks=[])
    ax.set_title(name, fontsize="medium")
plt.show()

# %%
# The elastic net finds scattered pixels. Total variation finds two compact regions where the squares are,
# with both losses.
