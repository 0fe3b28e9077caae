"""
On a Dask cluster
=================

A matrix that is too large for one machine can be a Dask array. The workers that hold its blocks do the
products with them, and only vectors travel. The components are those of the same matrix on one machine, to
the tolerance of the fit.

The cluster here is two workers in this process. On a real one, ``Client("scheduler:8786")`` is the only
line that changes; the folder ``examples/cluster`` has complete scripts for Slurm and Kubernetes.
"""

# %%
# Blocks that workers make themselves
# -----------------------------------
# A function makes one block of samples. Here it simulates them; usually it reads a part of a file. Blocks
# should hold whole samples. ``persist`` keeps them in the memory of the workers.

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

from spcatv import SPCATV

SHAPE, BLOCK, N_BLOCKS = (40, 50), 50, 8
row, column = np.indices(SHAPE)
truth = np.stack([np.hypot(row - y, column - x) < 7 for y, x in ((12, 14), (27, 34))]).reshape(2, -1)


def read_block(number):
    """50 samples: two discs with scores of their own, and noise."""
    rng = np.random.default_rng(number)
    signal = rng.standard_normal((BLOCK, 2)) * [0.5, 0.4] @ truth
    return (signal + rng.standard_normal(signal.shape)).astype("float32")


model = SPCATV(2, structure=SHAPE, sparsity=0.92, tol=1e-4)
with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    parts = [
        da.from_delayed(dask.delayed(read_block)(number), (BLOCK, truth.shape[1]), "float32")
        for number in range(N_BLOCKS)
    ]
    X = da.concatenate(parts).persist()
    model.fit(X)
    scores = model.transform(X)
    print(f"{X.shape[0]} samples in {X.numblocks[0]} blocks on {len(client.nthreads())} workers")
print(f"certified relative gaps: {[f'{record.relative_gap:.0e}' for record in model.diagnostics_]}")

# %%
# The same on one machine
# -----------------------

here = np.concatenate([read_block(number) for number in range(N_BLOCKS)])
alone = SPCATV(2, structure=SHAPE, sparsity=0.92, tol=1e-4).fit(here)

figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
for k, ax in enumerate(axes[:2]):
    ax.imshow(model.components_[k].reshape(SHAPE), cmap="RdBu_r", vmin=-0.12, vmax=0.12)
    ax.contour(truth[k].reshape(SHAPE), levels=[0.5], colors="k", linewidths=0.8)
    ax.set(title=f"component {k + 1} from the cluster", xticks=[], yticks=[])
for k in range(2):
    axes[2].plot(alone.components_[k], model.components_[k], ".", ms=4, label=f"component {k + 1}")
axes[2].set(title="loadings", xlabel="one machine", ylabel="cluster")
axes[2].legend()
plt.show()

# %%
# The maps show one disc each, inside the true outlines; the points of the third panel lie on the diagonal:
# cluster and machine find the same loadings.
