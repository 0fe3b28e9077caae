"""Products with a data matrix, summed in float64, without a copy of it, on several threads.

How sums are cut depends on the shape of the matrix alone, and their parts are added in order, whichever
thread made which part: so the bits do not depend on the number of threads. A wide matrix is cut into panels
of columns, any other into blocks of rows. Rows are processed in groups of four, which read the vector
together, and are still in a cache when they are needed again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spcatv._util.threads import in_order, threads_for
from spcatv._util.types import FloatArray, IntArray
from spcatv.kernels.compiled import inlined_kernel, kernel, read_only
from spcatv.kernels.simd import WIDE, any_nonzero, lane_sum, load_wide, splat, store
from spcatv.kernels.thread_pool import make_marks, meet, own_parts, run_shares, shared_kernel

# Columns from which a matrix is cut into panels, and columns per panel.
WIDE_MATRIX, PANEL = 1 << 17, 4096
# Rows of a wide matrix that go through a panel together: the vector is read once for all of them.
PANEL_ROWS = 64
# Entries of a wide matrix that go there and back together, in as many rows as hold them (a multiple of four,
# or the sums would depend on it), but at least `LEAST_ROWS`: all threads meet after every block.
BLOCK_ENTRIES, LEAST_ROWS = 1 << 21, 16
# Largest number of blocks of rows that a narrower matrix is cut into, and least number of rows per block.
MOST_BLOCKS, BLOCK_ROWS = 64, 64
# Blocks of rows at most, for products with several vectors: each sums `(K, P)` numbers of its own.
MANY_BLOCKS = 8
# Entries that are worth a thread.
THREAD_ENTRIES = 1 << 20


@inlined_kernel
def _four_rows(matrix: Any, index: Any, i: int) -> Any:
    """Return four rows of ``matrix[index]`` from row i on; those beyond the last repeat it.

    Only inlined kernels may call it: in others, an array that is returned without a reference would be freed.
    """
    last = len(index) - 1
    b, c, d = index[min(i + 1, last)], index[min(i + 2, last)], index[min(i + 3, last)]
    return matrix[index[i]], matrix[b], matrix[c], matrix[d]


@inlined_kernel
def _four_weights(weights: Any, i: int) -> Any:
    """Return weights of the rows of `_four_rows`, zero for those beyond the last."""
    n = len(weights)
    q = weights[i + 1] if i + 1 < n else 0.0
    r = weights[i + 2] if i + 2 < n else 0.0
    return weights[i], q, r, weights[i + 3] if i + 3 < n else 0.0


@inlined_kernel
def _at(rows: Any, mean: Any, j: int) -> Any:
    """Column j of four rows, less the mean if there is one."""
    x, y, z, w = rows[0][j], rows[1][j], rows[2][j], rows[3][j]
    return (x, y, z, w) if mean is None else (x - mean[j], y - mean[j], z - mean[j], w - mean[j])


@inlined_kernel
def _lanes_at(rows: Any, mean: Any, j: int) -> Any:
    """Lanes of `_at` from column j on."""
    x, y, z, w = load_wide(rows[0], j), load_wide(rows[1], j), load_wide(rows[2], j), load_wide(rows[3], j)
    if mean is None:
        return x, y, z, w
    middle = load_wide(mean, j)
    return x - middle, y - middle, z - middle, w - middle


@inlined_kernel
def _plus(sums: Any, entries: Any, x: Any) -> Any:
    """Return ``sums + entries * x`` for four rows."""
    p, q = sums[0] + entries[0] * x, sums[1] + entries[1] * x
    return p, q, sums[2] + entries[2] * x, sums[3] + entries[3] * x


@inlined_kernel
def _lane_sums(sums: Any) -> Any:
    return lane_sum(sums[0]), lane_sum(sums[1]), lane_sum(sums[2]), lane_sum(sums[3])


@inlined_kernel
def _splats(weights: Any) -> Any:
    return splat(weights[0]), splat(weights[1]), splat(weights[2]), splat(weights[3])


@inlined_kernel
def _combined(total: Any, weights: Any, entries: Any) -> Any:
    """Return ``total + weights'entries`` for four rows."""
    total = total + weights[0] * entries[0] + weights[1] * entries[1]
    return total + weights[2] * entries[2] + weights[3] * entries[3]


