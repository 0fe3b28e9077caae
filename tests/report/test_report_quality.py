"""The section on images and mask: the picture shows the mask where it lies, and the table the worst first."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("nilearn")
import nibabel as nib

from spcatv import SPCATV, ImageSPCATV
from spcatv.images import BadFeatureWarning, ImageQualityWarning
from spcatv.report import generate_report
from spcatv.report.maps import views_of
from spcatv.report.material import gather
from spcatv.report.quality import plot_mask, quality_section


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
    assert "Mask of 180 of 1,080 voxels, computed by the rule" in text
    assert "90 of these voxels were dropped." in text
    assert "1 of 20 images is unlike the others: image 20 (50 % missing)." in text
    rows = re.findall(r'<th scope="row" class="text">([^<]*)</th>', section)
    assert rows[0] == "image 20"
    assert len(rows) == 20
    assert "Three slices through the mean image with the outline of the mask" in section
    assert "<details><summary>Quality of 20 images</summary>" in section
    assert 'href="#quality"' in html


def test_a_model_of_an_array_has_no_such_section():
    model = SPCATV(1, structure=(6,)).fit(np.random.default_rng(0).random((8, 6)))
    assert 'id="quality"' not in generate_report(model).html


def test_a_short_table_is_open(model):
    from dataclasses import replace

    material = gather(model)
    short = replace(material, quality=material.quality[:3])
    section = quality_section(short, views_of(model))
    assert not section.folded
    assert "No image is unlike the others." in section.text


def test_the_outline_lies_around_the_mask_and_the_frame_around_the_box(model):
    (view,) = views_of(model)
    figure = plot_mask(view, np.asarray(model.mean_), np.array([[-1.5, -1.5, -1.5], [28.5, 34.5, 25.5]]))
    sagittal = figure.axes[0]
    outline = np.concatenate([path.vertices for path in sagittal.collections[0].get_paths()])
    # voxels 3 to 8 along y and 2 to 6 along z, of 3 mm: the outline is half a voxel outside of their centres
    assert np.allclose(outline.min(axis=0), [7.5, 4.5])
    assert np.allclose(outline.max(axis=0), [25.5, 19.5])
    frame = sagittal.lines[0].get_xydata()
    assert np.allclose([frame.min(axis=0), frame.max(axis=0)], [[-1.5, -1.5], [34.5, 25.5]])
