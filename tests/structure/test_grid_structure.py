import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spcatv.structure import GridStructure, grid
from spcatv.testing import check_structure


def loop_value(labels, v, sizes, periodic, isotropic):
    """Grid total variation, one voxel after the other."""
    image = np.zeros(labels.shape)
    image[labels != 0] = v
    total = 0.0
    for voxel in itertools.product(*map(range, labels.shape)):
        if labels[voxel] == 0:
            continue
        differences = []
        for axis, n in enumerate(labels.shape):
            neighbour = list(voxel)
            neighbour[axis] += 1
            if neighbour[axis] == n:
                if not (periodic[axis] and n > 2):
                    continue
                neighbour[axis] = 0
            neighbour = tuple(neighbour)
            if labels[neighbour] == labels[voxel]:
                differences.append((image[neighbour] - image[voxel]) / sizes[axis])
        total += np.linalg.norm(differences) if isotropic else np.abs(differences).sum()
    return total


@st.composite
def label_grids(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    labels = draw(hnp.arrays(np.int16, shape, elements=st.sampled_from([0, 1, 1, 1, 2])))
    assume(labels.any())
    sizes = draw(st.tuples(*[st.sampled_from([0.5, 1.0, 3.0])] * len(shape)))
    periodic = draw(st.tuples(*[st.booleans()] * len(shape)))
    return labels, sizes, periodic, draw(st.booleans())


@settings(max_examples=60, deadline=None)
@given(case=label_grids(), seed=st.integers(0, 1000))
def test_against_a_loop_over_voxels(case, seed):
    labels, sizes, periodic, isotropic = case
    structure = grid(labels, voxel_size=sizes, periodic=periodic, isotropic=isotropic)
    v = np.random.default_rng(seed).standard_normal(structure.n_features)
    assert structure.n_features == np.count_nonzero(labels)
    np.testing.assert_allclose(
        structure.value(v), loop_value(labels, v, sizes, periodic, isotropic), atol=1e-12
    )
    check_structure(structure, random_state=seed)


@pytest.mark.parametrize("density", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("periodic", [False, True])
def test_large_masks_pass_all_checks(density, periodic):
    rng = np.random.default_rng(3)
    check_structure(grid(rng.random((15, 16, 13)) < density, voxel_size=(1, 1, 2.5), periodic=periodic))


@pytest.mark.parametrize("shape", [(7,), (6, 9), (4, 5, 6), (3, 2, 4, 3)])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_step_image_costs_its_interface(shape, axis):
    image = np.zeros(shape)
    np.moveaxis(image, axis, 0)[shape[axis] // 2 :] = 1.5
    interface = np.prod(shape) // shape[axis]
    sizes = np.linspace(1, 2, len(shape))
    assert grid(shape, voxel_size=sizes).value(image.ravel()) == pytest.approx(1.5 * interface / sizes[axis])


def test_a_single_pixel_and_a_chain():
    image = np.zeros((5, 5))
    image[2, 2] = 1
    assert grid((5, 5)).value(image.ravel()) == pytest.approx(2 + np.sqrt(2))
    assert grid((5, 5), isotropic=False).value(image.ravel()) == pytest.approx(4)
    v = np.array([0.0, 2.0, -1.0, 5.0])
    assert grid(4).value(v) == pytest.approx(11)
    assert grid(4, periodic=True).value(v) == pytest.approx(16)


def test_rows_are_ordered_by_voxel_then_axis():
    structure = grid((2, 2))
    expected = [[-1, 0, 1, 0], [-1, 1, 0, 0], [0, -1, 0, 1], [0, 0, -1, 1]]
    np.testing.assert_array_equal(structure.matrix.toarray(), expected)
    np.testing.assert_array_equal(structure.group_ptr, [0, 2, 3, 4])
    np.testing.assert_array_equal(grid((2, 2), isotropic=False).group_ptr, np.arange(5))


def test_periodic_value_does_not_change_when_the_image_is_rolled():
    image = np.random.default_rng(0).standard_normal((5, 6))
    structure = grid((5, 6), periodic=(False, True))
    rolled = np.roll(image, 2, axis=1)
    assert structure.value(rolled.ravel()) == pytest.approx(structure.value(image.ravel()))
    assert grid((5, 6)).value(rolled.ravel()) != pytest.approx(grid((5, 6)).value(image.ravel()))


def test_short_periodic_axes_count_no_pair_twice():
    assert grid((1, 2, 4), periodic=True) == grid((1, 2, 4), periodic=(False, False, True))
    assert grid(1, periodic=True).n_rows == 0
    assert grid(3, periodic=True).n_rows == 3


def test_labels_are_separate_worlds():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, (6, 7, 3))
    structure = grid(labels)
    v = rng.standard_normal(structure.n_features)
    of_feature = labels[labels != 0]
    parts = sum(grid(labels == label).value(v[of_feature == label]) for label in (1, 2, 3))
    assert structure.value(v) == pytest.approx(parts)
    assert structure.value(of_feature * 1.7) == 0
    # only equality of labels matters, however large they are
    large = np.array([0, 2**40, 2**40, 2**40 + 1, 2**50])[labels]
    assert grid(large) != structure
    assert grid(np.where(labels > 0, labels + 2**40, 0)) == structure
    assert grid(labels.astype(np.uint8)) == structure


def test_kinds_of_masks():
    mask = np.array([[True, True], [False, True]])
    assert grid(mask) == grid(mask.astype(int)) == grid(mask.astype(float)) == grid(mask.tolist())
    assert grid(6) == grid((6,)) == grid([6]) == grid(np.ones(6, dtype=bool))
    assert grid([True, True, False]).n_features == 2
    # an array of integers is a label mask, never a shape
    assert grid(np.array([4, 4])) == grid(2)


def test_edge_masks_describe_the_operator():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, (5, 4, 3))
    structure = grid(labels, periodic=(True, False, False), isotropic=False)
    index = structure.feature_index()
    assert (index[labels == 0] == -1).all()
    pairs = set()
    for axis in range(3):
        edges = structure.edges_along(axis)
        pairs |= set(zip(index[edges], np.roll(index, -1, axis)[edges], strict=True))
    rows = structure.matrix.toarray()
    assert pairs == {(int(row.argmin()), int(row.argmax())) for row in rows}
    assert len(pairs) == structure.n_rows


def test_the_mask_is_copied_and_nothing_can_be_written():
    mask = np.ones((3, 3), dtype=np.int32)
    structure = grid(mask)
    before = structure.digest
    mask[0, 0] = 0
    assert structure.n_features == 9
    assert grid(np.ones((3, 3), dtype=bool)).digest == before
    with pytest.raises(ValueError, match="read-only"):
        structure.labels[0, 0] = 0
    with pytest.raises(AttributeError):
        structure.isotropic = False


@pytest.mark.parametrize("shape", [(2,), (7,), (4, 6), (3, 4, 5), (40, 60)])
def test_norm_of_a_box_is_exact(shape):
    expected = sum(4 * np.cos(np.pi / (2 * n)) ** 2 for n in shape)
    assert grid(shape).norm_squared() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [3, 4, 9, 10])
