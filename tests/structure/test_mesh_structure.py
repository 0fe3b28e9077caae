import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spcatv.structure import EdgeStructure, icosphere, mesh
from spcatv.testing import check_structure

SCHEMES = ["edges", "gradient", "fem"]


def sheet(n, m, rng):
    """Jittered points of an n x m rectangle, cut into triangles that all turn the same way."""
    x, y = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1) + rng.uniform(-0.2, 0.2, (n * m, 2))
    index = np.arange(n * m).reshape(n, m)
    a, b, c, d = (part.ravel() for part in (index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]))
    return points, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def into_space(points, rng):
    """Put a plane of points somewhere into three dimensions, without stretching it."""
    frame = np.linalg.qr(rng.standard_normal((3, 3)))[0][:2]
    return points @ frame + rng.standard_normal(3)


def area(points, triangles):
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return 0.5 * np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])


@settings(max_examples=25, deadline=None)
@given(scheme=st.sampled_from(SCHEMES), n=st.integers(2, 5), m=st.integers(2, 6), seed=st.integers(0, 1000))
def test_masked_sheets_pass_all_checks(scheme, n, m, seed):
    rng = np.random.default_rng(seed)
    points, triangles = sheet(n, m, rng)
    mask = rng.random(len(points)) < 0.8
    mask[0] = True
    check_structure(mesh(into_space(points, rng), triangles, mask=mask, scheme=scheme), random_state=seed)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sphere_passes_all_checks(scheme):
    check_structure(mesh(*icosphere(3), scheme=scheme))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000))
def test_fem_of_a_linear_function_is_area_times_slope(seed):
    rng = np.random.default_rng(seed)
    points, triangles = sheet(5, 4, rng)
    slope = rng.standard_normal(2)
    areas = area(points, triangles)
    structure = mesh(into_space(points, rng), triangles, scheme="fem")
    rows = structure.forward(points @ slope + 3.0)
    np.testing.assert_allclose(structure.group_norms(rows), areas * np.linalg.norm(slope), rtol=1e-10)
    assert structure.value(points @ slope) == pytest.approx(areas.sum() * np.linalg.norm(slope))
    assert mesh(points, triangles, scheme="fem").value(points @ slope) == pytest.approx(
        structure.value(points @ slope)
    )


def cut_flat(points, triangles, v):
    """Cut every triangle into four in its own plane and interpolate v on the new vertices."""
    number, points, v, cut = {}, list(points), list(v), []

    def middle(i, j):
        key = (min(i, j), max(i, j))
        if key not in number:
            number[key] = len(points)
            points.append((points[i] + points[j]) / 2)
            v.append((v[i] + v[j]) / 2)
        return number[key]

    for a, b, c in triangles:
        ab, bc, ca = middle(a, b), middle(b, c), middle(c, a)
        cut += [[a, ab, ca], [b, bc, ab], [c, ca, bc], [ab, bc, ca]]
    return np.array(points), np.array(cut), np.array(v)


def test_fem_does_not_depend_on_the_resolution():
    coords, triangles = icosphere(1)
    v = np.random.default_rng(0).standard_normal(len(coords))
    fine_coords, fine_triangles, fine_v = cut_flat(coords, triangles, v)
    coarse, fine = (
        mesh(c, t, scheme="fem").value(x)
        for c, t, x in [(coords, triangles, v), (fine_coords, fine_triangles, fine_v)]
    )
    assert fine == pytest.approx(coarse, rel=1e-12)
    edges = mesh(coords, triangles).value(v), mesh(fine_coords, fine_triangles).value(fine_v)
    assert edges[1] != pytest.approx(edges[0], rel=0.1)


def test_fem_on_a_sphere_approaches_the_integral():
    # the integral of |grad z| over the unit sphere is pi^2
    values = [mesh(*icosphere(s), scheme="fem").value(icosphere(s)[0][:, 2]) for s in (2, 4)]
    assert values[1] == pytest.approx(np.pi**2, rel=2e-3)
    assert abs(values[1] - np.pi**2) < 0.1 * abs(values[0] - np.pi**2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000))
def test_gradient_scheme_is_exact_on_linear_functions(seed):
    rng = np.random.default_rng(seed)
    points, triangles = sheet(5, 4, rng)
    slope = rng.standard_normal(2)
    structure = mesh(into_space(points, rng), triangles, scheme="gradient")
    norms = structure.group_norms(structure.forward(points @ slope - 1.0))
    np.testing.assert_allclose(norms, np.linalg.norm(slope), rtol=1e-9)
    assert structure.n_groups == len(points)


