"""
On a GPU
========

``device="cuda"`` runs the same fit on an NVIDIA GPU, with CuPy (``pip install "spca-tv[gpu12]"``, or
``gpu13``). Without a GPU, this example prints a line and runs on the CPU.
"""

# %%
# Is there a GPU?
# ---------------

import time

import matplotlib.pyplot as plt
import numpy as np

from spcatv import SPCATV

try:
    import cupy

    devices = ["cpu", "cuda"] if cupy.cuda.runtime.getDeviceCount() else ["cpu"]
except Exception as error:  # CuPy has an error of its own for a missing driver
    print(f"no GPU can be used ({type(error).__name__}: {error})")
    devices = ["cpu"]
print(f"fits run on: {', '.join(devices)}")

# %%
# Fits of growing volumes
# -----------------------
# Cubes of noise with a ball in the middle. The first fit on a device compiles what it needs, and is not
# measured. NumPy arrays are copied to the GPU once per fit; arrays that are there already, of CuPy or
# PyTorch, are used where they are.

rng = np.random.default_rng(0)
sides = [8, 16, 24, 32]
seconds = {device: [] for device in devices}
for side in sides:
    place = np.indices((side,) * 3).reshape(3, -1) - side / 2
    ball = np.linalg.norm(place, axis=0) < side / 4
    X = (rng.standard_normal((40, 1)) * ball + rng.standard_normal((40, side**3))).astype("float32")
    for device in devices:
        model = SPCATV(1, structure=(side,) * 3, sparsity=0.93, device=device)
        if side == sides[0]:
            model.fit(X)
        start = time.perf_counter()
        model.fit(X)
        seconds[device].append(time.perf_counter() - start)
    print(f"{side**3:6d} voxels: " + ", ".join(f"{device} {seconds[device][-1]:.3f} s" for device in devices))

# %%
# The result is a NumPy array on both devices, and equal to the tolerance of the fit.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for device, values in seconds.items():
    left.semilogx([side**3 for side in sides], values, marker="o", label=device)
left.set(xlabel="voxels", ylabel="seconds for one fit", title="Time", ylim=(0, None))
left.legend()
middle = model.components_[0].reshape((sides[-1],) * 3)[sides[-1] // 2]
limit = np.abs(middle).max()
right.imshow(middle, cmap="RdBu_r", vmin=-limit, vmax=limit)
right.set(title=f"Middle slice of the component ({device})", xticks=[], yticks=[])
plt.show()

# %%
# The component is the ball. Where there is a GPU, a second curve shows its times: it pays off for large
# volumes, and hardly for the small ones here. ``docs/gpu.md`` has measurements of whole brains.
