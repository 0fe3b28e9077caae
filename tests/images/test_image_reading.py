"""Maskers, smoothing and resampling."""

import numpy as np
import pytest

pytest.importorskip("nilearn")
import nibabel as nib
from nilearn.image import resample_to_img, smooth_img
from nilearn.maskers import MultiNiftiMasker, NiftiLabelsMasker, NiftiMasker

from spcatv.images import BadFeatureWarning, ImageError, ImageSPCATV, Reading, read_cohort

COARSE, FINE = np.diag([4.0, 4.0, 4.0, 1.0]), np.diag([2.0, 2.0, 2.0, 1.0])


def maps(shape, affine, n_images=6, seed=0):
    """Smooth bumps, so that resampling loses little."""
    rng = np.random.default_rng(seed)
    places = nib.affines.apply_affine(affine, np.moveaxis(np.indices(shape), 0, -1))
    images = []
    for _ in range(n_images):
        centre, size = np.array([16, 16, 16]) + 2 * rng.standard_normal(3), 1 + rng.random()
        values = size * np.exp(-((places - centre) ** 2).sum(axis=-1) / 100)
        images.append(nib.Nifti1Image(values.astype(np.float32), affine))
    return images


@pytest.fixture
def fine():
    return maps((17, 17, 17), FINE)


@pytest.fixture
def coarse_mask():
    inside = np.zeros((9, 9, 9), np.uint8)
    inside[2:7, 2:7, 2:7] = 1
    return nib.Nifti1Image(inside, COARSE)


def test_smoothing_is_that_of_nilearn(fine):
    inside = np.ones((17, 17, 17), bool)
    cohort = read_cohort(fine, mask=inside, reading=Reading(smoothing_fwhm=5))
    expected = [np.asanyarray(smooth_img(image, 5).dataobj).ravel() for image in fine]
    assert np.allclose(cohort.X, expected, atol=1e-6)
    assert cohort.reading_report == "smoothed with a kernel of 5 mm (FWHM)"


def test_smoothing_fills_no_missing_value(fine):
    values = np.asanyarray(fine[0].dataobj).copy()
    values[8, 8, 8] = np.nan
    images = [nib.Nifti1Image(values, FINE), *fine[1:]]
    with pytest.warns(BadFeatureWarning, match="1 are NaN or infinite in some image"):
        cohort = read_cohort(images, mask=np.ones((17, 17, 17), bool), reading=Reading(smoothing_fwhm=5))
    assert cohort.X.shape[1] == 17**3 - 1
    assert np.isfinite(cohort.X).all()


def test_resampled_images_keep_their_background():
    """Splines swing around zero: the mask is found with the values that the images hold."""
    values = np.zeros((20, 20, 20), np.float32)
    values[6:14, 6:14, 6:14] = 1
    rng = np.random.default_rng(0)
    images = [nib.Nifti1Image(values * (1 + rng.random(values.shape, np.float32)), FINE) for _ in range(4)]
    cohort = read_cohort(images, target_affine=3.0)
    assert "computed by 'nonzero'" in cohort.mask_report
    assert cohort.space.n_features * 27 == pytest.approx(16**3, rel=0.2)


def test_the_mask_is_computed_from_images_as_they_are(fine):
    plain, smooth = (read_cohort(fine, reading=Reading(smoothing_fwhm=fwhm)) for fwhm in (None, 8))
    assert np.array_equal(plain.space.mask, smooth.space.mask)


def test_resampling_is_refused_unless_requested(fine, coarse_mask):
    with pytest.raises(ImageError, match=r"the mask does not fit.*resample=True"):
        read_cohort(fine, mask=coarse_mask)
    with pytest.raises(ImageError, match=r"the first image is image 1; resample=True"):
        read_cohort([fine[0], *maps((9, 9, 9), COARSE)])


