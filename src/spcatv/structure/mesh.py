"""Triangle meshes, such as cortical surfaces (docs/method.md section 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.structure.base import Structure, from_matrix
from spcatv.structure.graph import EdgeStructure

MeshScheme = Literal["edges", "gradient", "fem"]

# a triangle whose double area is below this share of its longest squared edge counts as flat: rounding
FLAT = 1e-13

# a ring of neighbours whose squared extent across is below this share of the one along counts as a line:
# a gradient across it would be magnified rounding and curvature
THIN = 1e-3


def mesh(
    coords: npt.ArrayLike,
    triangles: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    scheme: MeshScheme = "edges",
) -> Structure:
    """Total variation on a triangle mesh (docs/method.md section 2.2).

    Parameters
    ----------
    coords : array-like of shape (n_vertices, 3) or (n_vertices, 2)
        Positions of the vertices, in any unit of length.
    triangles : array-like of int, of shape (n_triangles, 3)
        Indices of the corners.
    mask : array-like of bool, of shape (n_vertices,), default=None
        The vertices to keep, all by default. The features are the kept vertices, in order; edges and
        triangles with a dropped vertex are dropped.
    scheme : {"edges", "gradient", "fem"}, default="edges"
        * ``"edges"``: every edge of the mesh once, with weight 1; it belongs to its end of lower index.
          ``s(v) = sum_i sqrt( sum_{j > i, j ~ i} (v_j - v_i)^2 )``. The coordinates and the order and
          orientation of the triangles do not matter.
        * ``"gradient"``: ``s(v) = sum_i |grad_i v|``, the least-squares gradient in the tangent plane of
          vertex i (normal to the area-weighted mean of the normals of its triangles) from the differences
          to its neighbours, per unit of length. If the neighbours lie on a line, it is the gradient along
          that line. The triangles must be oriented consistently.
        * ``"fem"``: ``s(v) = sum_T area_T |grad v|_T``, the total variation on the surface of the
          piecewise linear function with the vertex values v, one group per triangle. It does not depend
          on the resolution of the mesh; its unit is a length times the unit of v.

    Returns
    -------
    Structure
        An `EdgeStructure` for ``"edges"``, otherwise a `MatrixStructure`.

    Examples
    --------
    >>> from spcatv.structure import mesh
    >>> mesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]], scheme="fem").value([0, 2, 0])
    1.0
    """
    if scheme not in SCHEMES:
        raise ValueError(f"unknown mesh scheme {scheme!r}; choose one of {', '.join(map(repr, SCHEMES))}")
    points = _points(coords)
    corners = _corners(triangles, len(points))
    return SCHEMES[scheme](_Surface(points, corners, _kept(mask, len(points))))


@dataclass(frozen=True, eq=False)
class _Surface:
    """Checked input: points (n, 3), corners (m, 3), kept (n,)."""

    points: FloatArray
    corners: IntArray
    kept: BoolArray

    @property
    def n_features(self) -> int:
        return int(self.kept.sum())

    def feature_index(self) -> IntArray:
        """Return the feature index of every kept vertex (meaningless for dropped ones)."""
        return np.cumsum(self.kept, dtype=np.int64) - 1

    def edges(self) -> tuple[IntArray, IntArray]:
        """Return every edge between kept vertices once, as vertex indices tail < head, sorted."""
        ends = np.concatenate([self.corners[:, [0, 1]], self.corners[:, [1, 2]], self.corners[:, [2, 0]]])
        ends = ends[self.kept[ends].all(axis=1)]
        n = len(self.points)
        # one number per edge: sorting it sorts by tail, then by head
        code = np.sort(ends.min(axis=1) * n + ends.max(axis=1))
        code = code[_is_first(code)]
        return code // n, code % n


def _is_first(ascending: IntArray) -> BoolArray:
    """Mark where a sorted array of numbers >= 0 takes a new value (np.unique is slower: it hashes)."""
    return np.asarray(np.diff(ascending, prepend=-1) > 0)


def _edges_scheme(surface: _Surface) -> Structure:
    tail, head = surface.edges()
    index = surface.feature_index()
    return EdgeStructure(
        feature_count=surface.n_features, tail=index[tail], head=index[head], weight=np.ones(len(tail))
    )


def _gradient_scheme(surface: _Surface) -> Structure:
    _check_orientation(surface)
    low, high = surface.edges()
    center = np.concatenate([low, high])
    neighbour = np.concatenate([high, low])
    order = np.argsort(center, kind="stable")
    center, neighbour = center[order], neighbour[order]
    first, second = _tangent_bases(surface, center[_is_first(center)])
    offset = surface.points[neighbour] - surface.points[center]
    x, y = (np.einsum("ij,ij->i", offset, basis[center]) for basis in (first, second))

    # least squares: gradient = G^-1 sum_j d_j (v_j - v_i), with G = sum_j d_j d_j' of size 2 x 2
    n = len(surface.points)
    gram = np.stack([_sum_by(center, product, n) for product in (x * x, x * y, x * y, y * y)], axis=1)
    inverse = np.linalg.pinv(gram.reshape(-1, 2, 2), rcond=THIN, hermitian=True)[center]
    to_x, to_y = np.einsum("nij,jn->in", inverse, np.stack([x, y]))
    # rows sum_j to_x (v_j - v_i) and sum_j to_y (v_j - v_i) for every vertex i with neighbours
    rank = np.cumsum(_is_first(center)) - 1
    n_rows = 2 * (int(rank.max(initial=-1)) + 1)
    row = np.concatenate([2 * rank, 2 * rank + 1] * 2)
    column = surface.feature_index()[np.concatenate([neighbour, neighbour, center, center])]
    entries = np.concatenate([to_x, to_y, -to_x, -to_y])
    matrix = sp.coo_array((entries, (row, column)), shape=(n_rows, surface.n_features))
    return from_matrix(matrix, np.arange(0, n_rows + 1, 2))


def _sum_by(index: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Sum `values` over equal `index`, shape (n,)."""
    # with weights, bincount returns float64, unlike its type annotation
    return np.asarray(np.bincount(index, weights=values, minlength=n), dtype=np.float64)


