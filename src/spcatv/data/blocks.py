"""X in blocks of samples that are too many to be held together: every operation as one pass over the blocks.

A block in memory is an `ArrayData`, which computes the products. Kinds of storage differ in who visits the
blocks: a loop that reads them one after the other (`spcatv.data.files`), or the workers that hold them
(`spcatv.data.dask`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from spcatv._util.devices import to_host
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.data.array import ArrayData
from spcatv.data.protocol import (
    BLOCK_ENTRIES,
    BlockWork,
    ColumnStatistics,
    Data,
    FirstLook,
    Found,
    Positions,
    gathered,
    row_blocks,
)

# Work on a part: the rows of the arguments that belong to its samples, and further arguments.
Work = Callable[..., Found]

# Number of samples whose means replace the unknown means of all samples in a first pass.
FIRST_SAMPLES = 8
# Entries of X that are visited together, and that enter a Gram matrix together, where a subclass has no rule.
PART_ENTRIES, PANEL_ENTRIES = 1 << 22, 1 << 26


def moments(part: ArrayData, center: bool) -> Found:
    """Return moments of the columns; a ValueError if X is not finite."""
    check_finite(part.array)
    return None, part.column_statistics(center)


def first_look(part: ArrayData, vectors: FloatArray, guess: FloatArray, center: bool) -> Found:
    """Return row means and ``S = M V'`` as rows, and moments with ``S'M``, for ``M = X - 1 guess'``."""
    _, sums = moments(part, center)
    n_samples, n_features = part.shape
    scores, back = part.there_and_back_many(vectors, guess, np.zeros((n_samples, len(vectors))))
    row_means = part.dot(np.full(n_features, 1.0 / n_features))
    return np.column_stack([row_means, scores]), replace(sums, sums=back)


def visit_pieces(part: ArrayData, positions: IntArray, work: BlockWork, entries: int) -> Found:
    """``work(numbers of samples, X there)`` for pieces of a part, which must be finite."""

    def found() -> Iterator[tuple[slice, Found]]:
        for rows, block in part.blocks(entries):
            check_finite(block)
            yield rows, work(positions[rows], block)

    return gathered(len(positions), found())


def check_finite(array: FloatArray) -> None:
    """Raise a ValueError for NaN and infinity, as scikit-learn does for arrays in memory."""
    with np.errstate(all="ignore"):
        if np.isfinite(array.sum()):
            return
    # a sum of large numbers may overflow
    if not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity or a value too large for its dtype"
        raise ValueError(f"Input X contains {what}.")


def numbered_blocks(parts: Iterable[ArrayData], entries: int) -> Iterator[tuple[slice, FloatArray]]:
    """Return the samples of consecutive parts in blocks, as `Data.blocks` does."""
    begin = 0
    for part in parts:
        for rows, block in part.blocks(entries):
            yield slice(begin + rows.start, begin + rows.stop), block
        begin += part.shape[0]


class BlockedData(Data):
    """Samples that are read in blocks.

    A subclass sets the attributes `shape`, `dtype` and `samples`, and defines `blocks`. It may also define
    how parts of the samples (`_parts`, `_pass`) and panels of features (`_panels`) are visited.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.data import BlockedData, in_blocks
    >>> np.save("X.npy", np.arange(12.0).reshape(4, 3))
    >>> data = in_blocks(np.load("X.npy", mmap_mode="r"))
    >>> isinstance(data, BlockedData), data.dot(np.ones(3))
    (True, array([ 3., 12., 21., 30.]))
    """

    def _parts(self) -> Iterator[tuple[Positions, ArrayData]]:
        """Return all samples in parts: their numbers, and X there."""
        for samples, block in self.blocks(PART_ENTRIES):
            yield samples, ArrayData(block)

    def _pass(self, work: Work, own: tuple[Array, ...] = (), shared: tuple[Any, ...] = ()) -> Found:
        """Return ``work(part, *own rows of its samples, *shared)`` for all parts of the samples.

        Returns the rows of all samples, in order, or None; and the sum over parts, in an order that depends
        on where the blocks begin and on nothing else.
        """
        found = ((at, work(part, *(rows[at] for rows in own), *shared)) for at, part in self._parts())
        return gathered(self.shape[0], found)

    def _panels(self) -> Iterator[tuple[slice, ArrayData]]:
        """Return all samples, some features at a time: which features, and X there."""
        n_samples, n_features = self.shape
        for left, right in row_blocks((n_features, n_samples), PANEL_ENTRIES):
            panel = np.empty((n_samples, right - left))
            for samples, block in self.blocks(PART_ENTRIES):
                panel[samples] = block[:, left:right]
            yield slice(left, right), ArrayData(panel)

    def each_block(self, work: BlockWork, entries: int = BLOCK_ENTRIES) -> Found:
        """Visit all samples in blocks, in the order in which they are stored."""
        return self._pass(visit_pieces, (np.arange(self.shape[0]),), (work, entries))

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u``."""
        return self._pass(lambda part, u: (None, part.transpose_dot(u)), (u,))[1]

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` for the rows of V."""
        return self._pass(lambda part, vectors: (part.dot_many(vectors), None), (), (vectors,))[0]

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, shapes (N, K) and (K, P)."""
        return self._pass(
            lambda part, shift, vectors, mean: part.there_and_back_many(vectors, mean, shift),
            (shift,),
            (vectors, mean),
        )

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means and squared norms of the columns; a ValueError if X is not finite."""
        found: ColumnStatistics = self._pass(moments, (), (center,))[1]
        return found

    def first_look(self, vectors: FloatArray, center: bool) -> FirstLook:
        """Statistics, a check for NaN, and products with centred data whose means are not known yet."""
        few = self.take(np.arange(min(FIRST_SAMPLES, self.shape[0])))
        # the products of data that are nearly centred lose no digits
        guess = few.column_statistics(True).mean if center else np.zeros_like(vectors, shape=self.shape[1:])
        rows, sums = self._pass(first_look, (), (vectors, guess, center))
        off = sums.mean - guess
        weights = vectors @ off
        return FirstLook(
            replace(sums, sums=0.0),
            rows[:, 0],
            rows[:, 1:] - to_host(weights),
            sums.sums - self.shape[0] * np.outer(weights, off),
        )

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """Return ``M M'`` for ``M = (X - 1 mean') diag(factor)``, by panels of features."""
        total = np.zeros((self.shape[0], self.shape[0]))
        for columns, panel in self._panels():
            total += panel.gram(mean[columns], None if factor is None else factor[columns])
        return total