def test_resampling_to_the_mask(fine, coarse_mask, tmp_path):
    both = [*fine, *maps((9, 9, 9), COARSE, seed=1)]
    model = ImageSPCATV(1, mask=coarse_mask, resample=True)
    scores = model.fit_transform(both)
    inside = np.asanyarray(coarse_mask.dataobj) > 0
    for row, image in zip(model.preparation_.read(both), both, strict=True):
        expected = np.asanyarray(resample_to_img(image, coarse_mask).dataobj)[inside]
        assert np.allclose(row, expected, atol=1e-5)
    assert "6 of 12 images resampled to its grid" in model.mask_report_
    assert np.allclose(model.components_img_.affine, COARSE)
    # a masker of nilearn resamples by itself, and so does a model that is loaded
    assert np.allclose(read_cohort(both, mask=NiftiMasker(coarse_mask)).X, model.preparation_.read(both))
    again = ImageSPCATV.load(model.save(tmp_path / "model"))
    assert np.allclose(again.transform(fine[0]), scores[:1], atol=1e-5)


def test_voxels_outside_an_image_are_no_zeros(fine, coarse_mask):
    """An image that covers the mask in part makes the rest missing, which the one rule then sees."""
    part = nib.Nifti1Image(np.asanyarray(fine[0].dataobj)[:10], FINE)
    with pytest.warns(BadFeatureWarning, match=r"NaN or infinite in some image \(first in image 7\)"):
        cohort = read_cohort([*fine, part], mask=coarse_mask, reading=Reading(resample=True))
    assert cohort.space.n_features == 3 * 25  # of 5 x 5 x 5 voxels at 8, 12, 16, 20 and 24 mm, up to 18 mm


@pytest.mark.parametrize("target", ["large", -1, np.ones((2, 2))], ids=str)
def test_target_affine_that_is_none(target, fine):
    with pytest.raises(ImageError, match="target_affine must be a voxel size above 0 mm, or an affine"):
        read_cohort(fine, target_affine=target)


def test_target_affine(fine, coarse_mask):
    for target in (4, 4 * np.eye(3), COARSE):
        cohort = read_cohort(fine, mask=np.ones((9, 9, 9), bool), target_affine=target)
        assert cohort.space.mask.shape == (9, 9, 9)
        assert np.allclose(cohort.space.affine, COARSE)
    # the mask goes there too, with its labels
    labels = np.zeros((17, 17, 17), np.int16)
    labels[4:9, 4:14, 4:14], labels[9:13, 4:14, 4:14] = 5, 7
    cohort = read_cohort(fine, mask=nib.Nifti1Image(labels, FINE), target_affine=4)
    assert set(np.unique(cohort.space.labels)) == {0, 5, 7}
    computed = read_cohort(fine, target_affine=4)
    assert computed.space.mask.shape == (9, 9, 9)
    with pytest.raises(ImageError, match="target_affine must be a voxel size"):
        read_cohort(fine, target_affine=np.zeros((3, 3)))


def test_unfitted_maskers_compute_their_own_mask(fine, coarse_mask):
    stack = nib.Nifti1Image(np.stack([np.asanyarray(i.dataobj) for i in fine], axis=-1), FINE)
    masker = NiftiMasker(
        mask_strategy="background", mask_args={"border_size": 1}, target_affine=4 * np.eye(3)
    )
    expected = np.asanyarray(NiftiMasker(**masker.get_params()).fit(stack).mask_img_.dataobj)
    for images in (fine, [stack, stack]):
        model = ImageSPCATV(1, mask=masker).fit(images)
        assert np.array_equal(np.asanyarray(model.mask_img_.dataobj), expected)
    assert not hasattr(masker, "mask_img_")  # what was given stays as it was
    assert ImageSPCATV(1, mask=masker.fit(stack)).fit(fine).n_features_in_ == expected.sum()
    multi = MultiNiftiMasker(mask_img=coarse_mask)
    assert np.array_equal(read_cohort(fine, mask=multi).X, read_cohort(fine, mask=NiftiMasker(coarse_mask)).X)
    assert read_cohort(fine, mask=MultiNiftiMasker(target_affine=COARSE)).X.shape[0] == 6


