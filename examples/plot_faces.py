"""
Faces: parts instead of ghosts
==============================

"Eigenfaces", the principal components of photographs of faces, look like ghosts: every pixel takes part in
every one of them. Sparse components with a penalty on neighbouring pixels are parts of a face.

The 100 faces of 25 x 25 pixels come with scikit-image, a subset of "Labeled Faces in the Wild". For larger
ones, take ``sklearn.datasets.fetch_olivetti_faces().images``, which are downloaded.
"""

# %%
# Data
# ----
# An ellipse is the mask: pixels outside of it are background. Mean and contrast of every photograph are
# removed, because light differs from one to the next.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import lfw_subset
from sklearn.decomposition import PCA

from spcatv import SPCATV

faces = lfw_subset()[:100]
row, column = np.indices(faces.shape[1:])
mask = ((column - 12) / 8) ** 2 + ((row - 12.5) / 11) ** 2 <= 1
X = faces[:, mask]
X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)

# %%
# Eight components
# ----------------
# With ``sparsity=0.8``, a fifth of the pixels of a component are not zero. The mask is the structure.

K = 8
models = {
    "PCA": PCA(K, random_state=0),
    "elastic-net PCA": SPCATV(K, structure=mask, sparsity=0.8, smoothness=0),
    "SPCA-TV": SPCATV(K, structure=mask, sparsity=0.8, smoothness=0.3),
}


def show(ax, values, **options):
    image = np.full(mask.shape, np.nan)
    image[mask] = values
    ax.imshow(image[:, 3:22], **options)
    ax.set(xticks=[], yticks=[])


figure, axes = plt.subplots(4, K, figsize=(9, 5.8), layout="constrained")
axes[0, 0].set_ylabel("faces")
for ax, face in zip(axes[0], faces, strict=False):
    show(ax, face[mask], cmap="gray")
for own, (name, model) in zip(axes[1:], models.items(), strict=True):
    model.fit(X)
    explained = model.explained_variance_ratio_.sum()
    print(
        f"{name:16} explains {explained:.0%} of the variance with {np.mean(model.components_ == 0):.0%} zeros"
    )
    own[0].set_ylabel(name)
    for ax, loading in zip(own, model.components_, strict=True):
        limit = np.abs(loading).max()
        show(ax, loading, cmap="RdBu_r", vmin=-limit, vmax=limit)
plt.show()

# %%
# PCA uses the whole face for every component. The components of both sparse methods are parts: a cheek, the
# forehead, an eye, the mouth. The components of SPCA-TV are smooth regions with little else around them.
