"""Names of the labels of an atlas: tables, FreeSurfer's lists and the XML files of FSL and AAL."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from spcatv._util.files import read_bytes, read_text
from spcatv.report.material import ReportError

# Bytes of a file of names.
LARGEST_NAMES = 2**26
NUMBER_COLUMNS = ("index", "label", "value", "id", "number")
NAME_COLUMNS = ("name", "region", "roi", "structure", "abbreviation")
IMAGE_SUFFIXES = (".nii.gz", ".nii")
# what distinguishes the images of one FSL atlas: kind, threshold and voxel size
FSL_VARIANT = re.compile(r"-(maxprob|prob|thr\d+|\d+mm)(?=-|$)")


def read_names(file: Path) -> dict[int, str]:
    """Names of labels by their numbers.

    From a table with a header (``.tsv``, ``.csv``), from lines that begin with a number and a name, or from
    an XML file of FSL or AAL (``.xml``).
    """
    if file.suffix.lower() == ".xml":
        return read_xml(file).names
    text = read_text(file, "table of labels", ReportError, largest=LARGEST_NAMES)
    lines = [line for line in text.splitlines() if line.strip()]
    if file.suffix.lower() in (".tsv", ".csv"):
        pairs: Sequence[tuple[str, str]] = _table_pairs(file, lines)
    else:
        words = [line.split() for line in lines if not line.lstrip().startswith("#")]
        pairs = [(line[0], line[1] if len(line) > 1 else "") for line in words]
    return _numbered(pairs, file)


def _table_pairs(file: Path, lines: Sequence[str]) -> list[tuple[str, str]]:
    try:
        rows = list(csv.DictReader(lines, delimiter="," if file.suffix.lower() == ".csv" else "\t"))
    except csv.Error as error:  # such as a cell of more than 131,072 characters
        raise ReportError(f"{file}: cannot be read as a table of labels ({error})") from error
    columns = {str(name).strip().lower(): name for name in (rows[0] if rows else {})}
    number = next((columns[name] for name in NUMBER_COLUMNS if name in columns), None)
    name = next((columns[name] for name in NAME_COLUMNS if name in columns), None)
    if number is None or name is None:
        raise ReportError(
            f"{file}: a table of labels has a column of numbers ({', '.join(NUMBER_COLUMNS)}) and one of "
            f"names ({', '.join(NAME_COLUMNS)}); this one has {', '.join(columns) or 'none'}"
        )
    return [(str(row[number] or ""), str(row[name] or "")) for row in rows]


def _numbered(pairs: Iterable[tuple[str, str]], file: Path) -> dict[int, str]:
    try:
        return {int(float(number)): name.strip() for number, name in pairs}
    except (ValueError, OverflowError) as error:  # such as "infinity"
        raise ReportError(f"{file}: a label is a whole number; {error}") from error


@dataclass(frozen=True)
class XmlAtlas:
    """What the XML file of an atlas says."""

    titles: tuple[str, ...]  # what the atlas is called
    images: tuple[str, ...]  # its images, without suffix, as paths below the folder of the file; labels first
    names: dict[int, str]  # names of the labels


def read_xml(file: Path) -> XmlAtlas:
    """Read the XML file of an atlas of FSL or AAL.

    FSL numbers the labels of probabilistic atlases from 0, but the voxels of their images from 1.
    """
    try:
        root = ElementTree.fromstring(read_bytes(file, LARGEST_NAMES))
    except (OSError, ElementTree.ParseError) as error:
        raise ReportError(f"{file}: cannot be read as an XML list of labels ({error})") from error
    shift = int((root.findtext(".//header/type") or "").strip().lower().startswith("prob"))
    pairs = []
    for label in root.iter("label"):
        index, name = label.get("index"), label.text
        if index is None:  # AAL
            index, name = label.findtext("index"), label.findtext("name")
        if index is not None:
            pairs.append((index, name or ""))
    names = {number + shift: name for number, name in _numbered(pairs, file).items()}
    if not names:
        raise ReportError(f'{file}: has no labels; an XML file of FSL has <label index="...">name</label>')
    tags = (".//header/images/summaryimagefile", ".//header/images/imagefile")
    images = [(found.text or "").strip().strip("/") for tag in tags for found in root.iterfind(tag)]
    titles = [root.findtext(f".//header/{tag}") or "" for tag in ("name", "shortname")]
    return XmlAtlas(tuple(filter(None, (*titles, file.stem))), tuple(filter(None, images)), names)


def without_suffix(image: Path) -> str:
    """The name of an image without ``.nii`` or ``.nii.gz``."""
    return next((image.name[: -len(end)] for end in IMAGE_SUFFIXES if image.name.endswith(end)), image.name)


def names_beside(image: Path) -> dict[int, str]:
    """Names from a file beside a label image; empty if there is none.

    The file is called as the image (``.tsv``, ``.csv``, ``.txt``, ``.xml``), or it is an XML file of FSL, in
    the same folder or in the one above, that names the image.
    """
    stem = without_suffix(image)
    for suffix in (".tsv", ".csv", ".txt", ".xml"):
        file = image.with_name(stem + suffix)
        if file.is_file():
            try:
                return read_names(file)
            except ReportError:
                continue  # a note, say, that only happens to lie there
    for file in (*sorted(image.parent.glob("*.xml")), *sorted(image.absolute().parent.parent.glob("*.xml"))):
        try:
            atlas = read_xml(file)
        except ReportError:
            continue
        if FSL_VARIANT.sub("", stem) in {FSL_VARIANT.sub("", Path(name).name) for name in atlas.images}:
            return atlas.names
    return {}
