"""X as a Dask array: the workers that hold its blocks do the products.

Vectors of length N and P travel, blocks of X do not. A pass over the data is one graph: a task per block, and
a tree of sums whose shape depends on the number of blocks only, so that the answer does not depend on the
number of workers. Nothing lives on a worker that Dask could not make again: a lost worker costs time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any
from uuid import uuid4

import numpy as np

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data.array import ArrayData
from spcatv.data.blocks import BlockedData, Work, numbered_blocks
from spcatv.data.memory import Budget, bytes_text
from spcatv.data.protocol import BLOCK_ENTRIES, Found, float_dtype, gathered, row_blocks

# Sums that are added up by one task.
FAN_IN = 8
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


@dataclass(frozen=True, eq=False)
class _Block:
    """Tasks that make one block of X on a worker, and that no other block needs.

    Were they tasks of their own, the scheduler could decide to move their result.
    """

    graph: Graph
    key: Any  # of the block
    inputs: Sequence[Any]  # keys of what the tasks need

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
        self.bounds = np.r_[0, np.cumsum(self.array.chunks[0])].astype(np.intp)
        self.samples = np.arange(self.array.shape[0])
        self.shape = self.array.shape
        self._rest, self._blocks = _inlined(self.array)
        row_bytes = max(self.shape[1] * self.dtype.itemsize, 1)
        self._height = budget.block_rows(row_bytes, 1, self.shape[1])
        tallest = max(self.array.chunks[0], default=1)
        self._threads = _affordable_threads(budget, tallest * row_bytes, self.shape[1])

    def _pass(self, work: Work, own: tuple[Array, ...] = (), shared: tuple[Any, ...] = ()) -> Found:
        block = np.searchsorted(self.bounds, self.samples, side="right") - 1
        order = np.argsort(block, kind="stable")
        numbers, firsts = np.unique(block[order], return_index=True)
        positions = np.split(order, firsts[1:])
        tasks = []
        for number, at in zip(numbers.tolist(), positions, strict=True):
            given = work, self.dtype, self.samples[at] - self.bounds[number], [array[at] for array in own]
            tasks.append((number, partial(_visit, self._blocks[number], *given)))
        found, total = self._computed(tasks, shared)
        rows, _ = gathered(self.shape[0], zip(positions, ((own, None) for own in found), strict=True))
        return rows, total

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in order, in blocks of about `entries` entries, in this process."""
        bounds = row_blocks(self.shape, self._height * max(self.shape[1], 1))
        parts = (self.take(np.arange(first, last)) for first, last in bounds)
        return numbered_blocks((ArrayData(part._pass(_rows)[0]) for part in parts), entries)

    def _computed(
        self, tasks: Sequence[tuple[int, Any]], shared: tuple[Any, ...]
    ) -> tuple[list[FloatArray | None], Any]:
        """Run one task per block, and return the rows of every block and the sum of what is to add up.

        A task, given with the number of its block, is called with `shared`, which travels to every worker
        once, and with what the block is made of.
        """
        import dask

        settings: dict[str, Any] = {"num_workers": self._threads} if self._threads else {}
        if "distributed" in sys.modules:
            # Dask warns of large graphs because most of them are a mistake; here vectors have to travel
            settings["distributed.admin.large-graph-warning-threshold"] = sys.maxsize
        futures = _futures(self.array)
        with dask.config.set(settings):
            if not futures:
                return dask.compute(self._delayed(tasks, shared, {}))[0]
            found = None
            while found is None:
                found = _at_home(futures, partial(self._delayed, tasks, shared))
            return found

    def _delayed(
        self,
        tasks: Sequence[tuple[int, Any]],
        shared: tuple[Any, ...],
        holders: Mapping[Any, Sequence[str]],
    ) -> Any:
        """Return the result of `_computed` as a delayed object; `holders` maps blocks to workers."""
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

        token = uuid4().hex
        name, constant = f"spcatv_product-{token}", f"spcatv_shared-{token}"
        # a task that returns a constant: Dask repeats it if the worker that held the constant is lost
        layer: Graph = {constant: (partial(tuple, shared),)}
        homes: dict[Any, Sequence[str]] = {}
        for number, task in tasks:
            inputs = self._blocks[number].inputs
            layer[name, number] = (task, constant, *inputs)
            for held in filter(holders.get, inputs):
                homes[name, number] = holders[held]
        level: list[Any] = [(name, number) for number, _ in tasks]
        while level[0][0] == name or len(level) > 1:
            groups = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
            level = [(f"spcatv_sum-{token}", len(groups), number) for number in range(len(groups))]
            layer |= {key: (_added, group) for key, group in zip(level, groups, strict=True)}
        graph = HighLevelGraph(
            {
                "spcatv_rest": MaterializedLayer(self._rest),
                # a product is done where its block is
                name: MaterializedLayer(layer, {"workers": homes.get} if homes else None),
            },
            {"spcatv_rest": set(), name: {"spcatv_rest"}},
        )
        return Delayed(level[0], graph, layer=name)


def _at_home(futures: Sequence[Any], make: Callable[[Mapping[Any, Sequence[str]]], Any]) -> Any:
    """Compute tasks on the workers that hold their blocks; return None if one of these workers is gone.

    Were the tasks allowed to run elsewhere, Dask would move blocks from busy workers to idle ones. `make`
    returns the delayed object, given the addresses of the workers that hold each of the futures.
    """
    import distributed

    client = futures[0].client
    distributed.wait(futures)
    holders = client.who_has(futures)
    homes = {address for addresses in holders.values() for address in addresses}
    result = client.compute(make(holders))
    n_looks = 0
    while True:
        try:
            distributed.wait(result, timeout=LOOK_SECONDS)
            return result.result()
        except distributed.TimeoutError:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            lost = not homes <= set(workers)
            full = [address for address in homes & set(workers) if workers[address]["status"] == "paused"]
            n_looks = n_looks + 1 if full else 0
            if lost or n_looks == MOST_LOOKS:
                client.cancel(result, force=True)
            if lost:
                return None
            if n_looks == MOST_LOOKS:
                raise MemoryError(
                    f"Dask has paused {len(full)} of the {len(homes)} workers that hold X, because their "
                    f"memory is full ({', '.join(sorted(full)[:3])}): take more workers, more memory for "
                    "each, or smaller blocks, or do not persist X"
                ) from None


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


def _added(parts: Sequence[tuple[list[FloatArray | None], Any]]) -> tuple[list[FloatArray | None], Any]:
    totals = [total for _, total in parts if total is not None]
    return [row for rows, _ in parts for row in rows], reduce(add, totals) if totals else None


def _rows(part: ArrayData) -> Found:
    """Return the samples themselves."""
    return part.array[part.samples], None


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
    needs = {key: set() if key in held else get_dependencies(graph, key) for key in graph}

    def all_needs(key: Any) -> dict[Any, None]:
        """Return the tasks that make a block, in a fixed order."""
        found: dict[Any, None] = {}
        waiting = [key]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found[current] = None
                waiting += needs[current]
        return found

    keys = [row[0] for row in array.__dask_keys__()]
    of_blocks = [all_needs(key) for key in keys]
    n_users = Counter(task for tasks in of_blocks for task in tasks)
    rest = {task: graph[task] for task, n in n_users.items() if n > 1 or task in held}
    blocks = []
    for key, tasks in zip(keys, of_blocks, strict=True):
        own = {task: graph[task] for task in tasks if task not in rest}
        inputs = {needed: None for task in own for needed in needs[task] if needed in rest}
        blocks.append(_Block(own, key, list(inputs) if own else [key]))
    return rest, blocks


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
