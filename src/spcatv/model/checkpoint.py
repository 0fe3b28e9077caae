"""Checkpoints: a folder that keeps finished pieces of long work, so that a killed run loses little.

A checkpoint has one folder per stage of the work, such as the chains of a selection or the components of a
fit. It holds ``about.json``, which describes everything that the stage depends on (data, parameters and
versions), and one record per finished piece. A record is written whole or not at all, with checksums; a
damaged one counts as missing. Reading a record (JSON and arrays, see `spcatv.model.codec`) executes no code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from spcatv._util.atomic_files import locked, replacing
from spcatv._util.devices import on_gpu, to_host
from spcatv._util.threads import in_order, threads_for
from spcatv._util.types import Array
from spcatv.data import Data
from spcatv.model.codec import PLAIN, ModelError, pack, unpack
from spcatv.model.folder import current_versions, opened_npz

T = TypeVar("T")

ABOUT, LOCK, SUFFIX = "about.json", ".lock", ".record"
# Number of differences that a message names; the rest are counted.
MOST_NAMED = 5
# Characters of a value that a message shows.
LONGEST_SHOWN = 40
# Parameters of estimators that change no number of a result.
WITHOUT_EFFECT = ("checkpoint", "n_jobs", "verbose", "memory_limit")
# Bytes of the digest of a sample.
DIGEST_BYTES = 24
# Entries of X that are hashed together.
HASHED_ENTRIES = 1 << 20


class CheckpointError(Exception):
    """Error of a checkpoint that was made with other settings, is in use, or cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATVCV
    >>> from spcatv.selection import CheckpointError
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> search = SPCATVCV(1, sparsity=[0.4, 0.6], smoothness=1.0, cv=2, checkpoint="checkpoint").fit(X)
    >>> try:
    ...     search.fit(2 * X)
    ... except CheckpointError as error:
    ...     print(error)
    the checkpoint checkpoint was made with other data or settings: X differs
    """


class CheckpointMismatchError(CheckpointError):
    """Error of a checkpoint of other data, parameters or versions; `differences` names them in words."""

    def __init__(self, folder: Path, differences: str) -> None:
        super().__init__(f"the checkpoint {folder} was made with other data or settings: {differences}")
        self.differences = differences


class Stage:
    """Records of one stage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def __contains__(self, name: str) -> bool:
        return self.load(name) is not None

    def load(self, name: str) -> Any:
        """Return the result of a piece; None if there is none, or it is damaged."""
        try:
            with opened_npz(self._file(name)) as archive:
                if archive.zip is None or archive.zip.testzip() is not None:  # a checksum is wrong
                    return None
                arrays = dict(archive)
            return unpack(json.loads(arrays["state"].tobytes()), arrays)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, name: str, result: Any) -> None:
        """Keep the result of a piece, which is not None."""
        try:
            state, arrays = pack(result, "result")
        except ModelError as error:
            raise CheckpointError(f"no checkpoint can be kept: {error}") from error
        arrays["state"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
        with _writing(self._folder.parent), replacing(self._file(name)) as path, path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    def recall(self, name: str, make: Callable[[], T]) -> T:
        """Return the result that is kept, or else make and keep one."""
        known: T | None = self.load(name)
        if known is not None:
            return known
        result = make()
        self.save(name, result)
        return result

    def forget(self, prefix: str) -> None:
        """Remove the records whose names begin with `prefix`."""
        for file in self._folder.glob(f"{prefix}*{SUFFIX}"):
            file.unlink(missing_ok=True)


class Checkpoint:
    """Folder of stages, used by one process at a time (`checkpointing`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._n_stages: Counter[str] = Counter()

    def stage(self, name: str, about: Mapping[str, Any]) -> Stage:
        """Return the next stage of this name, with the records that are there.

        `about` is everything that its results depend on. A CheckpointMismatchError names what differs if the
        records depend on something else.
        """
        self._n_stages[name] += 1
        folder = self.folder / f"{name}-{self._n_stages[name]}"
        wanted = json.loads(json.dumps({"versions": current_versions(), **describe(about)}))
        found = _read_about(folder)
        if found is not None and found != wanted:
            raise CheckpointMismatchError(self.folder, differences(found, wanted))
        with _writing(self.folder):
            if found is None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                with replacing(folder / ABOUT) as file:
                    file.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
            for file in folder.glob(f".*{SUFFIX}"):  # half of a record of a killed process
                file.unlink(missing_ok=True)
        return Stage(folder)

    def stage_of_calls(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Stage:
        """Return the stage of calls of a function, which depends on their arguments: one record per call."""
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        about: dict[str, Any] = {"number of calls": len(calls)}
        for place, values in enumerate(zip(*calls, strict=True)):
            same = all(value is values[0] for value in values)
            about[names[place] if place < len(names) else str(place)] = values[0] if same else values
        return self.stage(function.__name__.strip("_"), about)


def n_records(folder: Path) -> int:
    """Return the number of finished pieces in a checkpoint."""
    return sum(1 for _ in folder.glob(f"*/[!.]*{SUFFIX}"))


_current: ContextVar[Checkpoint | None] = ContextVar("spcatv_checkpoint", default=None)


def current_checkpoint() -> Checkpoint | None:
    """Return the checkpoint of the surrounding ``with`` block, or None."""
    return _current.get()


@contextmanager
def checkpointing(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Resume the work of a ``with`` block from a folder, and keep there what is finished.

    Fits keep every component and every start that they compare; `SPCATVCV` every chain
    of fits, `bootstrap_components` every resample, and `split_halves` every split. A process that is killed
    loses the pieces that it was working on. The same block, run again, ends with the same numbers to the last
    bit as one that was never interrupted.

    Parameters
    ----------
    folder : path or None
        Created if it does not exist. Use one folder per block, and delete it when you no longer need it.
        None keeps nothing.

    Raises
    ------
    CheckpointError
        If the folder holds records of other data, parameters or versions (the message names what differs), is
        in use by another process, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import checkpointing
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> folder = tempfile.mkdtemp()  # take one that outlives the process
    >>> with checkpointing(folder):
    ...     model = SPCATV(2, sparsity=0.5).fit(X)
    >>> with checkpointing(folder):  # nothing is left to do
    ...     again = SPCATV(2, sparsity=0.5).fit(X)
    >>> np.array_equal(model.components_, again.components_)
    True
    """
    if folder is None:
        yield
        return
    place = Path(folder).expanduser()
    with ExitStack() as stack:
        with _writing(place):
            place.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(locked(place / LOCK))
            except BlockingIOError as error:
                raise CheckpointError(
                    f"the checkpoint {place} is in use by another run; wait for it to end"
                ) from error
        stack.enter_context(_using(Checkpoint(place)))
        yield


def no_checkpoint() -> AbstractContextManager[None]:
    """Return a context manager that keeps nothing: its work is part of a piece that is kept as a whole."""
    return _using(None)


@contextmanager
def _using(checkpoint: Checkpoint | None) -> Iterator[None]:
    token = _current.set(checkpoint)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an OSError into a CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {folder} ({error.strerror or error}); its records are kept: make "
            "room, and run the same again"
        ) from error


