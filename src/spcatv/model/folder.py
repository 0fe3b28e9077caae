"""Model folder: its files, how they are written, and how they are checked before they are used.

    model.json    what was fitted and how, with the SHA-256 of every other file and of itself
    arrays.npz    arrays, without pickle
    maps/ ...     other files, for other tools

docs/model-folder.md describes the layout for readers in other languages. A class that is saved field by field
(`recordable`) is part of the format: renaming a field changes the format. Then raise `SCHEMA_VERSION`, let
`read_model` bring folders of the previous version to the new one, and keep such a folder for a test.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from spcatv._util.atomic_files import atomic_folder, open_regular, os_errors, read_text, standing_folder
from spcatv._util.types import Array
from spcatv._version import __version__
from spcatv.model.codec import ModelError, checked

SCHEMA_VERSION = 1
FORMAT = "spca-tv model"
DOCUMENT = "model.json"
ARRAYS = "arrays.npz"
# The entries of the document that become a `SavedModel`, and their types.
PARTS: dict[str, Any] = {"kind": str, "parameters": dict, "fitted": dict, "inputs": dict, "versions": dict}
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
IMAGE_PACKAGES = ("nilearn", "nibabel")  # of models of images
# Names of arrays: letters and digits with single separators between them, safe file names on every system.
ARRAY_NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")


def current_versions(*others: str) -> dict[str, str]:
    """Return the versions of Python, of this package, of the packages it computes with, and of others."""
    versions = {"python": platform.python_version(), "spca-tv": __version__}
    return versions | {name: metadata.version(name) for name in (*PACKAGES, *others)}


@dataclass(frozen=True, eq=False)
class SavedModel:
    """Contents of a model folder.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.model import read_model
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> saved = read_model(SPCATV(2).fit(X).save("model"))
    >>> saved.kind, saved.parameters["n_components"], saved.arrays["components"].shape
    ('SPCATV', 2, (2, 30))
    >>> with saved.naming_source():  # an error inside names the folder
    ...     raise KeyError("mean")
    Traceback (most recent call last):
        ...
    spcatv.model.codec.ModelError: model: KeyError: 'mean'
    """

    kind: str  # class of the estimator, such as "SPCATV"
    parameters: dict[str, Any]  # JSON; values as `spcatv.model.pack` describes them
    # JSON: weights, diagnostics, and whatever else the fit found that is not an array
    fitted: dict[str, Any]
    arrays: dict[str, Array]  # plain finite numbers
    # JSON: names and SHA-256 of what the model was fitted to
    inputs: dict[str, Any] = field(default_factory=dict)
    # JSON: versions of the software that saved the model; those of this process by default
    versions: dict[str, Any] = field(default_factory=current_versions)
    source: str = ""  # the folder, for messages

    @contextmanager
    def naming_source(self) -> Iterator[None]:
        """Turn any error that a damaged model causes into a ModelError that names its folder."""
        try:
            yield
        except Exception as error:  # a model may be damaged anywhere, and is checked where it is used
            if isinstance(error, ModelError) and self.source in str(error):
                raise
            what = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
            raise ModelError(f"{self.source}: {what}" if self.source else what) from error


def write_model(
    folder: str | os.PathLike[str], saved: SavedModel, *, extras: Callable[[Path], None] | None = None
) -> Path:
    """Write a model folder, or replace one; a crash leaves the old folder or the new one.

    Parameters
    ----------
    folder : path
        It does not exist yet, is empty, or holds a model and nothing else.
    saved : SavedModel
        Contents of the folder.
    extras : callable, default=None
        Called with the path of the new folder, to write more files into it (below ``maps/``). They become
        part of the model: their SHA-256 is stored and checked.

    Returns
    -------
    Path
        The folder.
    """
    document: dict[str, Any] = {"format": FORMAT, "schema_version": SCHEMA_VERSION}
    document |= {name: getattr(saved, name) for name in PARTS}
    try:
        _document_sha256(document)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the model cannot be written as JSON: {error}") from error
    for name, array in saved.arrays.items():
        _check_array(name, array)
    with (
        atomic_folder(folder, ModelError, objection=_objection) as temporary,
        os_errors(ModelError, f"cannot write the model folder {folder}"),
    ):
        if extras is not None:
            extras(temporary)
        if (temporary / DOCUMENT).exists() or (temporary / ARRAYS).exists():
            raise ModelError(f"extras must not write {DOCUMENT} or {ARRAYS}")
        in_order: dict[str, Any] = dict(sorted(saved.arrays.items()))  # equal models have equal files
        np.savez(temporary / ARRAYS, **in_order)
        document["files"] = _manifest(temporary)
        document["sha256"] = _document_sha256(document)
        text = json.dumps(document, indent=1, allow_nan=False)
        (temporary / DOCUMENT).write_text(text + "\n", encoding="utf-8")
    return Path(folder)


def read_model(folder: str | os.PathLike[str], *, kind: str | None = None) -> SavedModel:
    """Read a model folder, after checking it.

    The schema version, the SHA-256 of every file, and the types and values of the arrays are checked. A
    ModelError of one line says what is wrong, also if the model is not of the wanted `kind`. Nothing in the
    folder is ever executed.

    Parameters
    ----------
    folder : path
        A model folder.
    kind : {"SPCATV", "ImageSPCATV"}, default=None
        Required kind of model; any by default.

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
    _check_document(place / DOCUMENT, document)
    if kind is not None and document["kind"] != kind:
        raise ModelError(
            f"{folder} holds a model of kind {document['kind']!r}, not {kind!r}; load it with "
            f"{document['kind']}.load"
        )
    there = set(_files_below(place))
    for name, entry in {ARRAYS: None, **document["files"]}.items():
        if name not in there:
            raise ModelError(f"{place / name} is missing or not a plain file: the model is incomplete")
        _check_file(place / name, entry)
    parts = {name: document[name] for name in PARTS}
    return SavedModel(arrays=_read_arrays(place / ARRAYS), **parts, source=str(folder))


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits.

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
    """Return the SHA-256 of the document without its "sha256" entry; order and white space do not matter."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _files_below(folder: Path) -> list[str]:
    """Return the names of all plain files below a folder, relative to it, with forward slashes."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the size and the SHA-256 of every file below a folder."""
    return {
        name: {"bytes": (folder / name).stat().st_size, "sha256": file_sha256(folder / name)}
        for name in _files_below(folder)
    }


