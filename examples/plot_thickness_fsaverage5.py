"""
Cortical thickness on fsaverage5
================================

Vertices of a cortical mesh have neighbours along its edges. ``ImageSPCATV`` takes GIFTI and FreeSurfer
files, one per person and hemisphere, and the meshes; fsaverage5 comes with nilearn.

The thickness maps are simulated. After ``recon-all`` and ``mris_preproc`` real ones are files such as
``lh.thickness.fsaverage5.mgh``, and the fit is
``ImageSPCATV(surface="fsaverage5").fit(glob("sub-*/surf/?h.thickness.fsaverage5.mgh"))``.
"""

# %%
# Data
# ----
# 40 people. Thickness varies together within discs of 20 mm, two in every network.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel as nib
import numpy as np
from nilearn import plotting
from nilearn.datasets import load_fsaverage, load_fsaverage_data

from spcatv import ImageSPCATV
from spcatv.datasets import make_surface_cohort

template = load_fsaverage("fsaverage5")
left, right = (template["pial"].parts[side] for side in ("left", "right"))
n_left = len(left.coordinates)
cohort = make_surface_cohort(
    np.vstack([left.coordinates, right.coordinates]),
    np.vstack([left.faces, right.faces + n_left]),
    n_samples=40,
    radius=20,
    snr=0.8,
    amplitudes=(1.0, 0.8),
    dtype="float32",
    random_state=0,
)
folder = tempfile.TemporaryDirectory()
for number, row in enumerate(cohort.X, start=1):
    for side, values in {"L": row[:n_left], "R": row[n_left:]}.items():
        image = nib.gifti.GiftiImage(darrays=[nib.gifti.GiftiDataArray(values, intent="NIFTI_INTENT_SHAPE")])
        nib.save(image, Path(folder.name) / f"sub-{number:02d}_hemi-{side}_thickness.shape.gii")

# %%
# The fit
# -------
# Files are paired by their names. Both hemispheres are fitted together.

model = ImageSPCATV(2, surface="fsaverage5", sparsity=0.95)
scores = model.fit_transform(f"{folder.name}/sub-*_thickness.shape.gii")
print(model.mask_report_)
for k, record in enumerate(model.diagnostics_):
    r = np.corrcoef(scores[:, k], cohort.scores[:, k])[0, 1]
    print(f"component {k + 1}: {record.sparsity:.0%} zeros, correlation of its scores with the truth {r:.2f}")
folder.cleanup()

# %%
# ``components_img_`` is a nilearn ``SurfaceImage`` with one column per component.

figure = plt.figure(figsize=(9, 4.2))
sulci = load_fsaverage_data("fsaverage5", data_type="sulcal")
views = [("left", "lateral"), ("left", "medial"), ("right", "medial"), ("right", "lateral")]
for k in range(2):
    for column, (side, view) in enumerate(views):
        ax = figure.add_subplot(2, 4, 4 * k + column + 1, projection="3d")
        plotting.plot_surf_stat_map(
            template["inflated"],
            model.components_img_.data.parts[side][:, k],
            hemi=side,
            view=view,
            bg_map=sulci,
            cmap="cold_hot",
            threshold=1e-6,
            vmax=float(np.abs(model.components_[k]).max()),
            colorbar=False,
            axes=ax,
        )
        ax.set_title(f"{side}, {view}" if k == 0 else "", y=1.05)
    figure.text(0.01, 0.7 - 0.48 * k, f"component {k + 1}", rotation=90, va="center")
figure.subplots_adjust(left=0.03, right=1, top=0.9, bottom=0, wspace=0, hspace=0)
plt.show()

# %%
# Each component is one disc in the left and one in the right hemisphere, with a few faint patches
# elsewhere. On most of the cortex the loadings are exactly zero, so that the folds of the template can be
# seen.
