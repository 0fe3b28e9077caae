"""
Contrast maps of a task
=======================

From NIfTI files to component maps: how the responses of people to a task differ. ``ImageSPCATV`` reads
files as nilearn does, finds out from the mask which voxels are neighbours, and returns its maps as images.

The contrasts are simulated in the brain of the MNI152 template. Real ones of 94 people come with nilearn,
from the network::

    from nilearn.datasets import fetch_localizer_contrasts

    files = fetch_localizer_contrasts(["left vs right button press"], n_subjects=94)["cmaps"]
"""

# %%
# Data
# ----
# 24 contrast maps of 6 mm voxels, written as a study would have them. Three networks of two regions each
# respond more in some people than in others.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel as nib
import numpy as np
from nilearn import plotting
from nilearn.datasets import load_mni152_brain_mask, load_mni152_template

from spcatv import ImageSPCATV
from spcatv.datasets import make_volume_cohort
from spcatv.metrics import match_components

folder = tempfile.TemporaryDirectory()
brain = load_mni152_brain_mask(resolution=6)
mask = brain.get_fdata() > 0
cohort = make_volume_cohort(mask, 24, voxel_size=6, radius=18, snr=1.0, dtype="float32", random_state=0)
for number, values in enumerate(cohort.X, start=1):
    volume = np.zeros(mask.shape, dtype="float32")
    volume[mask] = values
    nib.save(nib.Nifti1Image(volume, brain.affine), Path(folder.name) / f"sub-{number:02d}_contrast.nii.gz")

# %%
# Two fits
# --------
# Both have 95 % zeros. With ``smoothness=0`` the fit ignores neighbours.

maps = {}
for name, smoothness in {"elastic-net PCA": 0, "SPCA-TV": 1}.items():
    model = ImageSPCATV(2, mask=brain, sparsity=0.95, smoothness=smoothness)
    scores = model.fit_transform(f"{folder.name}/sub-*_contrast.nii.gz")
    maps[name] = model.components_img_
    match = match_components(cohort.loadings[:2], model.components_)
    truth = np.corrcoef(scores[:, match.order].T, cohort.scores[:, :2].T)
    print(f"{name}: {model.mask_report_}")
    print(f"  correlation of the scores with the truth: {abs(truth[0, 2]):.2f} and {abs(truth[1, 3]):.2f}")

# %%
# ``components_img_`` is a 4-D image with one volume per component. It can be saved (``to_filename``) and
# plotted like any other.

figure, axes = plt.subplots(4, 1, figsize=(8, 8.4))
figure.subplots_adjust(left=0.01, right=0.99, top=0.96, bottom=0.01, hspace=0.2)
background = load_mni152_template(resolution=4)
for ax, (name, k) in zip(axes, [(name, k) for name in maps for k in range(2)], strict=True):
    values = maps[name].get_fdata()[..., k]
    plotting.plot_stat_map(
        nib.Nifti1Image(values, brain.affine),
        bg_img=background,
        display_mode="z",
        cut_coords=[-30, -12, 6, 24, 42],
        cmap="cold_hot",
        threshold=0.05 * np.abs(values).max(),
        colorbar=False,
        axes=ax,
    )
    ax.set_title(f"{name}, component {k + 1}")
plt.show()
folder.cleanup()

# %%
# Both components consist of two regions, of which these slices show parts. In the upper two maps single
# voxels all over the brain light up as well; in the lower two a few faint patches are left.
