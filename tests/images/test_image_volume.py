"""Volumes: the fit from files is the fit from the array, and the maps lie where the mask lies."""

import tracemalloc

import numpy as np
import pytest

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv import SPCATV
from spcatv.images import BadFeatureWarning, ImageSPCATV, Reading, read_cohort
from spcatv.progress import ComponentStarted, FileRead, listening
from spcatv.structure import grid


@pytest.fixture(scope="module")
def fitted(volumes):
    return ImageSPCATV(n_components=2, mask=volumes.mask).fit(volumes.paths)


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_fit_from_files_is_the_fit_from_the_array(volumes, alpha):
    fitted = ImageSPCATV(n_components=2, mask=volumes.mask, alpha=alpha).fit(volumes.paths)
    plain = SPCATV(n_components=2, structure=grid(volumes.inside), alpha=alpha).fit(volumes.X)
    assert np.array_equal(fitted.components_, plain.components_)
    assert np.array_equal(fitted.mean_, plain.mean_)
    assert np.array_equal(fitted.transform(volumes.paths), plain.transform(volumes.X))
    assert np.array_equal([fitted.l1_, fitted.tv_], [plain.l1_, plain.tv_])
    assert fitted.n_iter_ == plain.n_iter_
    assert fitted.structure_ == plain.structure_
    assert fitted.components_.dtype == np.float32


def test_forms_of_input_give_the_same_rows(volumes):
    loaded = [nib.load(path) for path in volumes.paths]
    stack = np.stack([np.asanyarray(image.dataobj) for image in loaded], axis=-1)
    four = nib.Nifti1Image(stack, loaded[0].affine)
    nib.save(four, volumes.folder / "all.nii.gz")
    nib.save(four, volumes.folder / "all_plain.nii")
    forms = [
        [str(path) for path in volumes.paths],
        loaded,
        str(volumes.folder / "sub-*_gm.nii.gz"),
        iter(volumes.paths),
        four,
        volumes.folder / "all.nii.gz",
        volumes.folder / "all_plain.nii",
        nib.load(volumes.folder / "all.nii.gz"),
        [nib.Nifti1Image(stack[..., :5], four.affine), nib.Nifti1Image(stack[..., 5:], four.affine)],
    ]
    for form in forms:
        cohort = read_cohort(form, mask=volumes.mask, reading=Reading(standardize_runs=False))
        assert np.array_equal(cohort.X, volumes.X), form
        assert len(set(cohort.names)) == len(volumes.X)


def test_names_and_files(volumes):
    cohort = read_cohort(volumes.paths, mask=volumes.mask)
    assert cohort.names == tuple(map(str, volumes.paths))
    assert [file.name for file in cohort.files] == list(cohort.names)
    assert all(len(file.sha256) == 64 for file in cohort.files)
    four = nib.Nifti1Image(np.random.default_rng(0).random((3, 3, 3, 4)), np.eye(4))
    assert read_cohort(four, mask=np.ones((3, 3, 3), bool)).names[3] == "image 1[3]"


def test_a_compressed_4d_file_is_opened_once(volumes, monkeypatch):
    """Reopening a gzip file for every slice would cost one pass over the file per slice."""
    stack = np.zeros((*volumes.inside.shape, len(volumes.X)), dtype=np.float32)
    stack[volumes.inside] = volumes.X.T
    nib.save(nib.Nifti1Image(stack, nib.load(volumes.mask).affine), volumes.folder / "once.nii.gz")
    opened = []
    original = nib.openers.Opener.__init__

    def counting(self, fileish, *args, **kwargs):
        opened.append(str(fileish))
        original(self, fileish, *args, **kwargs)

    monkeypatch.setattr(nib.openers.Opener, "__init__", counting)
    read_cohort(volumes.folder / "once.nii.gz", mask=volumes.mask)
    assert len([name for name in opened if name.endswith("once.nii.gz")]) < len(volumes.X)


