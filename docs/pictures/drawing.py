"""How the pictures of the site are drawn and saved."""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

FOLDER = Path(__file__).resolve().parents[1] / "images"
# Loadings that are not zero are never white: from dark blue to light blue, and from orange to dark red.
COLOURS = LinearSegmentedColormap.from_list(
    "loadings", [(0, "#16336e"), (0.4999, "#9cc9ec"), (0.5001, "#fdc692"), (1, "#8f0d25")]
)
plt.rcParams.update(
    {"font.size": 9, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False}
)


def save(figure, name):
    """Write a picture as WebP, which every browser shows, and say how large it is."""
    file = FOLDER / f"{name}.webp"
    figure.savefig(
        file, dpi=150, bbox_inches="tight", pad_inches=0.05, pil_kwargs={"quality": 82, "method": 6}
    )
    plt.close(figure)
    print(f"{file.name}: {file.stat().st_size / 1024:.0f} kB", flush=True)


def on(mask, values, outside=np.nan):
    """Values of the features of a mask as an array of its shape."""
    image = np.full(mask.shape, outside, dtype=float)
    image[mask] = values
    return image


def empty(axes, title=None):
    """Remove ticks and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    if title is not None:
        axes.set_title(title)


def show(axes, image, background=None, grey=(0.0, 1.0), title=None):
    """Draw an image of loadings, red and blue, with nothing where they are zero, over a grey background."""
    if background is not None:
        axes.imshow(background, cmap="gray", origin="lower", vmin=grey[0], vmax=grey[1])
    limit = (
        np.nanquantile(np.abs(image[np.nan_to_num(image) != 0]), 0.99) if np.nansum(np.abs(image)) else 1.0
    )
    shown = np.where(np.nan_to_num(image) == 0, np.nan, image)
    axes.imshow(shown, cmap=COLOURS, vmin=-limit, vmax=limit, origin="lower", interpolation="nearest")
    empty(axes, title)
