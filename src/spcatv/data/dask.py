"""X as a Dask array: the workers that hold its blocks do the products.

Vectors of length N and P travel, blocks of X do not. A pass over the data is one graph: a task per block, and
a tree of sums whose shape depends on the number of blocks only, so that the answer does not depend on the
number of workers. Nothing lives on a worker that Dask could not make again: a lost worker costs time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self
from uuid import uuid4

import numpy as np

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data.array import ArrayData
from spcatv.data.blocks import BlockedData, Work, merged, pieces
from spcatv.data.memory import Budget, bytes_text
from spcatv.data.protocol import BLOCK_ENTRIES, Found, float_dtype, gathered

# Sums that are added up by one task.
FAN_IN = 8
# Bytes of a number of a vector.
NUMBER_BYTES = 8
# Seconds after which a pass looks whether all workers are still there.
LOOK_SECONDS = 1.0
# Consecutive looks at a worker with full memory after which a pass fails.
MOST_LOOKS = 60

Graph = dict[Any, Any]


class ChunkWarning(UserWarning):
    """The chunks of a Dask array do not hold whole samples.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.data import ChunkWarning
    >>> warnings.filterwarnings("error", category=ChunkWarning)
    """


class _Block:
    """Tasks that make one block of X on a worker, and that no other block needs.

    Were they tasks of their own, the scheduler could decide to move their result.
    """

    def __init__(self, graph: Graph, key: Any, inputs: Sequence[Any]) -> None:
        self.graph, self.key, self.inputs = graph, key, list(inputs)

    def __call__(self, *values: Any) -> Array:
        if not self.graph:
            (value,) = values
            return np.asarray(value)
        import dask

        return np.asarray(dask.get(self.graph | dict(zip(self.inputs, values, strict=True)), self.key))


class DaskData(BlockedData):
    """Samples of a Dask array of shape (n, P).

    It is best persisted in the memory of the workers; otherwise every pass over the data loads it again. The
    dtype is float32 or float64; what X has, or float64, by default. With a limit of the budget, chunks that
    are in the memory of this process count, too.
    """

    # a fit avoids what would move X
    is_distributed = True

    def __init__(self, array: Any, dtype: Any = None, budget: Budget = Budget()) -> None:  # noqa: B008
        self.array = _in_row_chunks(array)
        self.dtype = float_dtype(self.array.dtype) if dtype is None else np.dtype(dtype)
        self.budget = budget
        self.bounds = np.r_[0, np.cumsum(self.array.chunks[0])].astype(np.intp)
        self.samples = np.arange(self.array.shape[0])
        self.shape = self.array.shape
        self._rest, self._blocks = _inlined(self.array)
        heights = self.array.chunks[0]
        row_bytes = max(self.shape[1] * self.dtype.itemsize, 1)
        self._height = budget.block_rows(row_bytes, 1, self.shape[1])
        self._threads = _affordable_threads(budget, max(heights, default=1) * row_bytes, self.shape[1])

    def take(self, samples: IntArray) -> Self:
        """Return the given samples of these, by their numbers."""
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part.samples = self.samples[samples]
        part.shape = len(part.samples), self.shape[1]
        return part

    def _parts(self, samples: IntArray) -> list[tuple[int, IntArray, IntArray]]:
        """Return the block, the positions and the rows within the block of samples, block by block."""
        block = np.searchsorted(self.bounds, samples, side="right") - 1
        order = np.argsort(block, kind="stable")
        numbers, firsts = np.unique(block[order], return_index=True)
        return [
            (int(number), positions, samples[positions] - self.bounds[number])
            for number, positions in zip(numbers, np.split(order, firsts[1:]), strict=True)
        ]

    def _pass(self, work: Work, own: tuple[Array, ...] = (), shared: tuple[Any, ...] = ()) -> Found:
        parts = self._parts(self.samples)
        tasks = [
            (number, partial(_visit, self._blocks[number], work, self.dtype, local, [a[at] for a in own]))
            for number, at, local in parts
        ]
        ((found, total),) = self._computed(tasks, shared, _added)
        positions = (at for _, at, _ in parts)
        rows, _ = gathered(self.shape[0], zip(positions, ((own, None) for own in found), strict=True))
        return rows, total

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in order, in blocks of about `entries` entries, in this process."""
        for first in range(0, self.shape[0], self._height):
            samples = slice(first, min(first + self._height, self.shape[0]))
            rows = self._fetched(self.samples[samples], slice(None))
            yield from pieces(samples, rows, np.arange(len(rows)), entries)

    def _panels(self) -> Iterator[tuple[slice, ArrayData]]:
        """Return all samples, some features at a time, sent to this process; a fit never asks for them."""
        n_samples, n_features = self.shape
        width = self.budget.panel_columns(n_samples * self.dtype.itemsize, 1)
        tallest = max(self.array.chunks[0])
        width = max(min(width, NUMBER_BYTES * n_features // (tallest * self.dtype.itemsize)), 1)
        for left in range(0, n_features, width):
            columns = slice(left, min(left + width, n_features))
            yield columns, ArrayData(self._fetched(self.samples, columns))

    def _fetched(self, samples: IntArray, columns: slice) -> FloatArray:
        """Return rows of the array in this process, shape (len(samples), number of columns)."""
        parts = self._parts(samples)
        tasks = [
            (number, partial(_cut, self._blocks[number], self.dtype, local, columns))
            for number, _, local in parts
        ]
        cuts = self._computed(tasks, (), None)
        out = np.empty((len(samples), cuts[0].shape[1]), self.dtype)
        for (_, positions, _), cut in zip(parts, cuts, strict=True):
            out[positions] = cut
        return out

    def _computed(self, tasks: Sequence[tuple[int, Any]], shared: tuple[Any, ...], add: Any) -> list[Any]:
        """Run one task per block.

        A task, given with the number of its block, is called with `shared`, which travels to every worker
        once, and with what the block is made of. `add` takes a list of what some tasks give, in order, and of
        what it gives itself. Returns what the tasks give, or what `add` makes of that as the only item.
        """
        import dask

        settings: dict[str, Any] = {"num_workers": self._threads} if self._threads else {}
        if "distributed" in sys.modules:
            # Dask warns of large graphs because most of them are a mistake; here vectors have to travel
            settings["distributed.admin.large-graph-warning-threshold"] = sys.maxsize
        futures = _futures(self.array)
        with dask.config.set(settings):
            if not futures:
                return list(dask.compute(*self._delayed(tasks, shared, add, {})))
            found = None
            while found is None:
                holders = _holders(futures)
                found = _at_home(futures[0].client, self._delayed(tasks, shared, add, holders), holders)
            return found

    def _delayed(
        self,
        tasks: Sequence[tuple[int, Any]],
        shared: tuple[Any, ...],
        add: Any,
        holders: Mapping[Any, Sequence[str]],
    ) -> list[Any]:
        """Return the blocks of `_computed` as delayed objects; `holders` maps them to workers."""
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

        token = uuid4().hex
        name, constant = f"spcatv_product-{token}", f"spcatv_shared-{token}"
        layer: Graph = {constant: (_Constant(shared),)}
        homes: dict[Any, Sequence[str]] = {}
        level: list[Any] = []
        for number, task in tasks:
            key, inputs = (name, number), self._blocks[number].inputs
            layer[key] = (task, constant, *inputs)
            level.append(key)
            for held in filter(holders.get, inputs):
                homes[key] = holders[held]
        while add is not None and (level[0][0] == name or len(level) > 1):
            groups = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
            level = [(f"spcatv_sum-{token}", len(groups), number) for number in range(len(groups))]
            layer |= {key: (add, group) for key, group in zip(level, groups, strict=True)}
        graph = HighLevelGraph(
            {
                "spcatv_rest": MaterializedLayer(self._rest),
                # a product is done where its block is
                name: MaterializedLayer(layer, {"workers": homes.get} if homes else None),
            },
            {"spcatv_rest": set(), name: {"spcatv_rest"}},
        )
        return [Delayed(key, graph, layer=name) for key in level]


def _holders(futures: Sequence[Any]) -> Mapping[Any, Sequence[str]]:
    """Addresses of the workers that hold results, once all of them are there."""
    import distributed

    distributed.wait(futures)
    return futures[0].client.who_has(futures)


def _at_home(client: Any, delayed: Sequence[Any], holders: Mapping[Any, Sequence[str]]) -> list[Any] | None:
    """Results of tasks that may run on the workers that hold their blocks only; None if one of these is gone.

    Were they allowed to run elsewhere, Dask would move blocks from busy workers to idle ones.
    """
    import distributed

    homes = {address for addresses in holders.values() for address in addresses}
    results = client.compute(list(delayed))
    n_looks = 0
    while True:
        try:
            distributed.wait(results, timeout=LOOK_SECONDS)
            return list(client.gather(results))
        except distributed.TimeoutError:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            lost = not homes <= set(workers)
            full = [address for address in homes & set(workers) if workers[address]["status"] == "paused"]
            n_looks = n_looks + 1 if full else 0
            if lost or n_looks == MOST_LOOKS:
                client.cancel(results, force=True)
            if lost:
                return None
            if n_looks == MOST_LOOKS:
                raise MemoryError(
                    f"Dask has paused {len(full)} of the {len(homes)} workers that hold X, because their "
                    f"memory is full ({', '.join(sorted(full)[:3])}): take more workers, more memory for "
                    "each, or smaller blocks, or do not persist X"
                ) from None


class _Constant:
    """A task that returns a constant: Dask repeats it if the worker that held the constant is lost."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


def _visit(
    block: _Block,
    work: Work,
    dtype: np.dtype[Any],
    local: IntArray,
    own: Sequence[Array],
    shared: tuple[Any, ...],
    *inputs: Any,
) -> tuple[list[FloatArray | None], Any]:
    """Apply a function to a block on a worker; return rows as a list, and a part of the sum."""
    array = block(*inputs)
    with one_blas_thread():
        rows, total = work(ArrayData(np.ascontiguousarray(array, dtype), local), *own, *shared)
    return [rows], total


def _cut(block: _Block, dtype: np.dtype[Any], local: IntArray, columns: slice, _: Any, *inputs: Any) -> Array:
    """Return some rows and columns of a block."""
    return block(*inputs)[:, columns][local].astype(dtype, copy=False)


def _added(parts: Sequence[tuple[list[FloatArray | None], Any]]) -> tuple[list[FloatArray | None], Any]:
    return [row for rows, _ in parts for row in rows], merged([total for _, total in parts])


def _in_row_chunks(array: Any) -> Any:
    """Return the array in chunks of whole samples, checked."""
    if array.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and features; got shape {array.shape}")
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"X is a Dask array with unknown chunk sizes (shape {array.shape}): call X.compute_chunk_sizes() "
            "first, which counts its samples, or say the sizes where the array is made"
        )
    kind = type(array._meta)
    if not issubclass(kind, np.ndarray) or kind is np.ma.MaskedArray or array.dtype.kind not in "fiub":
        raise TypeError(
            f"X is a Dask array of {kind.__module__}.{kind.__qualname__} with dtype {array.dtype}; its "
            "blocks must be NumPy arrays of real numbers"
        )
    if array.numblocks[1] > 1:
        warn_user(
            f"X is a Dask array with {array.numblocks[1]} chunks across its {array.shape[1]} features; on "
            "every pass over the data they are joined, so that blocks hold whole samples. Join them once and "
            "for all: X = X.rechunk({1: -1}).persist()",
            ChunkWarning,
        )
        array = array.rechunk({1: -1})
    return array


def _inlined(array: Any) -> tuple[Graph, list[_Block]]:
    """Return the tasks that blocks are made of.

    Returns the tasks that several blocks need, with the results that workers hold; and one block per chunk,
    with the tasks that it alone needs.
    """
    import dask
    from dask.core import get_dependencies

    held = {future.key: future for future in _futures(array)}
    (array,) = dask.optimize(array)
    graph = {**array.__dask_graph__(), **held}  # optimised graphs have lost these
    dependencies = {key: set() if key in held else get_dependencies(graph, key) for key in graph}
    keys = [row[0] for row in array.__dask_keys__()]
    owner: dict[Any, int | None] = {}

    def share(key: Any) -> None:
        """Mark all tasks that a shared task needs as shared."""
        waiting = [key]
        while waiting:
            current = waiting.pop()
            if owner.get(current, 0) is not None:
                owner[current] = None
                waiting += dependencies[current]

    for number, key in enumerate(keys):
        waiting = [key]
        while waiting:
            current = waiting.pop()
            if current in held or owner.get(current, number) != number:
                share(current)
            else:
                owner[current] = number
                waiting += dependencies[current]
    rest = {key: graph[key] for key, number in owner.items() if number is None}
    mine: list[Graph] = [{} for _ in keys]
    inputs: list[dict[Any, None]] = [{} for _ in keys]
    for key, own in owner.items():
        if own is not None:
            mine[own][key] = graph[key]
            inputs[own] |= {needed: None for needed in dependencies[key] if owner[needed] is None}
    return rest, [
        _Block(tasks, key, list(needed) if tasks else [key])
        for key, tasks, needed in zip(keys, mine, inputs, strict=True)
    ]


def _futures(array: Any) -> list[Any]:
    """Return results on workers that an array is made of."""
    distributed = sys.modules.get("distributed")
    return list(distributed.futures_of(array)) if distributed else []


def _affordable_threads(budget: Budget, chunk_bytes: int, n_features: int) -> int | None:
    """Return the number of chunks that may be in memory at a time; None without a limit."""
    if budget.limit is None:
        return None
    vectors = budget.vector_bytes(n_features)
    n_chunks = (budget.limit - vectors) // (2 * chunk_bytes)  # each with room for what is made of it
    if n_chunks < 1:
        raise ValueError(
            f"memory_limit={bytes_text(budget.limit)} is too small for chunks of {bytes_text(chunk_bytes)}; "
            f"give at least {bytes_text(1.01 * (vectors + 2 * chunk_bytes))}, or rechunk X"
        )
    return n_chunks
