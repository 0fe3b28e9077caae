"""Images by way of the cache on disk: the same as in memory, and files are not read twice."""

import warnings
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv import SPCATV, ImageSPCATV, ImageSPCATVCV
from spcatv._util import threads
from spcatv.data import Data
from spcatv.images import ImageError, Reading, loader, preprocessing, read_cohort
from spcatv.images import cache as image_cache
from spcatv.images.loader import Storage
from spcatv.images.spaces import volume
from spcatv.progress import FileRead, listening

SHAPE, N_IMAGES = (7, 6, 5), 12
AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])


@pytest.fixture
def cohort(tmp_path):
    """Files with a constant voxel, a voxel that is NaN in one image, and a background; and their mask."""
    rng = np.random.default_rng(0)
    inside = np.zeros(SHAPE, np.uint8)
    inside[1:-1, 1:-1, 1:-1] = 1
    paths = []
    for number in range(N_IMAGES):
        values = 5 + rng.standard_normal(SHAPE)
        values[:4] += 3 * rng.standard_normal()
        values[2, 2, 2] = 1
        values[3, 3, 3] = np.nan if number == 4 else 1 + number
        paths.append(tmp_path / f"sub-{number + 1:02d}.nii.gz")
        nib.save(nib.Nifti1Image((values * inside).astype(np.float32), AFFINE), paths[-1])
    nib.save(nib.Nifti1Image(inside, AFFINE), tmp_path / "mask.nii.gz")
    return paths


@pytest.fixture
def mask(cohort):
    return cohort[0].with_name("mask.nii.gz")


@pytest.fixture
def unzipped(monkeypatch):
    """The names of the images whose values were read."""
    names, own = [], volume.open_values

    def counted(image):
        path = Path(image.get_filename())
        if path.name != "mask.nii.gz":
            names.append(path.name[:6])
        return own(image)

    monkeypatch.setattr(volume, "open_values", counted)
    return names


@pytest.fixture
def on_disk(monkeypatch):
    """Let no matrix fit into memory."""
    monkeypatch.setattr(Storage, "in_memory", lambda self, shape, dtype: False)


@pytest.fixture(autouse=True)
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def as_array(X):
    assert isinstance(X, Data)
    return np.concatenate([block for _, block in X.blocks()])


CONFOUNDS = np.random.default_rng(1).standard_normal((N_IMAGES, 2))


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("confounds", [None, CONFOUNDS])
def test_rows_on_disk_are_those_in_memory(cohort, mask, tmp_path, standardize, confounds, monkeypatch):
    asked = {"mask": mask, "standardize": standardize, "confounds": confounds}
    expected = read_cohort(cohort, **asked)
    cached = read_cohort(cohort, cache=tmp_path / "cache", **asked)
    assert np.array_equal(cached.X, expected.X)
    monkeypatch.setattr(Storage, "in_memory", lambda self, shape, dtype: False)
    found = read_cohort(cohort, cache=tmp_path / "cache", **asked)
    assert np.allclose(as_array(found.X), expected.X, atol=1e-5)
    for other in (cached, found):
        assert other.names == expected.names
        assert other.files == expected.files
        assert other.quality == expected.quality
        assert other.dropped == expected.dropped
        assert np.array_equal(other.space.labels, expected.space.labels)


def test_threads_give_the_same_bits(cohort, mask, tmp_path, monkeypatch):
    def read(n_threads, **where):
        monkeypatch.setattr(loader, "most_threads", lambda: n_threads)
        monkeypatch.setattr(threads, "most_threads", lambda: n_threads)
        names = []
        heard = SimpleNamespace(hear=lambda event: names.append(event) and False)
        with listening(heard):
            found = read_cohort(cohort, mask=mask, **where)
        assert names == [FileRead(n + 1, N_IMAGES, str(path)) for n, path in enumerate(cohort)]
        return found.X

    expected = read(1)
    for n_threads in (2, 5):
        assert np.array_equal(read(n_threads), expected)
        assert np.array_equal(read(n_threads, cache=tmp_path / str(n_threads)), expected)


