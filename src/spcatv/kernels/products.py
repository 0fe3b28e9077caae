"""Products with a data matrix, summed in float64, without a copy of it.

Four rows go together, so that what multiplies them is read once for all four; a block of rows is small
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
        # most loadings are zero, and their columns need not be read
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
def rows_times(matrix: Any, vector: Any, out: Any) -> None:
    """``out += matrix @ vector``; the matrix is C-contiguous."""
    last = len(matrix) - 1
    for i in range(0, len(matrix), 4):
        rows = matrix[i], matrix[min(i + 1, last)], matrix[min(i + 2, last)], matrix[min(i + 3, last)]
        sums = _inner_products(rows[0], rows[1], rows[2], rows[3], vector)
        for k in range(min(4, len(matrix) - i)):
            out[i + k] += sums[k]


@kernel
def rows_weighted(matrix: Any, weights: Any, out: Any) -> None:
    """``out += matrix.T @ weights``; the matrix is C-contiguous."""
    last = len(matrix) - 1
    for i in range(0, len(matrix), 4):
        b, c, d = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        # rows beyond the last repeat it with weight zero
        q = weights[b] if i + 1 <= last else 0.0
        r = weights[c] if i + 2 <= last else 0.0
        s = weights[d] if i + 3 <= last else 0.0
        if weights[i] == 0.0 and q == 0.0 and r == 0.0 and s == 0.0:
            continue
        _add_multiples(matrix[i], matrix[b], matrix[c], matrix[d], weights[i], q, r, s, out)


@kernel
def there_and_back(matrix: Any, vector: Any, shift: Any, scores: Any, out: Any) -> None:
    """``scores = matrix @ vector - shift`` and ``out += matrix.T @ scores``, in one pass over the matrix."""
    for first in range(0, len(matrix), 4):
        rows = matrix[first : first + 4]
        block = scores[first : first + 4]
        block[:] = -shift[first : first + 4]
        rows_times(rows, vector, block)
        rows_weighted(rows, block, out)
