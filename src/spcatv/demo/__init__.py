"""The demonstration: the paper's simulated images, then simulated cohorts on real brains through files."""

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

    What there is to read is told as `spcatv.progress.Message`s.

    Parameters
    ----------
    folder : Path
        Where to write pictures, tables and files; it must be there (`prepare_folder`).
    spca_tv : callable
        The command line: takes arguments, returns an exit code.
    parts : sequence of {"dots", "volume", "surface"}, default=all
        What to run.
    seed : int, default=0
        Seed of the simulated data.

    Returns
    -------
    tuple of Path
        The reports that were made, of the parts on brains.

    Raises
    ------
    MissingExtraError
        If a package is not installed; before any work.
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
    """Make `folder` if needed and make sure that a file can be written there (else OSError)."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
