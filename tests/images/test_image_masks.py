"""Computed masks: one strategy, and a warning if the mask is probably not a brain mask."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv.images import ImageError, MaskWarning
from spcatv.images.masking import STRATEGIES
from spcatv.images.spaces.volume import VolumeSpace

N_IMAGES = 12


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


def masked(arrays, affine, *, mask=None):
    """The mask, its report and the warnings."""
    images = []
    for values in arrays:
        images.append(nib.Nifti1Image(values.astype(np.float32), affine))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples, report = VolumeSpace.find(VolumeSpace.open_images(images), mask, None, None)
    return samples.space.mask, report, [str(one.message) for one in caught if one.category is MaskWarning]


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
    """nilearn's "background" takes the largest part only: one hippocampus of two."""
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


def test_values_everywhere_are_warned_about(brain):
    """No voxel is 0: the mask is the whole box, and the warning names the other strategies."""
    inside, affine = brain
    mask, report, said = masked(contrasts(inside.shape), affine)
    assert mask.all()
    assert "doubtful: it fills 100 % of the box" in report
    (line,) = said
    assert "'nonzero' fills 100 % of the box" in line
    assert all(strategy in line for strategy in STRATEGIES)


@pytest.mark.parametrize("strategy", ["background", "epi"])
def test_masks_of_nilearn_are_those_of_the_mean_image(brain, strategy):
    from nilearn import masking

    inside, affine = brain
    rng = np.random.default_rng(2)
    bright = 1000 * gaussian_filter(inside.astype(float), 0.5)
    arrays = [np.abs(bright + 20 * rng.standard_normal(inside.shape)).round() for _ in range(N_IMAGES)]
    mask, report, _ = masked(arrays, affine, mask=strategy)
    mean = nib.Nifti1Image(np.mean(arrays, axis=0).astype(np.float32), affine)
    expected = getattr(masking, f"compute_{strategy}_mask")(mean)
    assert np.array_equal(mask, np.asanyarray(expected.dataobj) != 0)
    assert f"nilearn's {strategy!r} from the mean of 12 images" in report
    if strategy == "epi":
        assert overlap(mask, inside) > 0.9


def test_a_tiny_mask_of_nilearn_is_warned_about(brain):
    """Zeros around a few voxels may be wanted; a strategy of nilearn looks for a whole brain."""
    inside, affine = brain
    part = np.zeros_like(inside)
    middle = np.array(inside.shape) // 2
    part[tuple(slice(m - 2, m + 2) for m in middle)] = True
    arrays = [np.where(part, x + 10, 0) for x in contrasts(inside.shape)]
    assert masked(arrays, affine)[2] == []
    (line,) = masked(arrays, affine, mask="background")[2]
    assert "probably not a brain mask" in line


def test_templates_need_no_values(brain, monkeypatch):
    inside, affine = brain
    monkeypatch.setattr("spcatv.images.masking.sum_images", None)
    mask, _, said = masked(contrasts(inside.shape), affine, mask="whole-brain-template")
    assert overlap(mask, inside) > 0.9
    assert said == []


def test_template_strategies_keep_thin_parts(brain):
    """Grey matter is one or two voxels thick: removing what is thinner than five leaves a tenth of it."""
    inside, affine = brain
    mask, _, _ = masked(contrasts(inside.shape), affine, mask="gm-template")
    litres = mask.sum() * abs(np.linalg.det(affine[:3, :3])) / 1e6
    assert 0.9 < litres < 1.2


def test_nothing_but_zeros(brain):
    inside, affine = brain
    with pytest.raises(ImageError, match="'nonzero' is empty"):
        masked([np.zeros(inside.shape)] * 3, affine)
