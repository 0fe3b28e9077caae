"""Pictures of the pages about structures: `python docs/pictures/structures.py`.

The code of a page runs as it stands there; this file only draws what it leaves behind.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from drawing import COLOURS, empty, plt, save, show
from markdown_blocks import read_blocks


def names_of(page):
    """Run the code of a page, and return its names."""
    names = {}
    text = (ROOT / "docs" / "structures" / f"{page}.md").read_text(encoding="utf-8")
    for block in read_blocks(text):
        exec(compile(block.text, page, "exec"), names)
    return names


def aligned(model, truth):
    """Draw the first component, with the sign of the truth."""
    v = model.components_[0]
    return v if v @ np.ravel(truth) >= 0 else -v


def graph():
    """Sensors, coloured by truth and loadings."""
    names = names_of("graph")
    places, edges = names["places"], names["adjacency"].tocoo()
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.1), layout="constrained")
    fields = (
        ("the truth, and who is next to whom", names["truth"].astype(float)),
        ("no structure", aligned(names["plain"], names["truth"])),
        ("graph", aligned(names["model"], names["truth"])),
    )
    for cell, (title, v) in zip(axes, fields, strict=True):
        for i, j in zip(edges.row, edges.col, strict=True):
            cell.plot(*places[[i, j]].T, color="#c9c9c9", linewidth=0.5, zorder=1)
        limit, on = np.abs(v).max(), v != 0
        cell.scatter(*places[~on].T, s=12, color="#9a9a9a", zorder=2)
        cell.scatter(*places[on].T, s=34, c=v[on], cmap=COLOURS, vmin=-limit, vmax=limit, zorder=3)
        empty(cell, title)
    save(figure, "structure-graph")


def groups():
    """Draw loadings of genes, with the pathways of the truth shaded."""
    names = names_of("groups")
    figure, axes = plt.subplots(2, 1, figsize=(9, 3), layout="constrained", sharex=True)
    fits = (("no structure", "plain"), ("groups", "model"))
    for cell, (title, name) in zip(axes, fits, strict=True):
        v = aligned(names[name], names["truth"])
        for pathway in (names["pathways"][3], names["pathways"][8]):
            cell.axvspan(pathway[0] - 0.5, pathway[-1] + 0.5, color="#e4e4e4")
        cell.bar(np.arange(len(v)), v, color=np.where(v > 0, "#b2182b", "#2166ac"))
        cell.axhline(0, color="black", linewidth=0.5)
        cell.set(ylabel="loading", title=title)
    axes[1].set_xlabel("gene (shaded: the two pathways that vary)")
    save(figure, "structure-groups")


def stack():
    """Sensors by time."""
    names = names_of("stack")
    titles = {"time": "grid in time", "sensors": "groups of sensors", "both": "stack of both"}
    figure, axes = plt.subplots(1, 4, figsize=(9, 1.9), layout="constrained")
    shown = {"the truth": names["truth"].ravel()}
    shown |= {titles[name]: aligned(model, names["truth"]) for name, model in names["fits"].items()}
    for cell, (title, v) in zip(axes, shown.items(), strict=True):
        show(cell, v.reshape(names["truth"].shape), np.full(names["truth"].shape, 0.93), title=title)
        cell.set_aspect("auto")
        cell.set_xlabel("time")
    axes[0].set_ylabel("sensor")
    save(figure, "structure-stack")


def concat():
    """Draw an image and a spectrum, truth and estimate."""
    names = names_of("concat")
    sign = np.sign(names["model"].components_[0] @ names["truth"])
    figure, axes = plt.subplots(1, 4, figsize=(9, 2.1), layout="constrained", width_ratios=(1, 1.6, 1, 1.6))
    parts = (
        names["image"],
        names["spectrum"],
        sign * names["in_image"].reshape(24, 24),
        sign * names["in_spectrum"],
    )
    titles = ("the truth: image", "spectrum", "SPCA-TV: image", "spectrum")
    for cell, part, title in zip(axes, parts, titles, strict=True):
        if part.ndim == 2:
            show(cell, part, np.full(part.shape, 0.93), title=title)
        else:
            cell.step(np.arange(len(part)), part, color="#b2182b", where="mid")
            cell.set(title=title, yticks=[0])
    save(figure, "structure-concat")


def from_matrix():
    """Draw a triangle, found by steps and by lines."""
    names = names_of("from-matrix")
    truth = names["truth"]
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.3), layout="constrained", sharey=True)
    fits = (("grid: steps", "steps"), ("second differences: lines", "lines"))
    for cell, (title, name) in zip(axes, fits, strict=True):
        cell.plot(truth / np.linalg.norm(truth), color="#8c8c8c", linewidth=3, label="the truth")
        cell.plot(aligned(names[name], truth), color="#b2182b", label="loading")
        cell.set(title=title, xlabel="feature")
    axes[0].legend(frameon=False, fontsize=8)
    save(figure, "structure-from-matrix")


if __name__ == "__main__":
    for picture in (graph, groups, stack, concat, from_matrix):
        picture()
