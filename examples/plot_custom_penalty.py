"""
A penalty of your own
=====================

The structured penalty is a convex function h of the differences between neighbours. Total variation is the
sum of their sizes. This example writes another one, checks it, and fits components with it: a total
variation for which steps upwards cost more than steps downwards, so that loadings rise at once and fade
away slowly.
"""

# %%
# The penalty
# -----------
# With ``z`` the differences, ``h(z) = sum_i up max(z_i, 0) + down max(-z_i, 0)``. Its conjugate is 0 on the
# box ``-down <= dual <= up`` and infinite outside of it. The methods of a penalty follow from this:
# how to project onto the box, the proximal operator of the conjugate (the projection again), and a few
# constants.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from spcatv import SPCATV
from spcatv.problem import StructuredPenalty
from spcatv.testing import check_penalty


@dataclass(frozen=True)
class AsymmetricTV(StructuredPenalty):
    """Total variation that weighs steps upwards and downwards differently."""

    up: float
    down: float

    def value(self, structure, rows):
        return float(self.up * np.maximum(rows, 0).sum() + self.down * np.maximum(-rows, 0).sum())

    def conjugate(self, structure, dual):
        return 0.0

    def project(self, structure, dual):
        return np.clip(dual, -self.down, self.up)

    def dual_step(self, structure, dual, sigma):
        return self.project(structure, dual)

    def smoothing_constant(self, structure):  # the largest 1/2 ||dual||^2 in the box
        return 0.5 * max(self.up, self.down) ** 2 * structure.n_rows

    def slope_at_zero(self, structure, rows):  # h(t z) / t, and h is homogeneous
        return self.value(structure, rows)

    def slack(
        self, structure, rows, dual
    ):  # h(z) + h*(dual) - dual'z, as a sum of terms that are not negative
        return float(
            (np.maximum(rows, 0) * (self.up - dual) + np.maximum(-rows, 0) * (self.down + dual)).sum()
        )


# %%
# Is it right?
# ------------
# ``check_penalty`` raises an error for anything that the solvers rely on and that does not hold: convexity,
# the conjugate, the projection, the proximal operator, and whether three solvers find the same minimum.

penalty = AsymmetricTV(up=1.0, down=0.1)
check_penalty(penalty)
print(penalty, "has passed all checks")

# %%
# Components with it
# ------------------
# Two responses, each with a sudden onset and a slow decay, in noisy time courses.

time = np.arange(120)
truth = np.array([np.where(time >= onset, np.exp(-(time - onset) / 18.0), 0) for onset in (15, 65)])
truth /= np.linalg.norm(truth, axis=1, keepdims=True)
rng = np.random.default_rng(2)
X = rng.standard_normal((60, 2)) * [8, 6] @ truth + rng.standard_normal((60, 120))

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, own, name in zip(
    axes, ["tv", penalty], ["total variation", "asymmetric total variation"], strict=True
):
    model = SPCATV(2, structure=len(time), sparsity=0.55, smoothness=8, penalty=own).fit(X)
    for k, loading in enumerate(model.components_):
        own_truth = truth[np.argmax(np.abs(truth @ loading))]
        ax.fill_between(time, own_truth, color=f"C{k}", alpha=0.25, lw=0)
        ax.plot(time, loading, color=f"C{k}", label=f"component {k + 1}")
        print(f"{name}, component {k + 1}: cosine with the truth {own_truth @ loading:.3f}")
    ax.set(title=name, xlabel="time")
axes[0].set_ylabel("loading")
axes[0].legend()
plt.show()

# %%
# The shaded areas are the true responses. Strong total variation cuts the decay into a few flat steps. With
# the asymmetric penalty the loadings still rise at once, and then follow the decay more closely; the
# cosines above say the same.
