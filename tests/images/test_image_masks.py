"""The automatic mask: the rule that fits the images, and a warning where the mask is hardly the brain."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv.images import ImageError, MaskWarning
from spcatv.images.mask_rules import STRATEGIES
from spcatv.images.volume_files import open_all
from spcatv.images.volume_mask import find_mask

N_IMAGES = 12
SCANNER, MNI = 1, 4


@pytest.fixture(scope="module")
def brain():
    """The brain of the MNI152 template at 6 mm: mask and affine."""
    from nilearn.datasets import load_mni152_brain_mask

    image = load_mni152_brain_mask(resolution=6)
    return np.asanyarray(image.dataobj) > 0, image.affine


def smooth(rng, shape):
    field = gaussian_filter(rng.standard_normal(shape), 1.2)
    return field / field.std()


def contrasts(shape, seed=0):
    """Signed maps with something in common, and values everywhere."""
    rng = np.random.default_rng(seed)
    common = smooth(rng, shape)
    return [common + smooth(rng, shape) for _ in range(N_IMAGES)]


def masked(arrays, affine, *, code=None, mask=None):
    """The mask, its report and the warnings."""
    images = []
    for values in arrays:
        image = nib.Nifti1Image(values.astype(np.float32), affine)
        if code is not None:
            image.set_sform(affine, code)
            image.set_qform(affine, code)
        images.append(image)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels, _, report = find_mask(open_all(images), mask)
    return labels != 0, report, [str(one.message) for one in caught if one.category is MaskWarning]


def overlap(mask, truth):
    return 2 * (mask & truth).sum() / (mask.sum() + truth.sum())


@pytest.mark.parametrize("outside", [0.0, np.nan])
def test_a_background_of_zeros_or_nan_decides(brain, outside):
    inside, affine = brain
    mask, report, said = masked([np.where(inside, x, outside) for x in contrasts(inside.shape)], affine)
    assert np.array_equal(mask, inside)
    assert "'nonzero': neither 0 nor NaN in most of 12 images" in report
    assert said == []


def test_islands_are_kept(brain):
    """nilearn's rule takes the largest part only: one hippocampus of two."""
    inside, affine = brain
    parts = np.zeros_like(inside)
    middle = np.array(inside.shape) // 2
    for side in (-4, 4):
        parts[middle[0] + side, middle[1] - 2 : middle[1] + 2, middle[2]] = True
    mask, _, said = masked([x * parts for x in contrasts(inside.shape)], affine)
    assert np.array_equal(mask, parts)
    assert said == []


@pytest.mark.parametrize("bad", ["half NaN", "all zero", "no background"])
def test_one_bad_image_does_not_change_the_mask(brain, bad):
    inside, affine = brain
    arrays = [np.where(inside, x, np.nan) for x in contrasts(inside.shape)]
    if bad == "half NaN":
        arrays[3][: inside.shape[0] // 2] = np.nan
    elif bad == "all zero":
        arrays[3][:] = 0
    else:
        arrays[3] = contrasts(inside.shape, seed=1)[0]
    mask, _, said = masked(arrays, affine)
    assert np.array_equal(mask, inside)
    assert said == []


def test_lesions_are_kept_though_most_images_are_zero_there(brain):
    inside, affine = brain
    places = np.argwhere(inside)
    arrays = []
    for number in range(N_IMAGES):
        values = np.zeros(inside.shape)
        values[tuple(places[80 * number : 80 * number + 100].T)] = 1
        arrays.append(values)
    mask, report, _ = masked(arrays, affine)
    assert np.array_equal(mask, np.sum(arrays, axis=0) > 0)
    assert "in any of 12 images" in report


@pytest.mark.parametrize("code", [MNI, None])
def test_contrasts_with_values_in_the_air_get_the_template_and_a_warning(brain, code):
    inside, affine = brain
    mask, report, said = masked(contrasts(inside.shape), affine, code=code)
    assert "'whole-brain-template'" in report
    assert overlap(mask, inside) > 0.9
    (line,) = said
    assert "check that the images are in its space" in line


def test_contrasts_in_another_space_get_the_brightest_part_if_the_air_is_dark(brain):
    inside, affine = brain
    weight = 0.05 + gaussian_filter(inside.astype(float), 0.5)
    mask, report, said = masked([x * weight for x in contrasts(inside.shape)], affine, code=SCANNER)
    assert "'epi' from the root mean square" in report
    assert overlap(mask, inside) > 0.85
    assert said == []


def test_contrasts_of_which_no_rule_knows_the_brain_are_warned_about(brain):
    inside, affine = brain
    mask, report, said = masked(contrasts(inside.shape), affine, code=SCANNER)
    assert mask.all()
    assert "doubtful: it fills 100 % of the box" in report
    (line,) = said
    assert "fills 100 % of the box and covers parts of 6 of the 6 faces of the box" in line
    assert all(rule in line for rule in STRATEGIES)


@pytest.mark.parametrize("zeros", [False, True])
def test_raw_images_get_the_bright_part(brain, zeros):
    """The air of raw images is noise, which some scanners cut off at 0."""
    inside, affine = brain
    rng = np.random.default_rng(2)
    bright = 1000 * gaussian_filter(inside.astype(float), 0.5)
    arrays = [np.abs(bright + 20 * rng.standard_normal(inside.shape)).round() for _ in range(N_IMAGES)]
    if zeros:
        arrays = [np.maximum(x - 15, 0) for x in arrays]
    mask, report, said = masked(arrays, affine, code=SCANNER)
    assert "'epi' from the mean" in report
    assert overlap(mask, inside) > 0.9
    assert said == []


def test_a_background_of_another_constant(brain):
    inside, affine = brain
    mask, report, said = masked([np.where(inside, x, -3) for x in contrasts(inside.shape)], affine)
    assert np.array_equal(mask, inside)
    assert "'background'" in report
    assert said == []


def test_values_far_from_the_brain_of_the_template_are_warned_about(brain):
    """Zeros decide, but the user must know that only the eyes have values."""
    inside, affine = brain
    eyes = np.zeros_like(inside)
    eyes[inside.shape[0] // 2 - 4 : inside.shape[0] // 2 + 4, -5:-2, 3:6] = True
    mask, report, said = masked([x * eyes for x in contrasts(inside.shape)], affine)
    assert np.array_equal(mask, eyes)
    assert "doubtful" in report
    (line,) = said
    assert "outside the brain of the MNI152 template" in line
    assert masked([x * eyes for x in contrasts(inside.shape)], affine, code=SCANNER)[2] == []


def test_a_rule_that_was_named_is_judged_too(brain):
    inside, affine = brain
    _, report, said = masked(contrasts(inside.shape), affine, mask="background")
    assert "'background'" in report
    assert len(said) == 1
    _, _, said = masked(contrasts(inside.shape), affine, mask="whole-brain-template")
    assert said == []


def test_template_rules_keep_thin_parts(brain):
    """Grey matter is one or two voxels thick: removing what is thinner than five leaves a tenth of it."""
    inside, affine = brain
    mask, _, _ = masked(contrasts(inside.shape), affine, mask="gm-template")
    litres = mask.sum() * abs(np.linalg.det(affine[:3, :3])) / 1e6
    assert 0.9 < litres < 1.2


def test_nothing_but_zeros(brain):
    inside, affine = brain
    with pytest.raises(ImageError, match="their mask is empty"):
        masked([np.zeros(inside.shape)] * 3, affine)