def _objection(folder: Path) -> str | None:
    """Return why a folder must not be replaced; None if it holds a model and nothing else."""
    try:
        known = {DOCUMENT, ARRAYS, *_read_document(folder)["files"]}
    except (ModelError, KeyError, TypeError):
        return "contains something that is not a model"
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    foreign = sorted({path.relative_to(folder).as_posix() for path in paths} - known)
    return f"contains {foreign[0]}, which is not part of the model" if foreign else None


def _read_document(folder: Path) -> dict[str, Any]:
    """Parse ``model.json``."""
    path = folder / DOCUMENT
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}")
    if path.is_symlink():
        raise ModelError(f"{path} is a symbolic link; a model consists of plain files")
    if not path.is_file():
        raise ModelError(f"{folder} is not a model folder: it has no {DOCUMENT}")
    try:
        document = json.loads(
            read_text(path, "description of a model", ModelError),
            object_pairs_hook=_unique_names,
            parse_constant=_finite,
            parse_float=_finite,
        )
    except ModelError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelError(f"{path} does not describe a model of spca-tv")
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
    for name, expected in {**PARTS, "files": dict, "sha256": str}.items():
        checked(document.get(name), expected, f"{path} is damaged: its entry {name!r}")
    if not document["kind"].isidentifier():
        raise ModelError(f"{path} is damaged: {document['kind']!r} is not a kind of model")
    if _document_sha256(document) != document["sha256"]:
        raise ModelError(f"{path} was changed after it was written: its SHA-256 does not match")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the same name appears twice in one object")
    return found


def _check_file(path: Path, entry: Any) -> None:
    """Compare a file with its size and SHA-256 in the document."""
    size, digest = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    with os_errors(ModelError, f"cannot read {path}"):
        found = path.stat().st_size
        if found != size:
            raise ModelError(f"{path} has {found} bytes instead of {size}: truncated or changed")
        if file_sha256(path) != digest:
            raise ModelError(f"{path} was changed after it was written: its SHA-256 does not match")


def _read_arrays(path: Path) -> dict[str, Array]:
    """Read plain finite numbers; a ModelError if the file is damaged, or holds anything else."""
    try:
        with opened_npz(path) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"{path} is damaged, or not a file of arrays: {reason}") from error
    for name, array in arrays.items():
        _check_array(name, array, f" of {path}")
    return arrays


def _check_array(name: str, array: Array, where: str = "") -> None:
    """Raise a ModelError unless the array has a safe name and holds plain finite numbers."""
    if not ARRAY_NAME.fullmatch(name):
        raise ModelError(f"{name!r}{where} cannot name an array: use letters, digits and single . _ -")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ModelError(f"the array {name!r}{where} has the type {array.dtype}; only plain numbers are kept")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        n_wrong = int(array.size - np.isfinite(array).sum())
        raise ModelError(f"the array {name!r}{where} holds {n_wrong} values that are NaN or infinite")


@contextmanager
def opened_npz(path: Path) -> Iterator[NpzFile]:
    """Open an ``.npz`` file; errors of a damaged one in the ``with`` block become ValueErrors."""
    with open_regular(path) as file:
        try:
            yield NpzFile(file, allow_pickle=False)
        except ValueError:
            raise
        except Exception as error:  # NumPy and its decoders raise nearly anything for a damaged file
            raise ValueError(str(error) or type(error).__name__) from error
