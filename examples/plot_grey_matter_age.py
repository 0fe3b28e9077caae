"""
Grey matter and age
===================

Components of grey-matter maps, and how their scores relate to age. Sex is a confound here: it is regressed
out of every voxel before the fit, and new maps are treated in the same way.

The people are simulated on the grey matter of the MNI152 template. Real maps of up to 416 people with their
ages come with nilearn, from the network::

    from nilearn.datasets import fetch_oasis_vbm

    oasis = fetch_oasis_vbm(n_subjects=100)
    files, table = oasis.gray_matter_maps, oasis.ext_vars[["age", "mf"]]
"""

# %%
# Data
# ----
# 60 people, one file per person, and a table. A network of two regions shrinks with age, another one varies
# on its own; men have more of everything.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel as nib
import numpy as np
import pandas as pd
from nilearn import plotting
from nilearn.datasets import load_mni152_gm_mask, load_mni152_template

from spcatv import ImageSPCATV
from spcatv.datasets import make_volume_cohort

rng = np.random.default_rng(0)
n_people = 60
grey = load_mni152_gm_mask(resolution=6)
mask = grey.get_fdata() > 0
cohort = make_volume_cohort(
    mask, n_people, voxel_size=6, radius=18, snr=0.8, amplitudes=(1.0, 0.8), dtype="float32", random_state=0
)
shrinking = cohort.scores[:, 0] / cohort.scores[:, 0].std()
people = pd.DataFrame(
    {
        "participant_id": [f"sub-{number:02d}" for number in range(1, n_people + 1)],
        "age": np.round(50 - 13 * shrinking + 7 * rng.standard_normal(n_people)),
        "sex": rng.choice(["F", "M"], n_people),
    }
)

folder = tempfile.TemporaryDirectory()
for name, sex, values in zip(people["participant_id"], people["sex"], cohort.X, strict=True):
    volume = np.zeros(mask.shape, dtype="float32")
    volume[mask] = values + (1.0 if sex == "M" else 0.0)
    nib.save(nib.Nifti1Image(volume, grey.affine), Path(folder.name) / f"{name}_gm.nii.gz")

# %%
# The fit
# -------
# Rows of the table are matched to the files by ``participant_id``.

model = ImageSPCATV(2, mask=grey, sparsity=0.95)
confounds = people[["participant_id", "sex"]]
scores = model.fit_transform(f"{folder.name}/sub-*_gm.nii.gz", confounds=confounds)
for k in range(2):
    r = np.corrcoef(scores[:, k], people["age"])[0, 1]
    share = model.explained_variance_ratio_[k]
    print(f"component {k + 1}: {share:.1%} of the variance, correlation with age {r:+.2f}")

# %%
# Maps and scores
# ---------------

figure, axes = plt.subplots(2, 2, figsize=(10, 4.6), width_ratios=[2.2, 1])
figure.subplots_adjust(left=0.02, right=0.98, bottom=0.11, top=0.93, wspace=0.2, hspace=0.35)
background = load_mni152_template(resolution=4)
maps = model.components_img_.get_fdata()
for k, (left, right) in enumerate(axes):
    plotting.plot_stat_map(
        nib.Nifti1Image(maps[..., k], grey.affine),
        bg_img=background,
        display_mode="z",
        cut_coords=[-30, -6, 18, 42],
        cmap="cold_hot",
        threshold=0.05 * np.abs(maps[..., k]).max(),
        colorbar=False,
        axes=left,
    )
    left.set_title(f"component {k + 1}")
    for sex, colour in {"F": "C1", "M": "C0"}.items():
        own = (people["sex"] == sex).to_numpy()
        right.plot(people["age"][own], scores[own, k], "o", ms=4, color=colour, label=sex)
    right.set(xlabel="age", ylabel=f"score {k + 1}")
axes[0, 1].legend()
plt.show()
folder.cleanup()

# %%
# Each component consists of two regions. The scores of the first one fall with age, those of the second one
# do not depend on it; men and women overlap, because sex was removed.