def test_images_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    """The peak memory is the data matrix and a few volumes, however many images there are.

    They are the labels, the mean image and its sums, and what each of two threads reads.
    """
    monkeypatch.setattr("spcatv.images.loader.most_threads", lambda: 2)
    shape, n_images = (40, 40, 40), 30
    volume = np.prod(shape) * 4
    paths = []
    for number in range(n_images):
        paths.append(tmp_path / f"{number}.nii")
        values = np.random.default_rng(number).random(shape, dtype=np.float32)
        nib.save(nib.Nifti1Image(values, np.eye(4)), paths[-1])
    mask = np.zeros(shape, dtype=bool)
    mask[10:14, 10:14, 10:14] = True
    read_cohort(paths[:2], mask=mask)
    tracemalloc.start()
    cohort = read_cohort(paths, mask=mask)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < cohort.X.nbytes + 7 * volume < n_images * volume / 4


def test_maps_lie_where_the_mask_lies(fitted, volumes, tmp_path):
    paths = fitted.space_.write(fitted.components_, tmp_path)
    assert [path.name for path in paths] == ["desc-SPCATV_components.nii.gz", "desc-SPCATV_components.json"]
    maps, mask = nib.load(paths[0]), nib.load(volumes.mask)
    assert maps.shape == (*mask.shape, 2)
    assert maps.get_data_dtype() == np.float32
    assert np.array_equal(maps.affine, mask.affine)
    for name in ("sform_code", "qform_code", "xyzt_units", "srow_x", "srow_y", "srow_z", "quatern_b"):
        assert np.array_equal(maps.header[name], mask.header[name]), name
    assert maps.header["sform_code"] == 4
    values = np.asanyarray(maps.dataobj)
    assert np.array_equal(values[volumes.inside].T, fitted.components_)
    assert not values[~volumes.inside].any()


def test_a_mask_without_any_transform_code(volumes, tmp_path):
    """Files of old tools have neither qform nor sform; their maps must not get one."""
    bare = nib.Nifti1Image(volumes.inside.astype(np.uint8), None)
    bare.header.set_zooms((8, 8, 8))
    path = tmp_path / "bare.nii"
    bare.to_filename(path)
    mask = nib.load(path)
    assert (mask.header["sform_code"], mask.header["qform_code"]) == (0, 0)
    images = []
    for row in volumes.X:
        values = np.zeros(volumes.inside.shape, np.float32)
        values[volumes.inside] = row
        images.append(nib.Nifti1Image(values, mask.affine))
    cohort = read_cohort(images, mask=mask)
    maps = nib.load(cohort.space.write(cohort.X[:1], tmp_path)[0])
    assert (maps.header["sform_code"], maps.header["qform_code"]) == (0, 0)
    assert np.allclose(maps.affine, mask.affine)


def test_components_image_and_masker(fitted, volumes):
    assert fitted.components_img_.shape == (*volumes.inside.shape, 2)
    rows = fitted.masker_.transform(fitted.components_img_)
    assert np.allclose(rows, fitted.components_)
    assert np.allclose(fitted.masker_.transform(volumes.paths[3]), volumes.X[3])


def test_inverse_transform_gives_images(fitted, volumes):
    scores = fitted.transform(volumes.paths)
    image = fitted.inverse_transform(scores)
    rows = np.asanyarray(image.dataobj)[volumes.inside].T
    assert np.allclose(rows, fitted.estimator_.inverse_transform(scores), atol=1e-5)
    assert np.allclose(fitted.transform(image), fitted.estimator_.transform(rows), atol=1e-3)


def test_voxel_sizes_are_respected(volumes):
    """Twice the distance along an axis halves the penalty on its differences."""
    affine = np.diag([2.0, 3.0, 6.0, 1.0])
    images = [nib.Nifti1Image(np.random.default_rng(n).random((4, 5, 6)), affine) for n in range(3)]
    space = read_cohort(images, mask=np.ones((4, 5, 6), int)).space
    assert space.structure() == grid(
        (4, 5, 6), voxel_size=tuple(np.round(np.array((2, 3, 6)) / 36 ** (1 / 3), 6))
    )
    assert space.structure() != grid((4, 5, 6))