def test_fit_selection_and_transform_read_every_file_once(cohort, mask, tmp_path, unzipped, on_disk):
    asked = {"mask": mask, "cache": tmp_path / "cache"}
    model = ImageSPCATV(2, **asked)
    scores = model.fit_transform(cohort)
    assert sorted(unzipped) == [path.name[:6] for path in cohort]
    search = ImageSPCATVCV(2, sparsity=[0.5, 0.8], smoothness=1.0, cv=3, **asked).fit(cohort)
    assert np.allclose(search.best_estimator_.transform(cohort[:3]), search.transform(cohort)[:3], atol=1e-5)
    # the mask of the model lacks the features that were dropped
    assert model.n_dropped_ == 2
    assert np.allclose(model.transform(cohort), scores, atol=1e-4)
    assert np.isfinite(model.score(cohort))
    assert len(unzipped) == N_IMAGES
    assert len(list((tmp_path / "cache").glob("spcatv-samples-*.npy"))) == 1


def test_a_fit_from_disk_is_the_fit_in_memory(cohort, mask, tmp_path, monkeypatch):
    expected = ImageSPCATV(2, mask=mask).fit(cohort)
    monkeypatch.setattr(Storage, "in_memory", lambda self, shape, dtype: False)
    found = ImageSPCATV(2, mask=mask, cache=tmp_path / "cache").fit(cohort)
    assert np.allclose(found.components_, expected.components_, atol=1e-5)
    assert np.allclose(found.score(cohort), expected.score(cohort), rtol=1e-5)
    back = found.inverse_transform(found.transform(cohort))
    assert np.allclose(
        back.get_fdata(), expected.inverse_transform(expected.transform(cohort)).get_fdata(), atol=1e-3
    )
    found.save(tmp_path / "model")
    assert ImageSPCATV.load(tmp_path / "model").cache is None


def test_another_mask_smoothing_or_precision_is_read_anew(cohort, mask, tmp_path, unzipped):
    where = {"cache": tmp_path / "cache"}
    read_cohort(cohort, mask=mask, **where)
    other = np.ones(SHAPE, np.uint8)
    for number, asked in enumerate(
        (
            {"mask": other},
            {"mask": mask, "reading": Reading(smoothing_fwhm=4)},
            {"mask": mask, "reading": Reading(smoothing_fwhm=5)},
            {"mask": mask, "dtype": "float64"},
        ),
        start=2,
    ):
        expected = read_cohort(cohort, **asked).X
        unzipped.clear()
        assert np.array_equal(read_cohort(cohort, **asked, **where).X, expected)
        assert len(unzipped) == N_IMAGES
        assert np.array_equal(read_cohort(cohort, **asked, **where).X, expected)
        assert len(unzipped) == N_IMAGES
        assert len(list((tmp_path / "cache").glob("spcatv-samples-*.npy"))) == number


def test_masks_of_other_grids_have_other_rows(tmp_path):
    """Equal affine, equal numbers of the voxels in the box, another box."""
    rng = np.random.default_rng(5)
    files = [tmp_path / f"{number}.nii" for number in range(4)]
    for file in files:
        nib.save(nib.Nifti1Image(rng.standard_normal((6, 6, 6)).astype(np.float32), 2 * np.eye(4)), file)
    for shape in ((4, 5, 6), (4, 6, 5)):
        mask = np.zeros(shape, np.uint8)
        mask.flat[40:80] = 1
        asked = {"mask": nib.Nifti1Image(mask, AFFINE), "reading": Reading(resample=True)}
        found = read_cohort(files, cache=tmp_path / "cache", **asked)
        assert np.array_equal(found.X, read_cohort(files, **asked).X)


def test_another_nilearn_reads_again(cohort, mask, tmp_path, unzipped, monkeypatch):
    asked = {"mask": mask, "reading": Reading(smoothing_fwhm=4), "cache": tmp_path / "cache"}
    read_cohort(cohort, **asked)
    own = metadata.version
    monkeypatch.setattr(image_cache, "version", lambda name: "99" if name == "nilearn" else own(name))
    read_cohort(cohort, **asked)
    assert len(unzipped) == 2 * N_IMAGES


def test_labels_do_not_matter_to_the_rows(cohort, mask, tmp_path, unzipped):
    read_cohort(cohort, mask=mask, cache=tmp_path / "cache")
    labels = np.asarray(nib.load(mask).dataobj) * (1 + (np.arange(7) > 3))[:, None, None]
    found = read_cohort(cohort, mask=labels, cache=tmp_path / "cache")
    assert len(unzipped) == N_IMAGES
    assert set(np.unique(found.space.labels)) == {0, 1, 2}


