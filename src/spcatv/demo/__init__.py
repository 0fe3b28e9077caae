"""The demonstration: the simulated images of the paper, then simulated cohorts in files on real brains."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from spcatv.demo.brains import Command, require_images, run_surface, run_volume
from spcatv.demo.dots import run_dots

PARTS = ("dots", "volume", "surface")


def run_demo(
    folder: Path,
    *,
    spca_tv: Command,
    parts: Sequence[str] = PARTS,
    seed: int = 0,
) -> tuple[Path, ...]:
    """Run parts of the demonstration, one after the other.

    Everything that it prints is a `spcatv.progress.Message`.

    Parameters
    ----------
    folder : Path
        An existing folder for pictures, tables and files (`prepare_folder`).
    spca_tv : callable
        The command line: takes arguments, returns an exit code.
    parts : sequence of {"dots", "volume", "surface"}, default=all
        What to run.
    seed : int, default=0
        Seed of the simulated data.

    Returns
    -------
    tuple of Path
        The reports of the parts on brains.

    Raises
    ------
    MissingExtraError
        Before any work, if a package is not installed.
    """
    if set(parts) - {"dots"}:
        require_images()
    if "dots" in parts:
        run_dots(folder, seed=seed)
    reports = []
    if "volume" in parts:
        reports.append(run_volume(folder, spca_tv=spca_tv, seed=seed).report)
    if "surface" in parts:
        reports.append(run_surface(folder, spca_tv=spca_tv, seed=seed).report)
    return tuple(reports)


def prepare_folder(folder: Path) -> None:
    """Create `folder` if needed; raise OSError if no file can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