@inlined_kernel
def _inner_products(rows: Any, vector: Any, left: int, right: int) -> Any:
    """Inner products of four rows with a vector, on some of the columns."""
    whole = right - (right - left) % WIDE
    zero = splat(0.0)
    wide = zero, zero, zero, zero
    for j in range(left, whole, WIDE):
        x = load_wide(vector, j)
        # most loadings are zero, and their columns are not read
        if any_nonzero(x):
            wide = _plus(wide, _lanes_at(rows, None, j), x)
    sums = _lane_sums(wide)
    for j in range(whole, right):
        sums = _plus(sums, _at(rows, None, j), vector[j])
    return sums


@inlined_kernel
def _three_inner_products(
    matrix: Any, index: Any, i: int, mean: Any, vectors: Any, left: int, right: int
) -> Any:
    """Inner products of four centred rows with three vectors, on some of the columns."""
    rows = _four_rows(matrix, index, i)
    u, v, w = vectors[0], vectors[1], vectors[2]
    whole = right - (right - left) % WIDE
    zero = splat(0.0)
    with_u, with_v, with_w = (zero, zero, zero, zero), (zero, zero, zero, zero), (zero, zero, zero, zero)
    for j in range(left, whole, WIDE):
        x, y, z = load_wide(u, j), load_wide(v, j), load_wide(w, j)
        if any_nonzero(x) or any_nonzero(y) or any_nonzero(z):
            entries = _lanes_at(rows, mean, j)
            with_u, with_v, with_w = (
                _plus(with_u, entries, x),
                _plus(with_v, entries, y),
                _plus(with_w, entries, z),
            )
    of_u, of_v, of_w = _lane_sums(with_u), _lane_sums(with_v), _lane_sums(with_w)
    for j in range(whole, right):
        entries = _at(rows, mean, j)
        of_u, of_v, of_w = _plus(of_u, entries, u[j]), _plus(of_v, entries, v[j]), _plus(of_w, entries, w[j])
    return of_u, of_v, of_w


@inlined_kernel
def _add_multiples(rows: Any, weights: Any, out: Any, left: int, right: int) -> None:
    """``out += weights'rows`` on some of the columns."""
    whole = right - (right - left) % WIDE
    wide = _splats(weights)
    for j in range(left, whole, WIDE):
        store(out, j, _combined(load_wide(out, j), wide, _lanes_at(rows, None, j)))
    for j in range(whole, right):
        out[j] = _combined(out[j], weights, _at(rows, None, j))


@inlined_kernel
def _add_three_multiples(
    matrix: Any, index: Any, i: int, mean: Any, weights: Any, out: Any, left: int, right: int
) -> None:
    """Add three weighted sums of four centred rows to `out`, on some of the columns."""
    rows = _four_rows(matrix, index, i)
    u, v, w = out[0], out[1], out[2]
    whole = right - (right - left) % WIDE
    of_u, of_v, of_w = weights
    wide_u, wide_v, wide_w = _splats(of_u), _splats(of_v), _splats(of_w)
    for j in range(left, whole, WIDE):
        entries = _lanes_at(rows, mean, j)
        store(u, j, _combined(load_wide(u, j), wide_u, entries))
        store(v, j, _combined(load_wide(v, j), wide_v, entries))
        store(w, j, _combined(load_wide(w, j), wide_w, entries))
    for j in range(whole, right):
        entries = _at(rows, mean, j)
        u[j] = _combined(u[j], of_u, entries)
        v[j] = _combined(v[j], of_v, entries)
        w[j] = _combined(w[j], of_w, entries)


@inlined_kernel
def _rows_times(matrix: Any, index: Any, vector: Any, out: Any, left: int, right: int) -> None:
    """``out += matrix[index] @ vector`` on some of the columns."""
    n = len(index)
    for i in range(0, n, 4):
        sums = _inner_products(_four_rows(matrix, index, i), vector, left, right)
        for k in range(min(4, n - i)):
            out[i + k] += sums[k]


