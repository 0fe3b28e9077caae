"""The model folder: its files, how they are written, and how they are checked before they are used.

    model.json    what was fitted and how, with the SHA-256 of every other file and of itself
    arrays.npz    the arrays that model.json names
    maps/ ...     other files, for other tools

docs/model-folder.md describes the layout for readers in other languages: change both together.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from spcatv._util.files import open_regular
from spcatv._version import __version__
from spcatv.model.arrays import declare, read_arrays, write_arrays
from spcatv.model.folder import ModelError, atomic_folder, standing_folder
from spcatv.model.schema import SCHEMA_VERSION, SavedModel
from spcatv.model.upgrades import upgrade

FORMAT = "spca-tv model"
DOCUMENT = "model.json"
ARRAYS = "arrays.npz"
# The entries of the document that become a `SavedModel`, and their types.
PARTS: dict[str, type] = {"kind": str, "parameters": dict, "fitted": dict, "inputs": dict, "versions": dict}

# Far above anything that this package writes.
LARGEST_DOCUMENT = 2**28
DEEPEST_NESTING = 60


def write_model(
    folder: str | os.PathLike[str], saved: SavedModel, *, extras: Callable[[Path], None] | None = None
) -> Path:
    """Write a model folder, or replace one; a crash leaves the old folder or the new one.

    The folder does not exist yet, is empty, or holds a model and nothing else. `saved` is checked as if it
    were read. `extras` is called with the path of the new folder, to write more files into it (below
    ``maps/``). They become part of the model: their SHA-256 is stored and checked. Returns `folder`.
    """
    document: dict[str, Any] = {"format": FORMAT, "schema_version": SCHEMA_VERSION}
    document |= {name: getattr(saved, name) for name in PARTS}
    document["arrays"] = declare(saved.arrays)
    _check_json(document)
    with atomic_folder(folder, objection=_objection) as temporary:
        try:
            if extras is not None:
                extras(temporary)
            if (temporary / DOCUMENT).exists() or (temporary / ARRAYS).exists():
                raise ModelError(f"extras must not write {DOCUMENT} or {ARRAYS}")
            write_arrays(temporary / ARRAYS, saved.arrays)
            document["files"] = _manifest(temporary)
            document["sha256"] = _document_sha256(document)
            text = json.dumps(document, indent=1, allow_nan=False)
            (temporary / DOCUMENT).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ModelError(f"cannot write the model folder {folder}: {error.strerror or error}") from error
    return Path(folder)


def read_model(folder: str | os.PathLike[str], *, kind: str | None = None) -> SavedModel:
    """Read a model folder of any schema version, after checking it.

    The schema version, the SHA-256 of every file, and the types, shapes and values of the arrays are checked.
    Models of earlier schema versions are brought to the current one. A ModelError of one line says what is
    wrong, also if the model is not of the wanted `kind`. Nothing in the folder is ever executed, and nothing
    larger than its files is allocated.

    Parameters
    ----------
    folder : path
        A model folder.
    kind : {"SPCATV", "ImageSPCATV"}, default=None
        What the model must be; anything by default.

    Returns
    -------
    SavedModel
        Parameters, fitted values and arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.model import read_model
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> folder = SPCATV(2).fit(X).save("model", inputs={"X": "simulated"})
    >>> read_model(folder).inputs["X"]
    'simulated'
    """
    place = standing_folder(Path(folder))
    document = _read_document(place)
    if kind is not None and document["kind"] != kind:
        raise ModelError(
            f"{folder} holds a model of kind {document['kind']!r}, not {kind!r}; load it with "
            f"{document['kind']}.load"
        )
    for name, entry in _checked_manifest(place, document["files"]).items():
        _check_file(place, name, entry)
    arrays = read_arrays(place / ARRAYS, document["arrays"])
    saved = SavedModel(arrays=arrays, **{name: document[name] for name in PARTS}, source=str(folder))
    with saved.naming_source():
        return upgrade(saved, document["schema_version"])


def file_sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file, as hexadecimal digits.

    Parameters
    ----------
    path : path
        A file.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from pathlib import Path
    >>> from spcatv.model import file_sha256
    >>> _ = Path("note.txt").write_bytes(b"hello")
    >>> file_sha256("note.txt")[:16]
    '2cf24dba5fb0a30e'
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _document_sha256(document: Mapping[str, Any]) -> str:
    """SHA-256 of the document without its "sha256" entry; order and white space do not matter."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _files_below(folder: Path) -> list[str]:
    """Names of all files below a folder, relative to it and with forward slashes."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _manifest(folder: Path) -> dict[str, Any]:
    """Size and SHA-256 of every file in a folder that is about to become a model."""
    names = _files_below(folder)
    for name in names:
        if (folder / name).is_symlink():
            raise ModelError(f"{name} is a symbolic link; a model consists of plain files")
    entries = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": file_sha256(folder / name)}
        for name in names
    }
    return _checked_manifest(folder, entries)


def _objection(folder: Path) -> str | None:
    """Why a folder must not be replaced; None if it holds a model and nothing else."""
    try:
        known = {DOCUMENT, *_checked_manifest(folder, _read_document(folder, check=False)["files"])}
    except ModelError:
        return "contains something that is not a model"
    foreign = [name for name in _files_below(folder) if name not in known]
    return f"contains {foreign[0]}, which is not part of the model" if foreign else None


def _read_document(folder: Path, *, check: bool = True) -> dict[str, Any]:
    """Parse ``model.json``; with `check`, also check its schema version, its entries and its SHA-256."""
    path = folder / DOCUMENT
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}")
    if path.is_symlink():
        raise ModelError(f"{path} is a symbolic link; a model consists of plain files")
    if not path.is_file():
        raise ModelError(f"{folder} is not a model folder: it has no {DOCUMENT}")
    try:
        if path.stat().st_size > LARGEST_DOCUMENT:
            raise ModelError(f"{path} is too large for a model: more than {LARGEST_DOCUMENT} bytes")
        document = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=_unique_names, parse_constant=_no_constant
        )
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelError(f"{path} does not describe a model of spca-tv")
    if check:
        _check_document(path, document)
    elif not isinstance(document.get("files"), dict):
        raise ModelError(f"{path} does not list the files of its model")
    return document


def _check_document(path: Path, document: dict[str, Any]) -> None:
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise ModelError(f"{path} has the schema version {version!r}, which does not exist")
    if version > SCHEMA_VERSION:
        raise ModelError(
            f"{path} was written by a newer spca-tv (schema version {version}; spca-tv {__version__} reads "
            f"versions up to {SCHEMA_VERSION}): upgrade the package spca-tv to read it"
        )
    for name, expected in {**PARTS, "arrays": dict, "files": dict, "sha256": str}.items():
        if not isinstance(document.get(name), expected):
            raise ModelError(f"{path} is damaged: its entry {name!r} is missing or has the wrong type")
    if not document["kind"].isidentifier():
        raise ModelError(f"{path} is damaged: {document['kind']!r} is not a kind of model")
    _check_json(document)
    if _document_sha256(document) != document["sha256"]:
        raise ModelError(f"{path} was changed after it was written: its SHA-256 does not match")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the same name appears twice in one object")
    return found


def _check_json(document: Any) -> None:
    """Refuse values that JSON cannot hold, numbers that are not finite, and excessive nesting."""
    waiting: list[tuple[str, int, Any]] = [("", 0, document)]
    while waiting:
        place, depth, value = waiting.pop()
        if depth > DEEPEST_NESTING:
            raise ModelError(f"the model is nested more than {DEEPEST_NESTING} levels deep: see {place[:60]}")
        if isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise ModelError(f"the names in {place or 'a model'} must be strings")
            waiting += [(f"{place}.{name}".lstrip("."), depth + 1, item) for name, item in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(f"{place}[{number}]", depth + 1, item) for number, item in enumerate(value)]
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise ModelError(f"{place} is {value}; a model holds finite numbers only")
        elif not (value is None or isinstance(value, (bool, int, str))):
            raise ModelError(f"{place} is a {type(value).__name__}, which cannot be kept in a model folder")


def _checked_manifest(folder: Path, files: dict[str, Any]) -> dict[str, Any]:
    """Check that all files a model names lie inside its folder, and return them."""
    for name in files:
        parts = PurePosixPath(name).parts
        inside = not name.startswith("/") and "\\" not in name and ":" not in name and "\0" not in name
        if not parts or not inside or ".." in parts or str(PurePosixPath(name)) != name:
            raise ModelError(f"the model {folder} names the file {name!r}, which is not inside the folder")
    if ARRAYS not in files:
        raise ModelError(f"the model {folder} does not list its file {ARRAYS}")
    return files


def _check_file(folder: Path, name: str, entry: Any) -> None:
    path = folder / name
    size, digest = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    # a symbolic link may lead out of the folder, and so may a link in place of a folder above the file
    linked = path.is_symlink() or path.resolve() != folder.resolve() / name
    if linked or not path.is_file():
        raise ModelError(f"{path} is missing or not a plain file: the model is incomplete")
    try:
        found = path.stat().st_size
        if found != size:
            raise ModelError(f"{path} has {found} bytes instead of {size}: truncated or changed")
        if file_sha256(path) != digest:
            raise ModelError(f"{path} was changed after it was written: its SHA-256 does not match")
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
