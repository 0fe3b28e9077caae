"""
CIFTI-2: cortex and subcortical voxels together
===============================================

A CIFTI-2 file holds the vertices of both cortices and the voxels of subcortical structures. ``ImageSPCATV``
takes edges of the meshes and faces of voxels as neighbours, and finds components that span both.

The files are simulated on fsaverage5 with two blocks of voxels in the place of the thalamus. Files of the
Human Connectome Project (``*.thickness_MSMAll.32k_fs_LR.dscalar.nii``, after registration at
https://www.humanconnectome.org) are fitted in the same way, with their own meshes:
``ImageSPCATV(surface=("L.midthickness.32k_fs_LR.surf.gii", "R.midthickness.32k_fs_LR.surf.gii"))``.
"""

# %%
# Data
# ----
# 30 people. One network is a patch on the left cortex and the left thalamus, another one a patch on the
# right cortex alone.

import matplotlib.pyplot as plt
import numpy as np
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis
from nilearn import plotting
from nilearn.datasets import load_fsaverage, load_fsaverage_data

from spcatv import ImageSPCATV

meshes = load_fsaverage("fsaverage5")
left, right = (meshes["pial"].parts[side].coordinates for side in ("left", "right"))
affine = np.array([[4.0, 0, 0, -90], [0, 4, 0, -126], [0, 0, 4, -72], [0, 0, 0, 1]])
box = np.zeros((46, 55, 46), dtype=bool)
blocks = {"thalamus_left": (18, 22), "thalamus_right": (24, 28)}
axis = BrainModelAxis.from_surface(np.arange(len(left)), len(left), name="CortexLeft")
axis += BrainModelAxis.from_surface(np.arange(len(right)), len(right), name="CortexRight")
for name, (first, last) in blocks.items():
    mask = box.copy()
    mask[first:last, 24:30, 18:23] = True
    axis += BrainModelAxis.from_mask(mask, name=name, affine=affine)

n_left, n_cortex = len(left), len(left) + len(right)
in_left_thalamus = axis.name == "CIFTI_STRUCTURE_THALAMUS_LEFT"
truth = np.zeros((2, len(axis)))
truth[0, :n_left] = np.linalg.norm(left - [-45, -20, 50], axis=1) < 22
truth[0, in_left_thalamus] = 1
truth[1, n_left:n_cortex] = np.linalg.norm(right - [50, 25, 10], axis=1) < 22

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 2)) * [1.0, 0.9] @ truth + rng.standard_normal((30, len(axis)))
names = [f"sub-{number:02d}" for number in range(1, len(X) + 1)]
people = Cifti2Image(X.astype("float32"), (ScalarAxis(names), axis))

# %%
# The fit
# -------
# One image holds all people here, one map each; one file per person (``"sub-*.dscalar.nii"``) does as well.

model = ImageSPCATV(2, surface="fsaverage5", sparsity=0.96).fit(people)
print(model.mask_report_)
for k, loading in enumerate(model.components_, start=1):
    thalamus = np.abs(loading[in_left_thalamus]).mean() / np.abs(loading).max()
    zeros = np.mean(loading == 0)
    print(f"component {k}: {zeros:.0%} zeros; left thalamus at {thalamus:.0%} of the largest loading")

# %%
# ``components_img_`` is a dense scalar image of the same grayordinates. The cortices are drawn on the mesh;
# of the voxels, the figure shows the slice through their middle.

values = model.components_img_.get_fdata()
voxels = axis.voxel[axis.volume_mask]
sulci = load_fsaverage_data("fsaverage5", data_type="sulcal")
figure = plt.figure(figsize=(9, 4.4))
for k in range(2):
    limit = np.abs(values[k]).max()
    for column, (side, part) in enumerate(
        [("left", values[k, :n_left]), ("right", values[k, n_left:n_cortex])]
    ):
        ax = figure.add_subplot(2, 3, 3 * k + column + 1, projection="3d")
        plotting.plot_surf_stat_map(
            meshes["inflated"],
            part,
            hemi=side,
            view="lateral",
            bg_map=sulci,
            cmap="cold_hot",
            threshold=1e-6,
            vmax=limit,
            colorbar=False,
            axes=ax,
        )
        ax.set_title(f"{side} cortex" if k == 0 else "", y=1.02)
    volume = np.full(box.shape, np.nan)
    volume[tuple(voxels.T)] = values[k, n_cortex:]
    ax = figure.add_subplot(2, 3, 3 * k + 3)
    ax.imshow(volume[14:32, 20:34, 20].T, cmap="cold_hot", vmin=-limit, vmax=limit, origin="lower")
    ax.set(xticks=[], yticks=[], title="thalamus, left and right" if k == 0 else "")
    ax.set_facecolor("0.8")
    figure.text(0.01, 0.7 - 0.48 * k, f"component {k + 1}", rotation=90, va="center")
figure.subplots_adjust(left=0.03, right=0.97, top=0.9, bottom=0.03, wspace=0.05, hspace=0.08)
plt.show()

# %%
# The first component is a patch of the left cortex together with the left thalamus, which is bright; the
# right thalamus is black, which is zero. The second component is a patch of the right cortex, and both
# thalami are close to zero.
