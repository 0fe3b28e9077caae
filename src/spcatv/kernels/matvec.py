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
def _inner_products(
    a: Any, b: Any, c: Any, d: Any, vector: Any, left: int, right: int
) -> tuple[float, float, float, float]:
    """Inner products of four rows with a vector, on some of the columns."""
    whole = right - (right - left) % WIDE
    p, q, r, s = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for j in range(left, whole, WIDE):
        x = load_wide(vector, j)
        # most loadings are zero, and their columns are not read
        if any_nonzero(x):
            p = p + load_wide(a, j) * x
            q = q + load_wide(b, j) * x
            r = r + load_wide(c, j) * x
            s = s + load_wide(d, j) * x
    sums = lane_sum(p), lane_sum(q), lane_sum(r), lane_sum(s)
    for j in range(whole, right):
        x = vector[j]
        sums = sums[0] + a[j] * x, sums[1] + b[j] * x, sums[2] + c[j] * x, sums[3] + d[j] * x
    return sums


@inlined_kernel
def _add_multiples(
    a: Any, b: Any, c: Any, d: Any, p: float, q: float, r: float, s: float, out: Any, left: int, right: int
) -> None:
    """``out += p a + q b + r c + s d`` on some of the columns."""
    whole = right - (right - left) % WIDE
    for j in range(left, whole, WIDE):
        total = load_wide(out, j) + splat(p) * load_wide(a, j) + splat(q) * load_wide(b, j)
        store(out, j, total + splat(r) * load_wide(c, j) + splat(s) * load_wide(d, j))
    for j in range(whole, right):
        out[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j]


@inlined_kernel
def _rows_times(matrix: Any, index: Any, vector: Any, out: Any, left: int, right: int) -> None:
    """``out += matrix[index] @ vector`` on some of the columns."""
    n = len(index)
    for i in range(0, n, 4):
        b, c, d = index[min(i + 1, n - 1)], index[min(i + 2, n - 1)], index[min(i + 3, n - 1)]
        sums = _inner_products(matrix[index[i]], matrix[b], matrix[c], matrix[d], vector, left, right)
        for k in range(min(4, n - i)):
            out[i + k] += sums[k]


@inlined_kernel
def _rows_weighted(matrix: Any, index: Any, weights: Any, out: Any, left: int, right: int) -> None:
    """``out += matrix[index].T @ weights`` on some of the columns."""
    n = len(index)
    for i in range(0, n, 4):
        b, c, d = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        # rows beyond the last repeat it with weight zero
        q = weights[b] if i + 1 < n else 0.0
        r = weights[c] if i + 2 < n else 0.0
        s = weights[d] if i + 3 < n else 0.0
        if weights[i] == 0.0 and q == 0.0 and r == 0.0 and s == 0.0:
            continue
        rows = matrix[index[i]], matrix[index[b]], matrix[index[c]], matrix[index[d]]
        _add_multiples(rows[0], rows[1], rows[2], rows[3], weights[i], q, r, s, out, left, right)


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


@inlined_kernel
def _three_inner_products(
    a: Any, b: Any, c: Any, d: Any, mean: Any, u: Any, v: Any, w: Any, left: int, right: int, out: Any
) -> None:
    """Add the inner products of four centred rows with three vectors, on some columns, to `out` (4, 3)."""
    whole = right - (right - left) % WIDE
    au, bu, cu, du = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    av, bv, cv, dv = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    aw, bw, cw, dw = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for j in range(left, whole, WIDE):
        x, y, z = load_wide(u, j), load_wide(v, j), load_wide(w, j)
        if any_nonzero(x) or any_nonzero(y) or any_nonzero(z):
            middle = load_wide(mean, j)
            p, q = load_wide(a, j) - middle, load_wide(b, j) - middle
            r, s = load_wide(c, j) - middle, load_wide(d, j) - middle
            au, bu, cu, du = au + p * x, bu + q * x, cu + r * x, du + s * x
            av, bv, cv, dv = av + p * y, bv + q * y, cv + r * y, dv + s * y
            aw, bw, cw, dw = aw + p * z, bw + q * z, cw + r * z, dw + s * z
    out[0, 0] += lane_sum(au)
    out[1, 0] += lane_sum(bu)
    out[2, 0] += lane_sum(cu)
    out[3, 0] += lane_sum(du)
    out[0, 1] += lane_sum(av)
    out[1, 1] += lane_sum(bv)
    out[2, 1] += lane_sum(cv)
    out[3, 1] += lane_sum(dv)
    out[0, 2] += lane_sum(aw)
    out[1, 2] += lane_sum(bw)
    out[2, 2] += lane_sum(cw)
    out[3, 2] += lane_sum(dw)
    for j in range(whole, right):
        for i in range(4):
            row = (a, b, c, d)[i]
            x = row[j] - mean[j]
            out[i, 0] += x * u[j]
            out[i, 1] += x * v[j]
            out[i, 2] += x * w[j]