def test_gradient_scheme_against_a_loop_on_a_sphere():
    coords, triangles = icosphere(1)
    rng = np.random.default_rng(0)
    coords = coords * rng.uniform(0.8, 1.2, (len(coords), 1))
    v = rng.standard_normal(len(coords))
    structure = mesh(coords, triangles, scheme="gradient")
    lengths = []
    for i, point in enumerate(coords):
        around = triangles[(triangles == i).any(axis=1)]
        normal = sum(np.cross(coords[b] - coords[a], coords[c] - coords[a]) for a, b, c in around)
        normal /= np.linalg.norm(normal)
        ring = np.setdiff1d(around, [i])
        offsets = (coords[ring] - point) @ (np.eye(3) - np.outer(normal, normal))
        gradient = np.linalg.lstsq(offsets, v[ring] - v[i], rcond=1e-6)[0]
        lengths.append(np.linalg.norm(gradient))
    np.testing.assert_allclose(structure.group_norms(structure.forward(v)), lengths, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_from_a_single_neighbour_and_from_none(seed):
    points = np.array([[0, 0], [2, 0], [0, 1], [9, 9]], dtype=float)
    points = into_space(points, np.random.default_rng(seed))
    structure = mesh(points, [[0, 1, 2]], mask=[True, True, False, True], scheme="gradient")
    # vertices 0 and 1 know the slope along their edge only; vertex 3 knows nothing
    assert structure.n_features == 3
    np.testing.assert_allclose(structure.group_norms(structure.forward([1.0, 4.0, 7.0])), [1.5, 1.5])


def test_a_ring_on_a_line_does_not_blow_up():
    # the middle vertex of three keeps two neighbours that are opposite but for a hair
    points = np.array([[-1, 0], [0, 1e-6], [1, 0], [0, 1], [0, -1]], dtype=float)
    triangles = [[0, 1, 3], [1, 2, 3], [0, 4, 1], [1, 4, 2]]
    structure = mesh(points, triangles, mask=[True, True, True, False, False], scheme="gradient")
    assert structure.norm_squared() < 10
    assert structure.value([-1.0, 0.0, 1.0]) == pytest.approx(3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_edges_scheme_against_a_loop_whatever_the_triangles_order(seed):
    rng = np.random.default_rng(seed)
    coords, triangles = icosphere(1)
    structure = mesh(coords, triangles)
    assert isinstance(structure, EdgeStructure)
    pairs = {frozenset(pair) for t in triangles for pair in itertools.combinations(t.tolist(), 2)}
    v = rng.standard_normal(len(coords))
    squares = np.zeros(len(coords))
    for pair in pairs:
        squares[min(pair)] += (v[max(pair)] - v[min(pair)]) ** 2
    assert structure.value(v) == pytest.approx(np.sqrt(squares).sum())
    shuffled = rng.permuted(rng.permutation(triangles), axis=1)
    assert mesh(-3 * coords, shuffled) == structure


@settings(max_examples=20, deadline=None)
@given(scheme=st.sampled_from(["gradient", "fem"]), seed=st.integers(0, 1000))
def test_geometry_does_not_depend_on_position_or_triangle_order(scheme, seed):
    rng = np.random.default_rng(seed)
    coords, triangles = icosphere(1)
    coords = coords * rng.uniform(0.8, 1.2, (len(coords), 1))
    v = rng.standard_normal(len(coords))
    turned = np.roll(rng.permutation(triangles), rng.integers(3), axis=1)
    moved = coords @ np.linalg.qr(rng.standard_normal((3, 3)))[0] + 5.0
    value = mesh(coords, triangles, scheme=scheme).value(v)
    assert mesh(moved, turned, scheme=scheme).value(v) == pytest.approx(value)
    # mirrored orientation, and the unit of length
    assert mesh(2 * coords, triangles[:, ::-1], scheme=scheme).value(v) == pytest.approx(
        value * {"gradient": 0.5, "fem": 2.0}[scheme]
    )


def test_fem_does_not_need_an_orientation():
    rng = np.random.default_rng(0)
    coords, triangles = icosphere(1)
    v = rng.standard_normal(len(coords))
    mixed = rng.permuted(triangles, axis=1)
    assert mesh(coords, mixed, scheme="fem").value(v) == pytest.approx(
        mesh(coords, triangles, scheme="fem").value(v)
    )
    with pytest.raises(
        ValueError, match=r"not oriented consistently: \d+ edges .* from vertex \d+ to vertex"
    ):
        mesh(coords, mixed, scheme="gradient")


def test_a_mask_keeps_edges_and_triangles_of_kept_vertices():
    coords, triangles = icosphere(1)
    mask = np.arange(len(coords)) % 4 != 0
    index = np.cumsum(mask) - 1
    full, kept = mesh(coords, triangles), mesh(coords, triangles, mask=mask)
    inside = mask[full.tail] & mask[full.head]
    np.testing.assert_array_equal(kept.tail, index[full.tail[inside]])
    np.testing.assert_array_equal(kept.head, index[full.head[inside]])
    whole = triangles[mask[triangles].all(axis=1)]
    assert mesh(coords, triangles, mask=mask, scheme="fem") == mesh(coords[mask], index[whole], scheme="fem")
    assert mesh(coords, triangles, mask=np.ones(len(coords))) == full


@pytest.mark.parametrize("scheme", SCHEMES)
def test_isolated_vertices_are_allowed(scheme):
    coords, triangles = icosphere(0)
    with_extra = np.concatenate([coords[:1] + 9, coords])
    structure = mesh(with_extra, triangles + 1, scheme=scheme)
    v = np.random.default_rng(0).standard_normal(13)
    assert structure.n_features == 13
    assert structure.value(v) == pytest.approx(mesh(coords, triangles, scheme=scheme).value(v[1:]))
    nothing = mesh(coords, np.zeros((0, 3), dtype=int), scheme=scheme)
    assert (nothing.n_features, nothing.n_groups) == (12, 0)
    check_structure(nothing)


def test_icosphere():
    for s in range(4):
        coords, triangles = icosphere(s)
        assert coords.shape == (10 * 4**s + 2, 3)
        assert triangles.shape == (20 * 4**s, 3)
        np.testing.assert_allclose(np.linalg.norm(coords, axis=1), 1)
        a, b, c = (coords[triangles[:, i]] for i in range(3))
        assert (np.einsum("ij,ij->i", np.cross(b - a, c - a), a + b + c) > 0).all()
        assert mesh(coords, triangles).n_rows == 30 * 4**s
    with pytest.raises(ValueError, match="at least 0, got -1"):
        icosphere(-1)


CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [2, 0, 0]], dtype=float)


