"""Products with a data matrix, summed in float64, without a copy of it.

Four rows are processed together, so that the vector is read once for all four; a block of rows is small
enough to be still in the cache when it is needed again.
"""

from __future__ import annotations

from typing import Any

from spcatv.kernels.compiled import kernel
from spcatv.kernels.lanes import WIDE, any_nonzero, lane_sum, load_wide, splat, store


@kernel
def _inner_products(a: Any, b: Any, c: Any, d: Any, vector: Any) -> tuple[float, float, float, float]:
    """Inner products of four rows with a vector."""
    n = len(vector)
    whole = n - n % WIDE
    p, q, r, s = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
    for j in range(0, whole, WIDE):
        x = load_wide(vector, j)
        # most loadings are zero, and their columns are not read
        if any_nonzero(x):
            p = p + load_wide(a, j) * x
            q = q + load_wide(b, j) * x
            r = r + load_wide(c, j) * x
            s = s + load_wide(d, j) * x
    sums = lane_sum(p), lane_sum(q), lane_sum(r), lane_sum(s)
    for j in range(whole, n):
        x = vector[j]
        sums = sums[0] + a[j] * x, sums[1] + b[j] * x, sums[2] + c[j] * x, sums[3] + d[j] * x
    return sums


@kernel
def _add_multiples(a: Any, b: Any, c: Any, d: Any, p: float, q: float, r: float, s: float, out: Any) -> None:
    """``out += p a + q b + r c + s d``."""
    n = len(out)
    whole = n - n % WIDE
    for j in range(0, whole, WIDE):
        total = load_wide(out, j) + splat(p) * load_wide(a, j) + splat(q) * load_wide(b, j)
        store(out, j, total + splat(r) * load_wide(c, j) + splat(s) * load_wide(d, j))
    for j in range(whole, n):
        out[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j]


@kernel
def rows_times(matrix: Any, index: Any, vector: Any, out: Any) -> None:
    """``out += matrix[index] @ vector``; the matrix is C-contiguous."""
    n = len(index)
    for i in range(0, n, 4):
        b, c, d = index[min(i + 1, n - 1)], index[min(i + 2, n - 1)], index[min(i + 3, n - 1)]
        sums = _inner_products(matrix[index[i]], matrix[b], matrix[c], matrix[d], vector)
        for k in range(min(4, n - i)):
            out[i + k] += sums[k]


@kernel
def rows_weighted(matrix: Any, index: Any, weights: Any, out: Any) -> None:
    """``out += matrix[index].T @ weights``; the matrix is C-contiguous."""
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
        _add_multiples(rows[0], rows[1], rows[2], rows[3], weights[i], q, r, s, out)


@kernel
def there_and_back(matrix: Any, index: Any, vector: Any, shift: Any, scores: Any, out: Any) -> None:
    """``scores = matrix[index] @ vector - shift`` and ``out += matrix[index].T @ scores``, in one pass."""
    for first in range(0, len(index), 4):
        rows = index[first : first + 4]
        block = scores[first : first + 4]
        block[:] = -shift[first : first + 4]
        rows_times(matrix, rows, vector, block)
        rows_weighted(matrix, rows, block, out)


# Rows and columns that go through `column_moments` together: the statistics of the columns stay in the
# cache while the rows pass by.
MOMENT_ROWS = 32
MOMENT_COLUMNS = 1024


@kernel
def column_moments(matrix: Any, index: Any, center: bool, mean: Any, squares: Any) -> None:
    """Means of the columns of ``matrix[index]`` and sums of squares about them, into zeros.

    One pass, by Welford's update, which loses no digits where means are large. Without `center` means stay
    zero.
    """
    n, n_columns = len(index), matrix.shape[1]
    for first in range(0, n, MOMENT_ROWS):
        for left in range(0, n_columns, MOMENT_COLUMNS):
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
