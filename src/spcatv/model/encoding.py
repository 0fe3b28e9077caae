"""Results as bytes and back, and what they depend on as JSON; nothing is pickled, and nothing is executed."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from spcatv._util.devices import on_gpu, to_host
from spcatv._util.threads import in_order, threads_for
from spcatv._util.types import Array, FloatArray
from spcatv.data import Data, each_block

Kind = TypeVar("Kind", bound=type)

RECORDABLE: dict[str, type] = {}
PLAIN = (type(None), bool, int, float, str)
# Parameters of estimators that change no number of a result.
OF_NO_EFFECT = ("checkpoint", "n_jobs", "verbose", "memory_limit")
# Bytes of the digest of a sample. Six of them at a time make a number that float64 holds exactly.
DIGEST_BYTES, NUMBER_BYTES = 24, 6
# Entries of X that are hashed together.
HASHED_ENTRIES = 1 << 20


class CheckpointError(Exception):
    """A checkpoint cannot be used: it is of other work, damaged, in use, or cannot be written or read.

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
    the checkpoint checkpoint is of other work: X differs
    """


def recordable(kind: Kind) -> Kind:
    """Let records hold a dataclass; its name is the key under which they find it again."""
    RECORDABLE[kind.__name__] = kind
    return kind


def encode(value: Any) -> bytes:
    """A value as bytes: a SHA-256 and, after it, an ``.npz`` file of a JSON text and arrays.

    The value consists of plain numbers, strings, None, arrays, tuples, lists, dictionaries and `recordable`
    dataclasses.
    """
    arrays: list[Array] = []
    text = json.dumps(_state(value, arrays)).encode()
    file = io.BytesIO()
    np.savez(file, np.frombuffer(text, np.uint8), *arrays)
    content = file.getbuffer()
    return b"%s\n%s" % (hashlib.sha256(content).hexdigest().encode(), content)


def decode(record: bytes) -> Any:
    """The value that `encode` has written, or a CheckpointError if it is damaged."""
    digest, _, content = record.partition(b"\n")
    if digest != hashlib.sha256(content).hexdigest().encode():
        raise CheckpointError("its checksum is wrong")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        text, *arrays = (archive[f"arr_{number}"] for number in range(len(archive.files)))
    return _value(json.loads(text.tobytes()), arrays)


def _state(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) or on_gpu(value):
        arrays.append(np.asarray(to_host(value)))
        return {"scalar" if isinstance(value, np.generic) else "array": len(arrays) - 1}
    if type(value) in PLAIN:
        return value
    if type(value) is list:
        return [_state(item, arrays) for item in value]
    if type(value) is tuple:
        return {"tuple": [_state(item, arrays) for item in value]}
    if type(value) is dict:
        return {"dict": [[key, _state(item, arrays)] for key, item in value.items()]}
    name = type(value).__name__
    if RECORDABLE.get(name) is not type(value) or not is_dataclass(value):
        raise CheckpointError(f"a {name} cannot be kept in a checkpoint")
    return {"record": name, "fields": {f.name: _state(getattr(value, f.name), arrays) for f in fields(value)}}


def _value(state: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(state, list):
        return [_value(item, arrays) for item in state]
    if not isinstance(state, dict):
        return state
    if "record" in state:
        kind = RECORDABLE[state["record"]]
        return kind(**{name: _value(item, arrays) for name, item in state["fields"].items()})
    ((kind, content),) = state.items()
    readers: dict[str, Callable[[], Any]] = {
        "array": lambda: arrays[content],
        "scalar": lambda: arrays[content][()],
        "tuple": lambda: tuple(_value(item, arrays) for item in content),
        "dict": lambda: {key: _value(item, arrays) for key, item in content},
    }
    return readers[kind]()


def description(value: Any) -> Any:
    """JSON that two values share if, and only if, they are the same; arrays and data count by a digest."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        items = [description(item) for item in value]
        return items if all(isinstance(item, PLAIN) for item in items) else _digest(items)
    if isinstance(value, Mapping):
        return {str(key): description(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, Data)) or on_gpu(value):
        return _of_data(value)
    if hasattr(value, "get_params"):
        given = value.get_params(deep=False)
        return {name: description(item) for name, item in given.items() if name not in OF_NO_EFFECT}
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: description(getattr(value, f.name)) for f in fields(value)}
        return {"kind": _name(type(value)), **own}
    return _of_object(value)


def _of_object(value: Any) -> Any:
    if isinstance(value, np.random.SeedSequence):
        return [value.entropy, *value.spawn_key]
    if isinstance(value, np.random.RandomState):
        return _digest(description(value.get_state()))
    if sp.issparse(value):
        csr: Any = value.tocsr()  # type: ignore[attr-defined]
        return description((csr.data, csr.indices, csr.indptr))
    if isinstance(value, (Path, np.dtype)):
        return str(value)
    if hasattr(value, "__qualname__"):
        return _name(value)
    raise CheckpointError(f"a {_name(type(value))} cannot be recognised again: no checkpoint can be kept")


def _of_data(value: Any) -> str:
    """Shape, precision and digest; the same for an array of samples and for `Data` that hold it."""
    array = to_host(value)
    if not isinstance(array, np.ndarray):
        digests = each_block(value, partial(_digests, dtype=value.dtype), HASHED_ENTRIES)[0]
    else:
        digests = _digests(slice(0), array if array.ndim > 1 else [array], array.dtype)[0]
    shape = " x ".join(map(str, value.shape))
    return f"{shape} {value.dtype} {hashlib.sha256(digests.data).hexdigest()}"


def _digests(_: slice, rows: Any, dtype: Any) -> tuple[FloatArray, None]:
    """Digests of samples in the given precision, as numbers: shape (n, 4)."""
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
    starts = range(0, DIGEST_BYTES, NUMBER_BYTES)
    numbers = [[int.from_bytes(item[at : at + NUMBER_BYTES]) for at in starts] for item in found]
    return np.array(numbers, dtype=np.float64).reshape(len(found), len(starts)), None


def _digest(described: Any) -> str:
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