def test_labels_keep_total_variation_inside(volumes, tmp_path):
    labels = volumes.inside.astype(np.float32)
    labels[: labels.shape[0] // 2] *= 7
    path = tmp_path / "labels.nii.gz"
    nib.save(nib.Nifti1Image(labels, nib.load(volumes.mask).affine), path)
    cohort = read_cohort(volumes.paths, mask=path)
    step = (labels[volumes.inside] == 7).astype(float)
    assert cohort.space.structure().value(step) == 0
    assert grid(volumes.inside).value(step) > 0
    assert "2 labels" in cohort.mask_report
    assert np.array_equal(cohort.X, volumes.X)


def test_computed_mask_is_reported(volumes, capsys):
    model = ImageSPCATV(n_components=1, verbose=1).fit(volumes.paths)
    assert np.array_equal(model.space_.mask, volumes.inside)
    assert "'nonzero'" in model.mask_report_
    assert f"{volumes.inside.sum():,} of {volumes.inside.size:,} voxels" in model.mask_report_
    assert model.mask_report_ in capsys.readouterr().out


def test_dropped_voxels_leave_the_labels_of_the_others(volumes):
    labels = 3 * volumes.inside.astype(np.int32)
    labels[labels.shape[0] // 2 :] += 5
    with pytest.warns(BadFeatureWarning):
        cohort = read_cohort(volumes.paths, mask=labels)
    assert np.array_equal(cohort.space.labels, np.where(volumes.inside, labels, 0))


@pytest.mark.filterwarnings("ignore::spcatv.images.BadFeatureWarning")
def test_template_rules(volumes):
    report = read_cohort(volumes.paths, mask="gm-template").mask_report
    assert "'gm-template'" in report


@pytest.mark.parametrize("label", [np.nan, np.inf])
def test_bad_voxels_are_dropped_with_their_count(volumes, label, tmp_path):
    paths = list(volumes.paths)
    values = np.asanyarray(nib.load(paths[4]).dataobj).copy()
    spots = np.argwhere(volumes.inside)[[10, 20, 30]]
    values[tuple(spots.T)] = label
    paths[4] = tmp_path / "broken.nii.gz"
    nib.save(nib.Nifti1Image(values, nib.load(volumes.mask).affine), paths[4])
    # the whole box as mask: outside of the grey matter all images are zero
    box = np.ones(volumes.inside.shape, dtype=bool)
    with pytest.warns(BadFeatureWarning, match=r"3 are NaN or infinite .*broken\.nii\.gz"):
        cohort = read_cohort(paths, mask=box)
    assert cohort.dropped.n_not_finite == 3
    assert cohort.dropped.n_constant == (~volumes.inside).sum()
    assert cohort.X.shape[1] == cohort.space.n_features == volumes.inside.sum() - 3
    kept = np.delete(np.arange(volumes.X.shape[1]), [10, 20, 30])
    assert np.array_equal(cohort.X, volumes.X[:, kept])
    assert not cohort.space.mask[tuple(spots.T)].any()


def test_mgz_volumes(volumes, tmp_path):
    """Any volume that nibabel reads is an image; maps are NIfTI."""
    affine = nib.load(volumes.mask).affine.astype(np.float32)
    paths = []
    for number, path in enumerate(volumes.paths):
        paths.append(tmp_path / f"brain{number}.mgz")
        nib.save(nib.MGHImage(np.asanyarray(nib.load(path).dataobj), affine), paths[-1])
    cohort = read_cohort(paths, mask=volumes.inside)
    assert np.array_equal(cohort.X, volumes.X)
    maps = nib.load(cohort.space.write(cohort.X[:2], tmp_path)[0])
    assert np.allclose(maps.affine, affine)
    assert maps.header["sform_code"] > 0


def test_listeners_receive_every_image(volumes):
    heard = []

    class Listener:
        def hear(self, event):
            heard.append(event)
            return False

    with listening(Listener()):
        model = ImageSPCATV(n_components=1, mask=volumes.mask).fit(volumes.paths)
        n_fit = len(heard)
        model.transform(volumes.paths[:2])
    reads = [FileRead(number, 12, str(path)) for number, path in enumerate(volumes.paths, start=1)]
    assert heard[:12] == reads
    assert isinstance(heard[12], ComponentStarted)
    assert heard[n_fit:] == [FileRead(1, 2, reads[0].name), FileRead(2, 2, reads[1].name)]


def test_float64(volumes):
    cohort = read_cohort(volumes.paths, mask=volumes.mask, dtype="float64")
    assert cohort.X.dtype == np.float64
    assert np.array_equal(cohort.X, volumes.X)