def _read_about(folder: Path) -> Any:
    try:
        return json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def differences(found: Any, wanted: Any) -> str:
    """Return what differs between two descriptions: "tol is 0.1 there and 0.01 here; X differs"."""
    there, here = _flat(found), _flat(wanted)
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    texts = []
    for name in names[:MOST_NAMED]:
        shown = [_shown(values.get(name)) for values in (there, here)]
        short = max(map(len, shown)) <= LONGEST_SHOWN
        differ = "differ" if name == "files" else "differs"
        texts.append(f"{name} is {shown[0]} there and {shown[1]} here" if short else f"{name} {differ}")
    more = len(names) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def _shown(value: Any) -> str:
    return "not given" if value is None else json.dumps(value)


def _flat(described: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one, with dots between the names."""
    flat: dict[str, Any] = {}
    for name, value in described.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def describe(value: Any) -> Any:
    """Return JSON that two values share if, and only if, they are equal; arrays and data become digests."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        items = [describe(item) for item in value]
        return items if all(isinstance(item, PLAIN) for item in items) else _digest(items)
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, Data)) or on_gpu(value):
        return _describe_data(value)
    if hasattr(value, "get_params"):
        given = value.get_params(deep=False)
        return {name: describe(item) for name, item in given.items() if name not in WITHOUT_EFFECT}
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: describe(getattr(value, f.name)) for f in fields(value)}
        return {"kind": _name(type(value)), **own}
    if isinstance(value, np.random.SeedSequence):
        return [value.entropy, *value.spawn_key]
    if isinstance(value, np.random.RandomState):
        return _digest(describe(value.get_state()))
    if sp.issparse(value):
        csr: Any = value.tocsr()  # type: ignore[attr-defined]
        return describe((csr.data, csr.indices, csr.indptr))
    if isinstance(value, (Path, np.dtype)):
        return str(value)
    if hasattr(value, "__qualname__"):
        return _name(value)
    raise CheckpointError(f"a {_name(type(value))} cannot be recognised again: no checkpoint can be kept")


def _describe_data(value: Any) -> str:
    """Return shape, precision and digest; the same for an array of samples and for `Data` that hold it."""
    array = to_host(value)
    if not isinstance(array, np.ndarray):
        digests = value.each_block(partial(_digests, dtype=value.dtype), HASHED_ENTRIES)[0]
    else:
        digests = _digests(None, array if array.ndim > 1 else [array], array.dtype)[0]
    shape = " x ".join(map(str, value.shape))
    return f"{shape} {value.dtype} {hashlib.sha256(digests.data).hexdigest()}"


def _digests(_: Any, rows: Any, dtype: Any) -> tuple[Array, None]:
    """Return the digests of samples in the given precision, as rows of bytes."""
    if np.dtype(dtype).hasobject:
        raise CheckpointError(
            "an array of Python objects cannot be recognised again: no checkpoint can be kept"
        )

    def digest(number: int) -> bytes:
        row = np.ascontiguousarray(to_host(rows[number]), dtype)
        return hashlib.blake2b(row.data, digest_size=DIGEST_BYTES).digest()

    found: list[bytes] = []
    n_entries = sum(row.size for row in rows[:1]) * len(rows)
    in_order(digest, found.append, len(rows), min(threads_for(n_entries, HASHED_ENTRIES), len(rows) or 1))
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, DIGEST_BYTES), None


def _digest(described: Any) -> str:
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
