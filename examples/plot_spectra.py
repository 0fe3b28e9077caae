"""
Spectra: features on a line
===========================

A spectrum has one axis: neighbours are adjacent wavelengths. Components that consist of a few bands say
which wavelengths matter, and sparse PCA without neighbours picks single wavelengths of these bands instead.

The near-infrared spectra here are simulated. With your own, ``X`` has one row per spectrum.
"""

# %%
# Data
# ----
# Two substances absorb in two bands each. Their concentrations vary from sample to sample. Every spectrum
# has noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from spcatv import SPCATV
from spcatv.metrics import match_components
from spcatv.problem import HuberTV

wavelength = np.linspace(1100, 2500, 281)  # nm
bands = [[(1450, 40), (1940, 50)], [(1700, 30), (2310, 40)]]
absorption = np.array(
    [sum(np.exp(-(((wavelength - centre) / width) ** 2)) for centre, width in own) for own in bands]
)
rng = np.random.default_rng(0)
concentration = rng.standard_normal((80, 2)) * [1.0, 0.8]
X = concentration @ absorption + 1.5 * rng.standard_normal((80, len(wavelength)))

# %%
# Three kinds of components
# -------------------------
# An integer as ``structure`` is a chain of that length. Total variation makes flat bands with sharp
# ends; ``spcatv.problem.HuberTV(0.05)`` smooths differences below 5 % of the contrast of a map, and keeps
# slopes.

models = {
    "PCA": PCA(2, random_state=0),
    "elastic-net PCA": SPCATV(2, structure=len(wavelength), sparsity=0.75, smoothness=0),
    "SPCA-TV": SPCATV(2, structure=len(wavelength), sparsity=0.75),
    "SPCA, Huber-TV": SPCATV(2, structure=len(wavelength), sparsity=0.75, penalty=HuberTV(0.05)),
}
figure, axes = plt.subplots(4, 2, figsize=(8, 7.5), sharex=True, sharey=True, layout="constrained")
unit = absorption / np.linalg.norm(absorption, axis=1, keepdims=True)
for row, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X)
    match = match_components(unit, model.components_)
    found = match.sign[:, None] * model.components_[match.order]
    cosines = (unit * found).sum(axis=1)
    print(f"{name:16} cosines with the truth: {cosines.round(2)}")
    for k, ax in enumerate(row):
        ax.fill_between(wavelength, unit[k], color="0.85", label="truth")
        ax.plot(wavelength, found[k], color=f"C{k}", lw=1.2, label="loading")
        ax.axhline(0, color="0.5", lw=0.5)
    row[0].set_ylabel(name)
axes[0, 0].set_title("Component 1")
axes[0, 1].set_title("Component 2")
axes[0, 1].legend(loc="upper center")
for ax in axes[-1]:
    ax.set_xlabel("wavelength (nm)")
plt.show()

# %%
# PCA and elastic-net PCA follow the noise. SPCA-TV finds each substance as two bands with flat steps, and
# hardly anything outside of them. With Huber-TV the bands have slopes, and a few small peaks are left
# between them.