@pytest.mark.parametrize(
    ("masker", "message"),
    [
        (NiftiMasker(high_variance_confounds=True), "high_variance_confounds=True cannot be used"),
        (NiftiMasker(clean_args={"filter": "cosine"}), "clean_args"),
        (NiftiMasker(runs=[0, 1]), "runs"),
        (NiftiMasker(dtype="float32"), "dtype='float32' cannot be used here; give dtype to ImageSPCATV"),
        (NiftiMasker(standardize_confounds=False), "standardize_confounds"),
        (NiftiMasker(smoothing_fwhm="fast"), "NiftiMasker: smoothing_fwhm must be a number"),
        (NiftiLabelsMasker("labels.nii.gz"), "a NiftiLabelsMasker cannot be used"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_a_masker_cannot_ask_for_is_named(fine, masker, message):
    with pytest.raises(ImageError, match=message):
        ImageSPCATV(1, mask=masker).fit(fine)


def test_one_place_decides(fine, coarse_mask):
    masker = NiftiMasker(coarse_mask)
    for name, value in {"smoothing_fwhm": 4, "resample": True, "standardize_runs": True}.items():
        with pytest.raises(ImageError, match=f"{name} was given beside a NiftiMasker"):
            ImageSPCATV(1, mask=masker, **{name: value}).fit(fine)
    with pytest.raises(ImageError, match="target_affine was given beside a NiftiMasker"):
        ImageSPCATV(1, mask=masker, target_affine=4).fit(fine)
    cohort = read_cohort(fine, mask=coarse_mask, reading=Reading(resample=True, smoothing_fwhm=4))
    assert ImageSPCATV(1, smoothing_fwhm=4).fit(cohort).preparation_.reading.smoothing_fwhm == 4
    with pytest.raises(ValueError, match="smoothing_fwhm=6 does not match the Cohort"):
        ImageSPCATV(1, smoothing_fwhm=6).fit(cohort)


def test_a_model_with_a_masker_is_saved(fine, coarse_mask, tmp_path):
    masker = NiftiMasker(coarse_mask, smoothing_fwhm=6)
    model = ImageSPCATV(1, mask=masker, cache=tmp_path / "cache")
    scores = model.fit_transform(fine)
    again = ImageSPCATV.load(model.save(tmp_path / "model"))
    assert np.allclose(again.transform(fine), scores, atol=1e-5)
    assert again.cache is None
    assert again.masker_.smoothing_fwhm == 6


def test_verbose_reports_every_image(fine, capsys):
    inside = np.ones((17, 17, 17), bool)
    ImageSPCATV(1, mask=inside, smoothing_fwhm=4, verbose=1).fit(fine)
    printed = capsys.readouterr().out
    assert "smoothed with a kernel of 4 mm" in printed
    assert "image 3/6" not in printed
    ImageSPCATV(1, mask=inside, verbose=2).fit(fine)
    assert "[ImageSPCATV] image 3/6: image 3" in capsys.readouterr().out


def test_other_kinds_are_refused(tmp_path):
    from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

    axis = BrainModelAxis.from_mask(np.ones((3, 3, 3), bool), name="thalamus_left", affine=np.eye(4))
    rows = np.random.default_rng(0).standard_normal((4, 27)).astype(np.float32)
    image = Cifti2Image(rows, (ScalarAxis(list("abcd")), axis))
    with pytest.raises(ImageError, match="a NiftiMasker is for volume images, these are cifti images"):
        read_cohort(image, mask=NiftiMasker())
    with pytest.raises(ImageError, match="smoothing_fwhm: images of this kind cannot be smoothed"):
        read_cohort(image, reading=Reading(smoothing_fwhm=4))
    with pytest.raises(ImageError, match="resample: cifti images cannot be resampled"):
        read_cohort(image, reading=Reading(resample=True))
