"""Checkpoints: what long work has finished is kept in a folder, so that a run that is killed loses little.

A checkpoint has one folder per stage of the work, such as the chains of a selection or the components of a
fit. It holds ``about.json``, which says what the stage depends on: data, parameters and versions; and one
record per finished piece. A record is written whole or not at all, with a checksum (`spcatv.model.encoding`).
One that is damaged counts as missing. Records of other work are refused, never used.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from spcatv._util.files import replacing
from spcatv._util.locks import locked
from spcatv.model.encoding import CheckpointError, decode, description, encode
from spcatv.model.schema import current_versions

T = TypeVar("T")

ABOUT, LOCK, SUFFIX = "about.json", ".lock", ".record"
# Differences that a message names; the rest are counted.
MOST_NAMED = 5
# Values that a message can show.
LONGEST_SHOWN = 40


class OtherWorkError(CheckpointError):
    """A checkpoint is of other data, parameters or versions; `differences` says in words which."""

    def __init__(self, folder: Path, differences: str) -> None:
        super().__init__(f"the checkpoint {folder} is of other work: {differences}")
        self.differences = differences


class Stage:
    """The records of one stage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def __contains__(self, name: str) -> bool:
        return self.load(name) is not None

    def load(self, name: str) -> Any:
        """The result of a piece; None if there is none, or it is damaged."""
        try:
            return decode(self._file(name).read_bytes())
        except (OSError, CheckpointError, ValueError, TypeError, KeyError, EOFError):
            return None

    def save(self, name: str, result: Any) -> None:
        """Keep the result of a piece, which is not None."""
        content = encode(result)
        with _writing(self._folder.parent), replacing(self._file(name)) as file:
            file.write_bytes(content)

    def recall(self, name: str, make: Callable[[], T]) -> T:
        """The result that is kept, or else a new one, which is kept from now on."""
        known: T | None = self.load(name)
        if known is not None:
            return known
        result = make()
        self.save(name, result)
        return result

    def forget(self, prefix: str) -> None:
        """Remove the records whose names begin so."""
        for file in self._folder.glob(f"{prefix}*{SUFFIX}"):
            file.unlink(missing_ok=True)


class Checkpoint:
    """A folder of stages; this process has it for itself (`checkpointing`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._n_stages: Counter[str] = Counter()

    def stage(self, name: str, about: Mapping[str, Any]) -> Stage:
        """The next stage of this name, with whatever records of it are there.

        `about` is everything that its results depend on. An OtherWorkError says what differs if the records
        depend on something else.
        """
        self._n_stages[name] += 1
        folder = self.folder / f"{name}-{self._n_stages[name]}"
        wanted = json.loads(json.dumps({"versions": current_versions(), **description(about)}))
        found = _read_about(folder)
        if found is not None and found != wanted:
            raise OtherWorkError(self.folder, differences(found, wanted))
        with _writing(self.folder):
            if found is None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                with replacing(folder / ABOUT) as file:
                    file.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
            for file in folder.glob(f".*{SUFFIX}"):  # half of a record of a process that was killed
                file.unlink(missing_ok=True)
        return Stage(folder)

    def stage_of_calls(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Stage:
        """The stage of many calls of a function, one record each; their arguments are what it is about."""
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        about: dict[str, Any] = {"number of calls": len(calls)}
        for place, values in enumerate(zip(*calls, strict=True)):
            same = all(value is values[0] for value in values)
            about[names[place] if place < len(names) else str(place)] = values[0] if same else values
        return self.stage(function.__name__.strip("_"), about)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn what a file system says into a CheckpointError."""
    try:
        yield
    except OSError as error:
        what = error.strerror or str(error)
        raise CheckpointError(
            f"cannot write the checkpoint {folder} ({what}); what it holds is kept: make room, and go on"
        ) from error


def _read_about(folder: Path) -> Any:
    try:
        return json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def differences(found: Any, wanted: Any) -> str:
    """What differs between two descriptions, in words: "tol is 0.1 there and 0.01 here; X differs"."""
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
    """Nested dictionaries as one, with dots between the names."""
    flat: dict[str, Any] = {}
    for name, value in described.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def n_records(folder: Path) -> int:
    """How many finished pieces a checkpoint holds."""
    return sum(1 for _ in folder.glob(f"*/[!.]*{SUFFIX}"))


_current: ContextVar[Checkpoint | None] = ContextVar("spcatv_checkpoint", default=None)


def current_checkpoint() -> Checkpoint | None:
    """The checkpoint of the surrounding ``with`` block, or None."""
    return _current.get()


@contextmanager
def checkpointing(folder: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep what is finished inside a ``with`` block in a folder, and take from it what was finished before.

    Fits keep every component and every start that they compare; `SPCATVCV` and `component_curve` every chain
    of fits, `bootstrap_components` every resample, and `split_halves` every split. A process that is killed
    loses the pieces that it was working on. The same block, run again, ends with the same numbers to the last
    bit as one that was never interrupted.

    Parameters
    ----------
    folder : path or None
        It is made if it is not there. Use one folder per block, and delete it when you no longer need it.
        None changes nothing.

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
    with _held(place):
        token = _current.set(Checkpoint(place))
        try:
            yield
        finally:
            _current.reset(token)


@contextmanager
def no_checkpoint() -> Iterator[None]:
    """Keep nothing of what happens inside a ``with`` block: it is a piece of something that is kept."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make the folder of a checkpoint, and lock it inside a ``with`` block."""
    with ExitStack() as stack:
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(locked(folder / LOCK))
            except BlockingIOError as error:
                raise CheckpointError(
                    f"the checkpoint {folder} is in use by another run; wait for it to end"
                ) from error
        yield
