"""
El Niño, simulated: land, periodic longitudes and xarray
========================================================

Fields on the globe have coasts, longitudes that meet at the date line, and cells that shrink towards the
poles. ``spcatv.XarraySPCATV`` takes a DataArray with its coordinates, and returns maps and scores
with theirs.

The sea surface temperatures here are simulated on a grid of 5 degrees. For real ones, replace ``sst`` by
anomalies of NOAA's `ERSST version 5 <https://psl.noaa.gov/data/gridded/data.noaa.ersst.v5.html>`_
(``sst.mnmean.nc``, public domain)::

    sst = xr.open_dataset("sst.mnmean.nc").sst.sel(time=slice("1980", "2019"))
    sst = sst.groupby("time.month") - sst.groupby("time.month").mean()

The rest of the example stays the same.
"""

# %%
# Data
# ----
# Land is drawn with a few polygons and is NaN in all months. Two modes vary: a warm tongue along the
# equator of the Pacific, every few years, and a patch of the southern ocean. The longitudes run from -180
# to 180, so that the map is cut in the middle of the Pacific.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.path import Path

from spcatv import SPCATV, XarraySPCATV

lat, lon = np.arange(-77.5, 80, 5), np.arange(-177.5, 180, 5)
time = pd.date_range("1990-01", periods=240, freq="MS")
rng = np.random.default_rng(0)

continents = [  # rough outlines, (longitude, latitude)
    [(-168, 66), (-130, 70), (-80, 74), (-55, 52), (-80, 26), (-97, 26), (-83, 9), (-106, 22), (-125, 48)],
    [(-80, 9), (-50, 0), (-35, -7), (-58, -38), (-68, -55), (-75, -50), (-71, -18), (-81, -5)],
    [(-17, 15), (-6, 36), (11, 37), (36, 37), (51, 12), (40, -16), (19, -35), (9, 4)],
    [(-9, 37), (5, 60), (30, 71), (100, 77), (178, 68), (140, 45), (122, 30), (105, 10), (78, 8), (30, 37)],
    [(114, -22), (131, -11), (143, -12), (153, -28), (146, -39), (116, -35)],
    [(-73, 78), (-20, 82), (-42, 60)],
    [(-181, -72), (-181, -90), (181, -90), (181, -72), (60, -66), (-60, -66)],
]
x, y = np.meshgrid(lon, lat)
cells = np.column_stack([x.ravel(), y.ravel()])
land = np.any([Path(outline).contains_points(cells) for outline in continents], axis=0).reshape(x.shape)

from_pacific = (x - 210 + 180) % 360 - 180  # degrees east of 150 W
tongue = np.exp(-((from_pacific / 45) ** 2) - (y / 9) ** 2)
southern = np.exp(-(((x - 80) / 40) ** 2) - ((y + 45) / 9) ** 2)


def slowly(months):
    """Simulate standard normal noise with a time scale in months."""
    noise = np.convolve(rng.standard_normal(len(time) + 6 * months), np.hanning(2 * months), mode="valid")
    return (noise / noise.std())[: len(time)]


nino, south = slowly(12), slowly(6)
values = 1.2 * nino[:, None, None] * tongue + 0.7 * south[:, None, None] * southern
values += rng.standard_normal(values.shape)
values[:, land] = np.nan
sst = xr.DataArray(
    values, {"time": time, "lat": lat, "lon": lon}, ("time", "lat", "lon"), name="sst", attrs={"units": "K"}
)

# %%
# The fit
# -------
# ``weights="coslat"`` lets a cell count by its area. Longitudes are recognised by their name, and as
# periodic because they go around the globe.

model = XarraySPCATV(SPCATV(2, sparsity=0.9), weights="coslat")
scores = model.fit_transform(sst, dim="time")
print(f"periodic: {model.periodic_dims_}; {int(model.mask_.sum())} of {model.mask_.size} cells are sea")
print(model.components_.coords)

# %%
# Maps and scores are DataArrays: they can be selected, resampled and plotted by their coordinates. A map
# times a score is in kelvin.

figure, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained", width_ratios=[1.4, 1])
amplitude = model.components_ * scores.std("time")
for k, (row, truth) in enumerate(zip(axes, (nino, south), strict=True), start=1):
    image = row[0].pcolormesh(lon, lat, amplitude.sel(component=k), cmap="RdBu_r", vmin=-1.2, vmax=1.2)
    row[0].set_facecolor("0.75")
    row[0].set(title=f"Component {k}", xlabel="longitude", ylabel="latitude")
    row[1].plot(time, truth, color="0.6", lw=2.5, label="truth")
    row[1].plot(
        time, scores.sel(component=k) / scores.sel(component=k).std(), color="C3", lw=1, label="scores"
    )
    row[1].set_title(f"Scores, correlation {abs(np.corrcoef(scores.sel(component=k), truth)[0, 1]):.2f}")
axes[0, 1].legend(loc="upper right", ncols=2)
figure.colorbar(image, ax=axes[:, 0], label="K for one standard deviation")
plt.show()

# %%
# The first component is one region that goes on from the left edge of the map to the right one, because the
# longitudes are periodic; the second one is the patch south of the Indian Ocean. Their scores follow the
# simulated time courses. Land is grey.
#
# Fields can be made of some of the components. The first one alone, at one place in 1995, in
# kelvin:

one = model.inverse_transform(scores.sel(component=1))
print(one.sel(lat=2.5, lon=-147.5, time="1995").round(2).values)
