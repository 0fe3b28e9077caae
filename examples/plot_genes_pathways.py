"""
Genes in pathways: overlapping groups
=====================================

Features need not lie on a grid. Genes belong to pathways, and a gene may belong to several. With groups as
the structure, the penalty is ``sum_g ||v_g||_2`` over the pathways, which switches whole pathways off; the
l1 norm then makes single genes of the other pathways zero.

The expression data are simulated. For real ones, read gene sets with one line per pathway, such as those of
`Reactome <https://reactome.org/download-data>`_ or `MSigDB <https://www.gsea-msigdb.org>`_ (``.gmt``: name,
address, genes)::

    pathways = {line.split()[0]: line.split()[2:] for line in open("pathways.gmt")}
    members = [[columns.index(gene) for gene in genes if gene in columns] for genes in pathways.values()]
"""

# %%
# Data
# ----
# 40 pathways of 20 genes each, of which five are shared with the next one. In 60 samples, one factor drives
# pathways 5 and 6, another one pathway 25.

import matplotlib.pyplot as plt
import numpy as np

from spcatv import SPCATV
from spcatv.structure import groups

n_pathways, size, step = 40, 20, 15
members = [list(range(step * p, step * p + size)) for p in range(n_pathways)]
n_genes = members[-1][-1] + 1
driven = [[5, 6], [25]]

rng = np.random.default_rng(0)
X = rng.standard_normal((60, n_genes))
truth = np.zeros((2, n_genes))
for loading, own in zip(truth, driven, strict=True):
    loading[np.unique([members[p] for p in own])] = 1
X += rng.standard_normal((60, 2)) * [0.9, 0.9] @ truth

# %%
# Groups as the structure
# -----------------------
# ``groups`` takes lists of feature numbers. Each norm is multiplied by the root of the number of genes, so
# that large pathways have no advantage.

structure = groups(members, n_features=n_genes)
models = {
    "genes on their own": SPCATV(2, sparsity=0.96, smoothness=0),
    "genes in pathways": SPCATV(2, structure=structure, sparsity=0.96, smoothness=2),
}
figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
for column, (name, model) in zip(axes.T, models.items(), strict=True):
    model.fit(X)
    column[0].set_title(name)
    for k, ax in enumerate(column):
        strength = [np.linalg.norm(model.components_[k, genes]) for genes in members]
        own = np.argmax([truth[j] @ np.abs(model.components_[k]) for j in range(2)])
        colours = ["C3" if p in driven[own] else "0.6" for p in range(n_pathways)]
        ax.bar(range(n_pathways), strength, color=colours)
        ax.set_ylabel(f"component {k + 1}:\nnorm of the loadings" if column[0] is axes[0, 0] else "")
        active = sum(value > 0 for value in strength)
        print(f"{name}, component {k + 1}: {active} of {n_pathways} pathways are active")
for ax in axes[-1]:
    ax.set_xlabel("pathway")
plt.show()

# %%
# The red pathways are those that the simulated factor drives. Genes on their own also bring in the pathways
# beside these, which share genes with them, and single genes of others. With pathways as groups hardly more
# than the red ones is left: a gene is zero as soon as one of its pathways is switched off.