def test_norm_of_a_cycle_is_exact(n):
    truth = np.linalg.norm(grid(n, periodic=True).matrix.toarray(), 2) ** 2
    assert grid(n, periodic=True).norm_squared() == pytest.approx(truth, rel=1e-6)
    # too large for the dense eigenvalues: the formula itself
    many = np.ones((n, 400), dtype=bool) * np.arange(1, 401)
    assert grid(many, periodic=(True, False)).norm_squared() == pytest.approx(truth, rel=1e-6)


def test_norm_of_a_run_over_the_end_of_a_periodic_axis():
    line = np.ones(11, dtype=int)
    line[5] = 0
    many = line[:, None] * np.arange(1, 61)
    expected = 4 * np.cos(np.pi / 20) ** 2
    assert grid(many, periodic=(True, False)).norm_squared() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [3, 5])
def test_norm_with_odd_cycles_in_a_ragged_mask(n):
    # not bipartite: |A| is larger than A, and its Rayleigh quotients prove nothing
    mask = np.random.default_rng(n).random((n, 300)) < 0.5
    mask[:, ::5] = True
    structure = grid(mask, periodic=(True, False))
    truth = np.linalg.eigvalsh((structure.matrix.T @ structure.matrix).toarray())[-1]
    assert truth * (1 - 1e-12) <= structure.norm_squared() <= 1.03 * truth


def test_norm_of_an_odd_mask_is_still_tight():
    mask = np.zeros((700, 700), dtype=bool)
    mask[5, :] = mask[100:600, 200] = True  # two lines apart: 4, not the box's 8
    assert 4 * np.cos(np.pi / 1400) ** 2 <= grid(mask).norm_squared() <= 4.1


def test_direct_construction_and_repr():
    structure = GridStructure(np.ones((2, 3), dtype=np.int64), axis_weights=(1.0, 1.0))
    assert structure == grid((2, 3))
    assert repr(structure) == "GridStructure(shape=(2, 3), n_features=6)"


@pytest.mark.parametrize(
    ("mask", "options", "error", "message"),
    [
        (np.zeros((3, 4)), {}, ValueError, r"mask of shape \(3, 4\) is empty"),
        (np.zeros((0,)), {}, ValueError, r"mask of shape \(0,\) is empty"),
        ((3, 0), {}, ValueError, r"at least 1, got shape \(3, 0\)"),
        (-2, {}, ValueError, r"at least 1, got shape \(-2,\)"),
        (np.array([1, -3]), {}, ValueError, r"labels must be >= 0 .*got -3"),
        (np.array([1.0, np.nan]), {}, ValueError, r"0 and 1 only, got nan at \(1,\)"),
        (np.array([[1.0, 0.5]]), {}, ValueError, r"0 and 1 only, got 0.5 at \(0, 1\) \(1 such"),
        (np.array(["a"]), {}, TypeError, "boolean or of integer labels"),
        (2.5, {}, TypeError, "shape .* or a mask"),
        (None, {}, TypeError, "shape .* or a mask"),
        ((3, 4), {"voxel_size": (1, 2, 3)}, ValueError, r"one per axis \(2\).*\(3,\)"),
        ((3, 4), {"voxel_size": 0}, ValueError, "positive and finite, got 0"),
        ((3, 4), {"voxel_size": (1, np.nan)}, ValueError, "positive and finite"),
        ((3, 4), {"periodic": (True,)}, ValueError, r"periodic .* per axis \(2\)"),
        ((3, 4), {"periodic": 2}, ValueError, "periodic must be True, False"),
    ],
)
def test_errors_name_the_problem(mask, options, error, message):
    with pytest.raises(error, match=message):
        grid(mask, **options)
