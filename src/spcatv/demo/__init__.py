"""The demonstration: the simulated images of the paper, then simulated cohorts in files on real brains."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from spcatv.demo.brains import Command, require_images, run_surface, run_volume
from spcatv.demo.dots import run_dots

PARTS = ("dots", "volume", "surface")


def run_demo(
    folder: Path, *, spca_tv: Command, parts: Sequence[str] = PARTS, seed: int = 0
) -> tuple[Path, ...]:
    """Run parts of the demonstration ("dots", "volume", "surface"), one after the other.

    Pictures, tables and files go to an existing folder (`prepare_folder`). `spca_tv` is the command line: it
    takes arguments and returns an exit code. Everything that is printed is a `spcatv.progress.Message`.
    Returns the reports of the parts on brains. A MissingExtraError comes before any work.
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