def test_a_changed_and_a_new_file_are_read(cohort, mask, tmp_path, unzipped):
    read_cohort(cohort[:-1], mask=mask, cache=tmp_path / "cache")
    unzipped.clear()
    nib.save(nib.Nifti1Image(2 * nib.load(cohort[3]).get_fdata(dtype=np.float32), AFFINE), cohort[3])
    expected = read_cohort(cohort, mask=mask)
    unzipped.clear()
    found = read_cohort(cohort, mask=mask, cache=tmp_path / "cache")
    assert sorted(unzipped) == ["sub-04", "sub-12"]
    assert np.array_equal(found.X, expected.X)
    assert found.files == expected.files


def test_an_excluded_image_costs_no_reading(cohort, mask, tmp_path, unzipped):
    read_cohort(cohort, mask=mask, cache=tmp_path / "cache")
    found = read_cohort(cohort, mask=mask, cache=tmp_path / "cache", exclude="sub-05")
    assert len(unzipped) == N_IMAGES
    assert np.array_equal(found.X, read_cohort([*cohort[:4], *cohort[5:]], mask=mask).X)


def test_a_computed_mask_is_computed_once(cohort, tmp_path, unzipped):
    expected = read_cohort(cohort)
    unzipped.clear()
    for _ in range(2):
        found = read_cohort(cohort, cache=tmp_path / "cache")
        assert len(unzipped) == 2 * N_IMAGES  # one pass for the mask, one for the rows
        assert found.mask_report == expected.mask_report
        assert np.array_equal(found.X, expected.X)
    # what was kept is not trusted if it is damaged
    (kept,) = (tmp_path / "cache").glob("spcatv-sums-*.npy")
    kept.write_bytes(kept.read_bytes()[:-100])
    assert read_cohort(cohort, cache=tmp_path / "cache").mask_report == expected.mask_report
    assert len(unzipped) == 3 * N_IMAGES


def test_all_files_that_cannot_be_read_are_named(cohort, mask, tmp_path, monkeypatch):
    own = volume.open_values

    def damaged(image):
        if Path(image.get_filename()) in (cohort[5], cohort[6]):
            raise EOFError
        return own(image)

    monkeypatch.setattr(volume, "open_values", damaged)
    monkeypatch.setattr(loader, "most_threads", lambda: 6)
    for where in ({"mask": mask}, {"mask": None}, {"mask": mask, "cache": tmp_path / "cache"}):
        with pytest.raises(ImageError, match=r"sub-06\.nii\.gz: cannot be read.*sub-07\.nii\.gz: cannot"):
            read_cohort(cohort, **where)