def _check_orientation(surface: _Surface) -> None:
    """Check that neighbouring triangles traverse their common edge in opposite directions."""
    corners = surface.corners
    start = corners.ravel()
    end = np.roll(corners, -1, axis=1).ravel()
    code = np.sort(start * len(surface.points) + end)
    twice = code[1:][code[1:] == code[:-1]]
    if len(twice):
        a, b = divmod(int(twice[0]), len(surface.points))
        raise ValueError(
            f"the triangles are not oriented consistently: {len(twice)} edges are traversed twice in the "
            f"same direction, the first from vertex {a} to vertex {b}; scheme 'gradient' needs normals on "
            "one side ('edges' and 'fem' do not)"
        )


def _tangent_bases(surface: _Surface, needed: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return two orthonormal tangent vectors per vertex, each of shape (n_vertices, 3).

    Normals come from all triangles of the mesh, because the surface does not depend on the mask.
    """
    a, b, c = (surface.points[surface.corners[:, i]] for i in range(3))
    area_normal = np.cross(b - a, c - a)
    corner = surface.corners.ravel()
    share = np.repeat(area_normal, 3, axis=0)
    n = len(surface.points)
    normal = np.stack([_sum_by(corner, share[:, i], n) for i in range(3)], axis=1)
    length = np.linalg.norm(normal, axis=1)
    area = _sum_by(corner, np.linalg.norm(share, axis=1), n)
    lost = needed[length[needed] <= 1e-10 * area[needed]]
    if len(lost):
        raise ValueError(
            f"{len(lost)} vertices have no normal (their triangles have no area or cancel), the first is "
            f"vertex {lost[0]}; remove it or use scheme 'edges'"
        )
    normal /= np.where(length > 0, length, 1.0)[:, None]
    # the coordinate axis farthest from the normal gives a well-conditioned basis
    helper = np.zeros_like(normal)
    np.put_along_axis(helper, np.abs(normal).argmin(axis=1)[:, None], 1.0, axis=1)
    first: FloatArray = np.cross(normal, helper)
    first_length = np.linalg.norm(first, axis=1)
    first /= np.where(first_length > 0, first_length, 1.0)[:, None]
    return first, np.cross(normal, first)


def _fem_scheme(surface: _Surface) -> Structure:
    kept = surface.kept[surface.corners].all(axis=1)
    corners = surface.corners[kept]
    apex, left, right = (surface.points[corners[:, i]] for i in range(3))
    # in the triangle's plane: left at the origin, right at (base, 0), the apex at (foot, height)
    base_vector, side = right - left, apex - left
    double_area = np.linalg.norm(np.cross(base_vector, side), axis=1)
    _check_areas(surface, np.flatnonzero(kept), double_area)
    base = np.linalg.norm(base_vector, axis=1)
    foot = np.einsum("ij,ij->i", base_vector, side) / base
    height = double_area / base
    # area times gradient: d/dx = height (v_right - v_left) / 2, d/dy = sum of v times opposite edge / 2
    entries = 0.5 * np.stack([-height, height, base, foot - base, -foot], axis=1)
    first_row = 2 * np.arange(len(corners))[:, None]
    row = first_row + np.array([0, 0, 1, 1, 1])
    column = surface.feature_index()[corners][:, [1, 2, 0, 1, 2]]
    n_rows = 2 * len(corners)
    matrix = sp.coo_array(
        (entries.ravel(), (row.ravel(), column.ravel())), shape=(n_rows, surface.n_features)
    )
    return from_matrix(matrix, np.arange(0, n_rows + 1, 2))


def _check_areas(surface: _Surface, numbers: IntArray, double_area: FloatArray) -> None:
    corners = surface.points[surface.corners[numbers]]
    squared_sides = ((corners - np.roll(corners, 1, axis=1)) ** 2).sum(axis=2)
    flat = np.flatnonzero(~(double_area > FLAT * squared_sides.max(axis=1, initial=0.0)))
    if len(flat):
        raise ValueError(
            f"{len(flat)} triangles have no area, the first is triangle {numbers[flat[0]]}; scheme 'fem' "
            "needs their gradient: remove them or use scheme 'edges'"
        )


SCHEMES: dict[str, Callable[[_Surface], Structure]] = {
    "edges": _edges_scheme,
    "gradient": _gradient_scheme,
    "fem": _fem_scheme,
}


def _points(coords: npt.ArrayLike) -> FloatArray:
    points = np.asarray(coords, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] not in (2, 3) or len(points) == 0:
        raise ValueError(f"coords must have the shape (n_vertices, 3) or (n_vertices, 2), got {points.shape}")
    wrong = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(wrong):
        raise ValueError(
            f"coords must be finite; {len(wrong)} vertices are not, the first is vertex {wrong[0]}: "
            f"{points[wrong[0]]}"
        )
    if points.shape[1] == 2:
        return np.column_stack([points, np.zeros(len(points))])
    return points


def _corners(triangles: npt.ArrayLike, n_vertices: int) -> IntArray:
    array: Array = np.asarray(triangles)
    if array.ndim != 2 or array.shape[1] != 3:
        raise ValueError(f"triangles must have the shape (n_triangles, 3), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"triangles must hold integer vertex indices, got dtype {array.dtype}")
    corners = array.astype(np.int64)
    outside = np.argwhere((corners < 0) | (corners >= n_vertices))
    if len(outside):
        number, corner = outside[0]
        raise ValueError(
            f"triangle {number} points to vertex {corners[number, corner]}, but there are {n_vertices} "
            f"vertices (indices 0 to {n_vertices - 1})"
        )
    repeated = np.flatnonzero((corners == np.roll(corners, 1, axis=1)).any(axis=1))
    if len(repeated):
        raise ValueError(
            f"{len(repeated)} triangles use a vertex twice, the first is triangle {repeated[0]}: "
            f"{corners[repeated[0]].tolist()}"
        )
    return corners


def _kept(mask: npt.ArrayLike | None, n_vertices: int) -> BoolArray:
    if mask is None:
        return np.ones(n_vertices, dtype=bool)
    kept = np.asarray(mask)
    if kept.shape != (n_vertices,):
        raise ValueError(
            f"mask must have one entry per vertex: the mesh has {n_vertices} vertices but mask has shape "
            f"{kept.shape}"
        )
    if kept.dtype.kind not in "biuf" or not ((kept == 0) | (kept == 1)).all():
        raise ValueError("mask must be boolean: True for the vertices to keep")
    if not kept.any():
        raise ValueError(f"the mask of shape {kept.shape} is empty: no vertex is kept")
    return kept.astype(bool)


def icosphere(subdivisions: int) -> tuple[FloatArray, IntArray]:
    """Make a unit sphere from an icosahedron by repeatedly dividing its triangles into four.

    Parameters
    ----------
    subdivisions : int
        Number of divisions s >= 0; the mesh has ``10 * 4**s + 2`` vertices (163,842 for s = 7, like the
        standard hemispheres of FreeSurfer) and ``20 * 4**s`` triangles.

    Returns
    -------
    coords : ndarray of shape (n_vertices, 3)
        Points of unit length.
    triangles : ndarray of int64, of shape (n_triangles, 3)
        Oriented outwards.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.structure import icosphere, mesh
    >>> coords, triangles = icosphere(1)
    >>> coords.shape, triangles.shape
    ((42, 3), (80, 3))
    >>> mesh(coords, triangles).value(np.ones(42))
    0.0
    """
    if subdivisions < 0:
        raise ValueError(f"subdivisions must be at least 0, got {subdivisions}")
    coords, triangles = _icosahedron()
    for _ in range(subdivisions):
        coords, triangles = _subdivide(coords, triangles)
    return coords, triangles


def _icosahedron() -> tuple[FloatArray, IntArray]:
    golden = (1 + np.sqrt(5)) / 2
    a, b = np.array([1.0, golden]) / np.hypot(1.0, golden)
    coords = np.array(
        [
            *([-a, b, 0], [a, b, 0], [-a, -b, 0], [a, -b, 0], [0, -a, b], [0, a, b]),
            *([0, -a, -b], [0, a, -b], [b, 0, -a], [b, 0, a], [-b, 0, -a], [-b, 0, a]),
        ]
    )
    triangles = np.array(
        [
            *([0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11]),
            *([1, 5, 9], [5, 11, 4], [11, 10, 2], [10, 7, 6], [7, 1, 8]),
            *([3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9]),
            *([4, 9, 5], [2, 4, 11], [6, 2, 10], [8, 6, 7], [9, 8, 1]),
        ]
    )
    return coords, triangles


def _subdivide(coords: FloatArray, triangles: IntArray) -> tuple[FloatArray, IntArray]:
    n = len(coords)
    ends = np.stack([triangles, np.roll(triangles, -1, axis=1)], axis=2).reshape(-1, 2)
    code, edge = np.unique(ends.min(axis=1) * n + ends.max(axis=1), return_inverse=True)
    middle = coords[code // n] + coords[code % n]
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    a, b, c = triangles.T
    ab, bc, ca = (n + edge.reshape(-1, 3)).T
    pieces = [[a, ab, ca], [b, bc, ab], [c, ca, bc], [ab, bc, ca]]
    cut = np.concatenate([np.stack(piece, axis=1) for piece in pieces])
    return np.concatenate([coords, middle]), cut