@pytest.mark.parametrize(
    ("coords", "triangles", "options", "error", "message"),
    [
        (
            CORNERS,
            [[0, 1, 2], [1, 2, 4]],
            {},
            ValueError,
            "triangle 1 points to vertex 4, but there are 4 vertices",
        ),
        (CORNERS, [[0, -1, 2]], {}, ValueError, "triangle 0 points to vertex -1"),
        (CORNERS, [[0, 1, 1]], {}, ValueError, r"1 triangles use a vertex twice.*triangle 0: \[0, 1, 1\]"),
        (CORNERS, [[0, 1]], {}, ValueError, r"shape \(n_triangles, 3\), got \(1, 2\)"),
        (CORNERS, [[0.0, 1.0, 2.0]], {}, TypeError, "integer vertex indices, got dtype float64"),
        (
            CORNERS[:, :1],
            [[0, 1, 2]],
            {},
            ValueError,
            r"\(n_vertices, 3\) or \(n_vertices, 2\), got \(4, 1\)",
        ),
        (np.zeros((0, 3)), [[0, 1, 2]], {}, ValueError, r"got \(0, 3\)"),
        (CORNERS + np.inf, [[0, 1, 2]], {}, ValueError, "coords must be finite; 4 vertices"),
        (
            CORNERS,
            [[0, 1, 2]],
            {"scheme": "cotan"},
            ValueError,
            "'cotan'; choose .*'edges', 'gradient', 'fem'",
        ),
        (CORNERS, [[0, 1, 2]], {"mask": [True]}, ValueError, r"4 vertices but mask has shape \(1,\)"),
        (CORNERS, [[0, 1, 2]], {"mask": np.zeros(4)}, ValueError, r"mask of shape \(4,\) is empty"),
        (CORNERS, [[0, 1, 2]], {"mask": [0, 1, 2, 3]}, ValueError, "mask must be boolean"),
        (
            CORNERS,
            [[0, 1, 2], [0, 1, 3]],
            {"scheme": "fem"},
            ValueError,
            "1 triangles have no area.* triangle 1;",
        ),
        (CORNERS, [[0, 1, 3]], {"scheme": "gradient"}, ValueError, "3 vertices have no normal.* vertex 0;"),
    ],
)
def test_errors_name_the_problem(coords, triangles, options, error, message):
    with pytest.raises(error, match=message):
        mesh(coords, triangles, **options)