def test_runs_are_cleaned_on_disk_as_in_memory(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    paths = []
    for number in range(3):
        values = 100 + rng.standard_normal((*SHAPE, 30 + number)).astype(np.float32)
        values[1, 1, 1] = 7
        image = nib.Nifti1Image(values, AFFINE)
        image.header.set_zooms((3, 3, 3, 2.0))
        paths.append(tmp_path / f"run-{number}_bold.nii.gz")
        nib.save(image, paths[-1])
    tables = [rng.standard_normal((30 + number, 2)) for number in range(3)]
    wanted = Reading(standardize_runs=True, detrend=True, high_pass=0.02)
    asked = {"mask": np.ones(SHAPE, np.uint8), "confounds": tables, "reading": wanted}
    expected = read_cohort(paths, **asked)
    monkeypatch.setattr(Storage, "in_memory", lambda self, shape, dtype: False)
    found = read_cohort(paths, cache=tmp_path / "cache", **asked)
    assert np.allclose(as_array(found.X), expected.X, atol=1e-5)
    assert found.dropped == expected.dropped
    assert len(list((tmp_path / "cache").glob("spcatv-samples-*.samples"))) == 6
    # another nilearn cleans anew
    calls, own = [], preprocessing.clean_run
    monkeypatch.setattr(loader, "clean_run", lambda *given: calls.append(1) or own(*given))
    read_cohort(paths, cache=tmp_path / "cache", **asked)
    assert not calls
    monkeypatch.setattr(image_cache, "version", lambda name: "99")
    read_cohort(paths, cache=tmp_path / "cache", **asked)
    assert len(calls) == 3
    # other confounds are cleaned anew
    tables[1] = tables[1][::-1]
    other = read_cohort(paths, cache=tmp_path / "cache", **asked)
    monkeypatch.undo()
    assert np.allclose(as_array(other.X), read_cohort(paths, **asked).X, atol=1e-5)
    assert not np.allclose(as_array(other.X), expected.X, atol=1e-2)


def test_new_runs_are_cleaned_part_by_part(tmp_path):
    rng = np.random.default_rng(3)
    paths = [tmp_path / f"run-{number}_bold.nii.gz" for number in range(4)]
    for path in paths:
        nib.save(nib.Nifti1Image(rng.standard_normal((*SHAPE, 20)).astype(np.float32), AFFINE), path)
    model = ImageSPCATV(2, mask=np.ones(SHAPE, np.uint8), standardize_runs=True).fit(paths)
    expected = model.transform(paths)
    # room for two runs
    model.set_params(memory_limit=4 * 45 * 4 * int(np.prod(SHAPE)))
    assert np.allclose(model.transform(paths), expected, atol=1e-6)
    assert np.allclose(model.score(paths), model.set_params(memory_limit=None).score(paths), rtol=1e-6)


def test_surfaces_by_way_of_the_cache(thickness, tmp_path, on_disk):
    files = thickness.files["mgh"]
    asked = {"surface": "fsaverage5", "cache": tmp_path / "cache"}
    found = read_cohort(files, **asked)
    expected = np.concatenate(
        [thickness.values[h][:, thickness.cortex[h]] for h in ("left", "right")], axis=1
    )
    assert np.array_equal(as_array(found.X), expected)
    again = read_cohort({"left": files[:6], "right": files[12:18]}, **asked)
    assert np.array_equal(as_array(again.X), expected[:6])


def test_a_matrix_without_room_is_refused_before_anything_is_read(cohort, mask, tmp_path, unzipped):
    with pytest.raises(ImageError, match=r"\(12 x 60, 2\.88 kB\) does not fit into 3 kB.*cache="):
        read_cohort(cohort, mask=mask, memory_limit=3_000)
    with pytest.raises(ValueError, match="memory_limit=3 kB is too small for 60 features"):
        read_cohort(cohort, mask=mask, memory_limit=3_000, cache=tmp_path / "cache")
    images = [nib.load(path) for path in cohort]
    for image in images:
        image.uncache()
    values = [nib.Nifti1Image(image.get_fdata(dtype=np.float32), AFFINE) for image in images]
    unzipped.clear()
    with pytest.raises(ImageError, match="images that are not files cannot be kept on disk"):
        read_cohort(values, mask=mask, memory_limit=3_000, cache=tmp_path / "cache")
    with pytest.raises(TypeError, match="cache must be the path"):
        ImageSPCATV(mask=mask, cache=7).fit(cohort)
    assert not unzipped


def test_images_in_memory_are_not_kept(cohort, mask, tmp_path):
    images = [nib.Nifti1Image(np.asarray(nib.load(path).dataobj), AFFINE) for path in cohort]
    found = read_cohort(images, mask=mask, cache=tmp_path / "cache")
    assert np.array_equal(found.X, read_cohort(cohort, mask=mask).X)
    assert not (tmp_path / "cache").exists()


def test_a_real_limit_is_kept_in_blocks(tmp_path):
    """More volumes than the vectors of a fit: the matrix does not fit, but blocks of it do."""
    rng = np.random.default_rng(4)
    values = rng.standard_normal((4, 4, 4, 300)).astype(np.float32)
    values[:2] += 2 * rng.standard_normal(300)
    paths = [tmp_path / f"part-{number}.nii" for number in range(3)]
    for number, path in enumerate(paths):
        nib.save(nib.Nifti1Image(values[..., 100 * number : 100 * (number + 1)], np.eye(4)), path)
    asked = {"mask": np.ones((4, 4, 4), np.uint8), "standardize_runs": False}
    model = ImageSPCATV(1, memory_limit=72_000, cache=tmp_path / "cache", **asked)
    scores = model.fit_transform(paths)
    plain = SPCATV(1, structure=np.ones((4, 4, 4), bool)).fit(values.reshape(64, 300).T)
    assert np.allclose(np.abs(model.components_ @ plain.components_.T), 1, atol=1e-5)
    assert np.allclose(scores, model.transform(paths), atol=1e-5)
