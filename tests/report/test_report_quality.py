"""The section on images and mask: the picture shows the mask where it lies, and the table the worst first."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("nilearn")
import nibabel as nib

from spcatv import SPCATV, ImageSPCATV
from spcatv.data.outliers import SCALE
from spcatv.images import BadFeatureWarning, ImageQualityWarning
from spcatv.report import generate_report
from spcatv.report.brain_views import whole_grid
from spcatv.report.image_sections import plot_mask, quality_section
from spcatv.report.inputs import gather
from spcatv.report.maps import views_of


@pytest.fixture(scope="module")
def model():
    """Twenty images, zero outside a block; the last one misses half of its voxels."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((10, 12, 9))
    images = []
    for number in range(20):
        values = np.zeros((10, 12, 9), dtype=np.float32)
        values[2:8, 3:9, 2:7] = (common + 0.4 * rng.standard_normal(common.shape))[2:8, 3:9, 2:7]
        if number == 19:
            values[2:5] = np.nan
        images.append(nib.Nifti1Image(values, np.diag([3.0, 3.0, 3.0, 1.0])))
    with pytest.warns(ImageQualityWarning), pytest.warns(BadFeatureWarning):
        return ImageSPCATV(n_components=1).fit(images)


def test_the_page_names_the_outlier_and_shows_mask_and_table(model):
    html = generate_report(model).html
    section = html[html.index('id="quality"') :]
    section = section[: section.index("</section>")]
    text = re.sub(r"<[^>]+>", " ", section)
    assert "Mask of 180 of 1,080 voxels, computed by" in text
    assert "90 of these voxels were dropped." in text
    assert "1 of 20 images is unusual: image 20 (50 % missing)." in text
    rows = re.findall(r'<th scope="row" class="text">([^<]*)</th>', section)
    assert rows[0] == "image 20"
    assert len(rows) == 20
    assert "Six slices with the outline of the mask, on the mean image" in section
    assert "<details><summary>Quality of 20 images</summary>" in section
    assert 'href="#quality"' in html


def test_a_model_of_an_array_has_no_such_section():
    model = SPCATV(1, structure=(6,)).fit(np.random.default_rng(0).random((8, 6)))
    assert 'id="quality"' not in generate_report(model).html


def test_the_section_names_images_of_another_scale(model):
    from copy import copy
    from dataclasses import replace

    scaled = copy(model)
    quality = [replace(image, outlier=False, why="") for image in model.quality_]
    quality[3:5] = [replace(image, why=f"{SCALE} 13 times that of 18 others") for image in quality[3:5]]
    scaled.quality_ = tuple(quality)
    material = gather(scaled)
    text = quality_section(material, views_of(material.model)).text
    assert (
        "2 of 20 images are unusual: image 4 (standard deviation 13 times that of 18 others), image 5 ("
        in text
    )


def test_a_short_table_is_open(model):
    from dataclasses import replace

    material = gather(model)
    short = replace(material, quality=material.quality[:3])
    section = quality_section(short, views_of(model))
    assert section.parts[-1].is_open
    assert "No image is unusual." in section.text


def test_the_outline_lies_around_the_mask(model):
    (view,) = views_of(model)
    sagittal = plot_mask(view.index).axes[0]
    outline = np.concatenate([path.vertices for path in sagittal.collections[0].get_paths()])
    # voxels 3 to 8 along y and 2 to 6 along z, of 3 mm: the outline is half a voxel outside of their centres
    assert np.allclose(outline.min(axis=0), [7.5, 4.5])
    assert np.allclose(outline.max(axis=0), [25.5, 19.5])


def test_the_mean_image_is_shown_outside_the_mask_too(tmp_path):
    """A mask that leaves half of a bright block out, or takes the air, can be seen."""
    values = np.zeros((8, 9, 7), dtype=np.float32)
    values[1:7, 2:8, 2:6] = 5
    values[0, 0, 0] = np.nan
    rng = np.random.default_rng(0)
    affine = np.diag([-3.0, 3.0, 3.0, 1.0])  # x grows to the left
    images = [nib.Nifti1Image(values + rng.random(values.shape, np.float32), affine) for _ in range(4)]
    mask = np.zeros(values.shape, dtype=np.uint8)
    mask[1:4, 2:8, 2:6] = 1
    model = ImageSPCATV(n_components=1, mask=mask).fit(images)
    mean = np.mean([image.get_fdata() for image in images], axis=0)
    np.testing.assert_allclose(model.mean_img_.get_fdata(), mean, rtol=1e-6)
    (view,) = views_of(model)
    grid = whole_grid(model.mean_img_)
    picture = plot_mask(view.index, grid).axes[2].images[0].get_array()  # axial, y along its rows
    assert picture.shape == (9, 8)
    # bright on both sides of the mask, which lies on the right
    bright = picture > 128
    assert bright[2:8, 1:7].all()
    assert not bright[:2].any()
    assert not bright[:, 7].any()
    assert grid.values[7, 0, 0] == 0  # NaN: at the left end, because x grows to the left
    assert "The mask (orange) on the mean image." in generate_report(model).html


def test_centred_runs_have_a_mean_image_and_values_from_a_cache_have_none(tmp_path):
    rng = np.random.default_rng(0)
    files = []
    for number in range(2):
        values = np.zeros((6, 7, 6, 9), dtype=np.float32)
        values[1:5, 1:6, 1:5] = 100 + rng.standard_normal((4, 5, 4, 9))
        files.append(tmp_path / f"run-{number}.nii.gz")
        nib.save(nib.Nifti1Image(values, np.eye(4)), files[-1])
    asked = {"n_components": 1, "standardize_runs": True}
    model = ImageSPCATV(**asked).fit(files)
    assert np.allclose(model.mean_img_.get_fdata()[model.mask_img_.get_fdata() > 0], 100, atol=1)
    assert "on the mean image" in generate_report(model).html
    mask = np.zeros((6, 7, 6), dtype=np.uint8)
    mask[1:5, 1:6, 1:5] = 1
    again = ImageSPCATV(**asked, mask=mask, cache=str(tmp_path / "cache")).fit(files)
    assert again.mean_img_ is None
    html = generate_report(again).html
    assert "alone: there is no mean image" in html or "on the MNI152 template" in html