@inlined_kernel
def _add_three_multiples(
    a: Any, b: Any, c: Any, d: Any, mean: Any, weights: Any, u: Any, v: Any, w: Any, left: int, right: int
) -> None:
    """``[u v w] += [a b c d] weights`` for four centred rows and weights (4, 3), on some of the columns."""
    whole = right - (right - left) % WIDE
    au, bu, cu, du = weights[0, 0], weights[1, 0], weights[2, 0], weights[3, 0]
    av, bv, cv, dv = weights[0, 1], weights[1, 1], weights[2, 1], weights[3, 1]
    aw, bw, cw, dw = weights[0, 2], weights[1, 2], weights[2, 2], weights[3, 2]
    for j in range(left, whole, WIDE):
        middle = load_wide(mean, j)
        p, q = load_wide(a, j) - middle, load_wide(b, j) - middle
        r, s = load_wide(c, j) - middle, load_wide(d, j) - middle
        x = load_wide(u, j) + splat(au) * p + splat(bu) * q
        store(u, j, x + splat(cu) * r + splat(du) * s)
        y = load_wide(v, j) + splat(av) * p + splat(bv) * q
        store(v, j, y + splat(cv) * r + splat(dv) * s)
        z = load_wide(w, j) + splat(aw) * p + splat(bw) * q
        store(w, j, z + splat(cw) * r + splat(dw) * s)
    for j in range(whole, right):
        p, q, r, s = a[j] - mean[j], b[j] - mean[j], c[j] - mean[j], d[j] - mean[j]
        u[j] += au * p + bu * q + cu * r + du * s
        v[j] += av * p + bv * q + cv * r + dv * s
        w[j] += aw * p + bw * q + cw * r + dw * s


@kernel
def _there_and_back_three(
    matrix: Any, index: Any, mean: Any, vectors: Any, shift: Any, scores: Any, out: Any
) -> None:
    """``S = M V' - shift`` and ``out += S'M`` for three vectors and ``M = matrix[index] - 1 mean'``.

    Blocks of rows go through panels of columns twice, the second time from a cache.
    """
    n, n_columns = len(index), len(mean)
    height = max(4, BLOCK_ENTRIES // 2 // n_columns // 4 * 4)
    group = np.empty((4, 3))
    block = np.empty((height, 3))
    for first in range(0, n, height):
        last = min(first + height, n)
        block[:] = 0.0
        for left in range(0, n_columns, PANEL):
            right = min(left + PANEL, n_columns)
            for i in range(first, last, 4):
                b, c, d = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
                group[:] = 0.0
                _three_inner_products(
                    matrix[index[i]],
                    matrix[index[b]],
                    matrix[index[c]],
                    matrix[index[d]],
                    mean,
                    vectors[0],
                    vectors[1],
                    vectors[2],
                    left,
                    right,
                    group,
                )
                for k in range(min(4, last - i)):
                    block[i - first + k] += group[k]
        block[: last - first] -= shift[first:last]
        scores[first:last] = block[: last - first]
        for left in range(0, n_columns, PANEL):
            right = min(left + PANEL, n_columns)
            for i in range(first, last, 4):
                b, c, d = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
                # rows beyond the last repeat it with weight zero
                group[:] = 0.0
                for k in range(min(4, last - i)):
                    group[k] = block[i - first + k]
                _add_three_multiples(
                    matrix[index[i]],
                    matrix[index[b]],
                    matrix[index[c]],
                    matrix[index[d]],
                    mean,
                    group,
                    out[0],
                    out[1],
                    out[2],
                    left,
                    right,
                )


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
    padded = np.zeros((n_padded, n_columns))
    padded[:n_vectors] = vectors
    offset = np.zeros((n_rows, n_padded))
    offset[:, :n_vectors] = shift
    padded, offset = read_only(padded), read_only(offset)
    scores = np.empty((n_rows, n_padded))
    n_blocks = max(1, min(MANY_BLOCKS, n_rows * n_columns // THREAD_ENTRIES))
    height = 4 * -(-n_rows // (4 * n_blocks))

    def add(rows: slice, out: FloatArray) -> None:
        for k in range(0, n_padded, 3):
            three = slice(k, k + 3)
            own = index[rows], mean, padded[three], offset[rows, three]
            _there_and_back_three(matrix, *own, scores[rows, three], out[three])

    total = _sum_of_blocks(add, n_rows, height, (n_padded, n_columns))
    return scores[:, :n_vectors], total[:n_vectors]


def column_moments(matrix: FloatArray, index: IntArray, center: bool) -> tuple[FloatArray, FloatArray]:
    """Return column means of ``matrix[index]``, zero unless `center`, and sums of squares about them."""
    n_columns = matrix.shape[1]
    mean, squares = np.zeros(n_columns), np.zeros(n_columns)
    n_threads = _n_threads(len(index) * n_columns, -(-n_columns // MOMENT_COLUMNS))
    run_shares(_moments_share, (read_only(matrix), read_only(index), center, mean, squares), n_threads)
    return mean, squares
