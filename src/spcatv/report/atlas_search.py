"""Atlases by name, among those that the user has on disk. Nothing is ever downloaded.

nilearn ships no atlas of labels: its functions ``fetch_atlas_...`` download them to a folder, which is
searched here, as are those of FSL and FreeSurfer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spcatv._util.naming import some_of
from spcatv.report.atlas_names import IMAGE_SUFFIXES, read_xml, without_suffix
from spcatv.report.material import ReportError

# images in nilearn's data folder, and the files that name their labels if they are not called alike
NILEARN_IMAGES = {
    "aal_*/aal/atlas/AAL.nii": "AAL.xml",
    "aal_*/AAL3/AAL3v1.nii": "AAL3v1.xml",
    "destrieux_2009/destrieux2009_rois.nii.gz": "destrieux2009_rois_labels.csv",
    "destrieux_2009/destrieux2009_rois_lateralized.nii.gz": "destrieux2009_rois_labels_lateralized.csv",
    "schaefer_2018/Schaefer2018_*mm.nii.gz": "{order}.txt",
    "yeo_2011/*/Yeo2011_7Networks_*.nii.gz": "Yeo2011_7Networks_ColorLUT.txt",
    "yeo_2011/*/Yeo2011_17Networks_*.nii.gz": "Yeo2011_17Networks_ColorLUT.txt",
}
NILEARN_SURFACE = "destrieux_surface"
# vertices of one hemisphere; each mesh begins with the vertices of the coarser ones
SUBJECTS = {
    "fsaverage3": 642,
    "fsaverage4": 2562,
    "fsaverage5": 10242,
    "fsaverage6": 40962,
    "fsaverage": 163842,
}
IMAGE_ENDS = (*IMAGE_SUFFIXES, ".gii", ".gii.gz", ".annot", ".img", ".hdr", ".mgz")
MOST_LISTED = 12


@dataclass(frozen=True)
class NamedAtlas:
    """An atlas on disk: one label image, or one label file for each of two hemispheres."""

    titles: tuple[str, ...]  # what it is called; the first one is shown
    files: tuple[Path, ...]  # an image, or left and right
    names: Path | None = None  # file that names its labels; None if the label files do

    @property
    def is_surface(self) -> bool:
        """Whether it labels vertices."""
        return len(self.files) == 2


def is_name(atlas: str | os.PathLike[str]) -> bool:
    """Whether this is the name of an atlas rather than a file."""
    text = os.fspath(atlas)
    return Path(text).name == text and not text.lower().endswith(IMAGE_ENDS) and not Path(text).exists()


def find_atlas(name: str, *, voxels: bool, n_vertices: int) -> NamedAtlas:
    """The atlas of this name that fits a model with voxels, or with so many vertices, 0 for none.

    Capitals and punctuation do not matter, and a part of the name is enough if only one atlas has it. A
    ReportError says what was looked for, and where, if there is no such atlas, or several.
    """
    places = _places()
    known = [
        atlas for atlas in _known(places, n_vertices) if (n_vertices > 0 if atlas.is_surface else voxels)
    ]
    wanted = _plain(name)
    whole = [atlas for atlas in known if wanted in {_plain(title) for title in atlas.titles}]
    found = whole or [atlas for atlas in known if any(wanted in _plain(title) for title in atlas.titles)]
    if whole or len(found) == 1:
        return found[0]
    if found:
        raise ReportError(f"several atlases are called {name!r}: {_titles(found)}; give more of the name")
    kinds = " or ".join(filter(None, ("for voxels" * voxels, "for surfaces" * (n_vertices > 0)))) or "at all"
    looked = "; ".join(f"{what}: {folder}" for what, folder in places)
    have = f"There are: {_titles(known)}." if known else f"There is no atlas {kinds} in these places."
    raise ReportError(
        f"no file and no atlas on this machine is called {name!r}. Looked for it in {looked}. {have} "
        "Nothing is downloaded; nilearn.datasets.fetch_atlas_schaefer_2018() and similar functions do that"
    )


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _titles(atlases: Sequence[NamedAtlas]) -> str:
    return some_of(dict.fromkeys(atlas.titles[0] for atlas in atlases), MOST_LISTED)


def _places() -> list[tuple[str, str]]:
    """Where atlases may lie: what the place is, and its folder, or which variable is not set."""
    from nilearn.datasets import get_data_dirs

    home = os.environ.get("FREESURFER_HOME")
    subjects = os.environ.get("SUBJECTS_DIR") or (str(Path(home) / "subjects") if home else None)
    fsl = os.environ.get("FSLDIR")
    return [
        *(("nilearn", str(folder)) for folder in get_data_dirs()),
        ("FSL", str(Path(fsl) / "data" / "atlases") if fsl else "FSLDIR is not set"),
        ("FreeSurfer", subjects or "neither SUBJECTS_DIR nor FREESURFER_HOME is set"),
    ]


def _known(places: Sequence[tuple[str, str]], n_vertices: int) -> Iterator[NamedAtlas]:
    """All atlases in these places, whose surfaces have at least as many vertices as asked for."""
    for what, folder in places:
        place = Path(folder)
        if what == "FSL":
            yield from _of_fsl(place)
        elif what == "FreeSurfer":
            yield from _of_freesurfer(place, n_vertices)
        else:
            yield from _of_fsl(place / "fsl" / "data" / "atlases")
            yield from _of_nilearn(place)


def _of_fsl(folder: Path) -> Iterator[NamedAtlas]:
    for file in sorted(folder.glob("*.xml")):
        try:
            atlas = read_xml(file)
        except ReportError:
            continue
        images = (folder / f"{name}{end}" for name in atlas.images for end in IMAGE_SUFFIXES)
        image = next((path for path in images if path.is_file()), None)
        if image is not None:
            yield NamedAtlas((file.stem, *atlas.titles), (image,), file)


def _of_nilearn(folder: Path) -> Iterator[NamedAtlas]:
    for pattern, names in NILEARN_IMAGES.items():
        for image in sorted(folder.glob(pattern)):
            stem = without_suffix(image)
            table = image.with_name(names.format(order=stem.partition("_FSLMNI")[0]))
            yield NamedAtlas((stem,), (image,), table if table.is_file() else None)
    sides = tuple(folder / NILEARN_SURFACE / f"{side}.aparc.a2009s.annot" for side in ("left", "right"))
    if all(side.is_file() for side in sides):
        yield NamedAtlas(("destrieux_surface", "aparc.a2009s"), sides)


def _of_freesurfer(folder: Path, n_vertices: int) -> Iterator[NamedAtlas]:
    for subject, size in SUBJECTS.items():
        for left in sorted((folder / subject / "label").glob("lh.*.annot")):
            right = left.with_name(left.name.replace("lh.", "rh.", 1))
            if size >= n_vertices and right.is_file():
                name = left.name.removeprefix("lh.").removesuffix(".annot")
                yield NamedAtlas((name, f"{subject} {name}"), (left, right))