@inlined_kernel
def _rows_weighted(matrix: Any, index: Any, weights: Any, out: Any, left: int, right: int) -> None:
    """``out += matrix[index].T @ weights`` on some of the columns."""
    for i in range(0, len(index), 4):
        p, q, r, s = _four_weights(weights, i)
        if p != 0.0 or q != 0.0 or r != 0.0 or s != 0.0:
            _add_multiples(_four_rows(matrix, index, i), (p, q, r, s), out, left, right)


@shared_kernel
def _dot_share(
    number: int, n_threads: int, matrix: Any, index: Any, vector: Any, out: Any, panel: int
) -> None:
    """``out += matrix[index] @ vector`` for some of the rows, panel by panel."""
    n_columns = len(vector)
    groups = own_parts(number, n_threads, -(-len(index) // 4))
    n = min(4 * groups[1], len(index))
    for first in range(4 * groups[0], n, PANEL_ROWS):
        last = min(first + PANEL_ROWS, n)
        for left in range(0, n_columns, panel):
            right = min(left + panel, n_columns)
            _rows_times(matrix, index[first:last], vector, out[first:last], left, right)


@shared_kernel
def _transpose_panels(number: int, n_threads: int, matrix: Any, index: Any, weights: Any, out: Any) -> None:
    """``out += matrix[index].T @ weights`` on the panels of a thread."""
    panels = own_parts(number, n_threads, -(-len(out) // PANEL))
    for k in range(panels[0], panels[1]):
        left = k * PANEL
        _rows_weighted(matrix, index, weights, out, left, min(left + PANEL, len(out)))


@kernel
def _transpose_rows(matrix: Any, index: Any, weights: Any, out: Any) -> None:
    """``out += matrix[index].T @ weights``."""
    _rows_weighted(matrix, index, weights, out, 0, len(out))


@kernel
def _there_and_back_rows(matrix: Any, index: Any, vector: Any, shift: Any, scores: Any, out: Any) -> None:
    """``scores = matrix[index] @ vector - shift`` and ``out += matrix[index].T @ scores``."""
    for first in range(0, len(index), 4):
        rows = index[first : first + 4]
        group = scores[first : first + 4]
        group[:] = -shift[first : first + 4]
        _rows_times(matrix, rows, vector, group, 0, len(vector))
        _rows_weighted(matrix, rows, group, out, 0, len(out))


@shared_kernel
def _there_and_back_panels(
    number: int,
    n_threads: int,
    matrix: Any,
    index: Any,
    vector: Any,
    shift: Any,
    scores: Any,
    out: Any,
    partial: Any,
    marks: Any,
) -> None:
    """``scores = matrix[index] @ vector - shift`` and ``out += matrix[index].T @ scores``, a thread's share.

    The thread works on its panels, block of rows by block of rows. `partial` (2, n_panels, height) takes the
    sums of the panels; blocks use one half and the other in turn, so that no thread writes where another
    still reads.
    """
    n, n_columns = len(index), len(vector)
    n_panels, height = partial.shape[1:]
    panels = own_parts(number, n_threads, n_panels)
    block = np.empty(height)
    for count in range(-(-n // height)):
        first = count * height
        rows = index[first : first + height]
        sums = partial[count % 2]
        for k in range(panels[0], panels[1]):
            sums[k, : len(rows)] = 0.0
            _rows_times(matrix, rows, vector, sums[k], k * PANEL, min((k + 1) * PANEL, n_columns))
        meet(marks, number, n_threads, count + 1)
        block[:] = 0.0
        for k in range(n_panels):
            for i in range(len(rows)):
                block[i] += sums[k, i]
        for i in range(len(rows)):
            block[i] -= shift[first + i]
            if number == 0:
                scores[first + i] = block[i]
        for k in range(panels[0], panels[1]):
            _rows_weighted(matrix, rows, block[: len(rows)], out, k * PANEL, min((k + 1) * PANEL, n_columns))


@kernel
def _there_and_back_three(matrix: Any, index: Any, mean: Any, vectors: Any, scores: Any, out: Any) -> None:
    """``scores += V M'`` and ``out += scores M`` for three vectors V and ``M = matrix[index] - 1 mean'``.

    Blocks of rows go through panels of columns twice, the second time from a cache.
    """
    n_columns = len(mean)
    height = max(4, BLOCK_ENTRIES // 2 // n_columns // 4 * 4)
    for first in range(0, len(index), height):
        own = index[first : first + height]
        s, t, r = scores[0, first:][: len(own)], scores[1, first:][: len(own)], scores[2, first:][: len(own)]
        for left in range(0, n_columns, PANEL):
            right = min(left + PANEL, n_columns)
            for i in range(0, len(own), 4):
                sums = _three_inner_products(matrix, own, i, mean, vectors, left, right)
                for k in range(min(4, len(own) - i)):
                    s[i + k] += sums[0][k]
                    t[i + k] += sums[1][k]
                    r[i + k] += sums[2][k]
        for left in range(0, n_columns, PANEL):
            right = min(left + PANEL, n_columns)
            for i in range(0, len(own), 4):
                weights = _four_weights(s, i), _four_weights(t, i), _four_weights(r, i)
                _add_three_multiples(matrix, own, i, mean, weights, out, left, right)


# Rows and columns that go through `column_moments` together: the statistics of the columns stay in the
# cache while the rows pass by.
MOMENT_ROWS = 32
MOMENT_COLUMNS = 1024


def centred_panel(
    matrix: FloatArray,
    index: IntArray,
    mean: FloatArray,
    factor: FloatArray | None,
    left: int,
    out: FloatArray,
) -> float:
    """``out = (matrix[index] - mean) * factor`` on as many columns as `out` has; the largest magnitude."""
    factor = None if factor is None else read_only(factor)
    largest = _centred_panel(read_only(matrix), read_only(index), read_only(mean), factor, left, out)
    return float(largest)


@kernel
def _centred_panel(matrix: Any, index: Any, mean: Any, factor: Any, left: int, out: Any) -> float:
    largest = 0.0
    right = left + out.shape[1]
    own_mean = mean[left:right]
    own_factor = own_mean if factor is None else factor[left:right]
    for i in range(len(index)):
        row = matrix[index[i], left:right]
        for j in range(len(row)):
            x = row[j] - own_mean[j]
            if factor is not None:
                x *= own_factor[j]
            out[i, j] = x
            largest = max(largest, abs(x))
    return largest


@shared_kernel
def _moments_share(
    number: int, n_threads: int, matrix: Any, index: Any, center: bool, mean: Any, squares: Any
) -> None:
    """Welford's update for some panels of columns, which loses no digits where means are large."""
    n, n_columns = len(index), matrix.shape[1]
    panels = own_parts(number, n_threads, -(-n_columns // MOMENT_COLUMNS))
    for first in range(0, n, MOMENT_ROWS):
        for k in range(panels[0], panels[1]):
            left = k * MOMENT_COLUMNS
            right = min(left + MOMENT_COLUMNS, n_columns)
            panel_mean, panel_squares = mean[left:right], squares[left:right]
            for i in range(first, min(first + MOMENT_ROWS, n)):
                row = matrix[index[i], left:right]
                weight = 1.0 / (i + 1) if center else 0.0
                for j in range(right - left):
                    x = float(row[j])
                    off = x - panel_mean[j]
                    panel_mean[j] += weight * off
                    panel_squares[j] += off * (x - panel_mean[j])


def _n_threads(n_entries: int, n_parts: int) -> int:
    """Return the number of threads for a number of entries in a number of parts."""
    return min(threads_for(n_entries, THREAD_ENTRIES), n_parts)


def _sum_of_blocks(
    add: Callable[[slice, FloatArray], None], n_rows: int, height: int, shape: tuple[int, ...]
) -> FloatArray:
    """Sum what ``add(rows, zeros)`` adds to zeros of a shape, (P,) or (K, P), for all blocks of rows."""
    n_blocks = -(-n_rows // height)
    total = np.zeros(shape)

    def of_block(number: int) -> FloatArray:
        part = np.zeros(shape)
        add(slice(number * height, min((number + 1) * height, n_rows)), part)
        return part

    n_threads = _n_threads(n_rows * shape[-1], n_blocks)
    in_order(of_block, partial(np.add, total, out=total), n_blocks, n_threads)
    return total


def _block_height(n_rows: int) -> int:
    return max(BLOCK_ROWS, 4 * -(-n_rows // (4 * MOST_BLOCKS)))


def dot(matrix: FloatArray, index: IntArray, vector: FloatArray) -> FloatArray:
    """``matrix[index] @ vector``; the matrix is C-contiguous."""
    n_columns = len(vector)
    out = np.zeros(len(index))
    panel = PANEL if n_columns >= WIDE_MATRIX else n_columns
    n_threads = _n_threads(len(index) * n_columns, -(-len(index) // 4))
    fixed = read_only(matrix), read_only(index), read_only(vector)
    run_shares(_dot_share, (*fixed, out, panel), n_threads)
    return out


def transpose_dot(matrix: FloatArray, index: IntArray, weights: FloatArray) -> FloatArray:
    """``matrix[index].T @ weights``; the matrix is C-contiguous."""
    n_rows, n_columns = len(index), matrix.shape[1]
    matrix, index, weights = read_only(matrix), read_only(index), read_only(weights)
    if n_columns < WIDE_MATRIX:
        return _sum_of_blocks(
            lambda rows, out: _transpose_rows(matrix, index[rows], weights[rows], out),
            n_rows,
            _block_height(n_rows),
            (n_columns,),
        )
    out = np.zeros(n_columns)
    n_threads = _n_threads(n_rows * n_columns, -(-n_columns // PANEL))
    run_shares(_transpose_panels, (matrix, index, weights, out), n_threads)
    return out


def there_and_back(
    matrix: FloatArray, index: IntArray, vector: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``scores = matrix[index] @ vector - shift`` and ``matrix[index].T @ scores``, in one pass."""
    n_rows, n_columns = len(index), matrix.shape[1]
    matrix, index, vector, shift = map(read_only, (matrix, index, vector, shift))
    scores = np.empty(n_rows)
    if n_columns < WIDE_MATRIX:

        def add(rows: slice, out: FloatArray) -> None:
            _there_and_back_rows(matrix, index[rows], vector, shift[rows], scores[rows], out)

        return scores, _sum_of_blocks(add, n_rows, _block_height(n_rows), (n_columns,))
    out = np.zeros(n_columns)
    n_panels = -(-n_columns // PANEL)
    partial = np.empty((2, n_panels, max(LEAST_ROWS, BLOCK_ENTRIES // n_columns // 4 * 4)))
    n_threads = _n_threads(n_rows * n_columns, n_panels)
    arguments = (matrix, index, vector, shift, scores, out, partial, make_marks(n_threads))
    run_shares(_there_and_back_panels, arguments, n_threads)
    return scores, out


def there_and_back_many(
    matrix: FloatArray, index: IntArray, mean: FloatArray, vectors: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``S = M V' - shift`` (N, K) and ``S'M`` (K, P) for V (K, P) and ``M = matrix[index] - 1 mean'``."""
    n_rows, n_columns = len(index), matrix.shape[1]
    matrix, index, mean = map(read_only, (matrix, index, mean))
    n_vectors = len(vectors)
    n_padded = -(-n_vectors // 3) * 3
    padded, scores = np.zeros((n_padded, n_columns)), np.zeros((n_padded, n_rows))
    padded[:n_vectors] = vectors
    np.negative(shift.T, out=scores[:n_vectors])
    n_blocks = max(1, min(MANY_BLOCKS, n_rows * n_columns // THREAD_ENTRIES))
    height = 4 * -(-n_rows // (4 * n_blocks))

    def add(rows: slice, out: FloatArray) -> None:
        for k in range(0, n_padded, 3):
            three = slice(k, k + 3)
            own = index[rows], mean, read_only(padded[three])
            _there_and_back_three(matrix, *own, scores[three, rows], out[three])

    total = _sum_of_blocks(add, n_rows, height, (n_padded, n_columns))
    return np.ascontiguousarray(scores[:n_vectors].T), total[:n_vectors]


def column_moments(matrix: FloatArray, index: IntArray, center: bool) -> tuple[FloatArray, FloatArray]:
    """Return column means of ``matrix[index]``, zero unless `center`, and sums of squares about them."""
    n_columns = matrix.shape[1]
    mean, squares = np.zeros(n_columns), np.zeros(n_columns)
    n_threads = _n_threads(len(index) * n_columns, -(-n_columns // MOMENT_COLUMNS))
    run_shares(_moments_share, (read_only(matrix), read_only(index), center, mean, squares), n_threads)
    return mean, squares
