"""ImageSPCATV as a scikit-learn estimator, and models that come back from their folder."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv import SPCATV, ImageSPCATVCV
from spcatv.images import ImageError, ImageSPCATV, read_cohort
from spcatv.model import ModelError
from spcatv.stability import split_halves


def test_without_the_extra_one_line_states_what_to_install():
    code = "import sys; sys.modules['nilearn'] = None; import spcatv; import spcatv.images"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "spca-tv[images]"' in done.stderr.splitlines()[-1]


def test_has_the_parameters_of_spcatv():
    plain, image = SPCATV().get_params(), ImageSPCATV().get_params()
    shared = set(plain) - {"structure", "dtype"}
    assert {name: plain[name] for name in shared} == {name: image[name] for name in shared}
    reading = {"smoothing_fwhm", "resample", "target_affine", "standardize_runs", "detrend", "high_pass"}
    reading |= {"low_pass", "t_r", "run_confounds", "cache"}
    assert set(image) - set(plain) == {"mask", "surface", "bad_features", "standardize"} | reading
    assert image["dtype"] == "float32"


def test_parameters_and_clone(volumes):
    model = ImageSPCATV(n_components=2, mask=volumes.mask, alpha=0.3)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).set_params(tv_ratio=0.1, bad_features="raise").tv_ratio == 0.1
    with pytest.raises(NotFittedError):
        model.transform(volumes.paths)
    with pytest.raises(NotFittedError):
        model.inverse_transform([[1.0, 2.0]])
    with pytest.raises(NotFittedError):
        model.save("nowhere")
    with pytest.raises(AttributeError):
        model.components_img_  # noqa: B018


def test_halves_of_images_are_those_of_their_matrix(volumes, tmp_path):
    age = np.arange(12.0)[:, None]
    cohort = read_cohort(volumes.paths, mask=volumes.mask, confounds=age)
    model = ImageSPCATV(1, mask=volumes.mask).fit(volumes.paths, confounds=age)
    model.check_stability(volumes.paths, n_splits=2, confounds=age)
    own = {"groups": cohort.groups, "confounds": cohort.adjustment.confounds}
    halves = split_halves(model.estimator_, cohort.X, n_splits=2, random_state=0, **own)
    assert model.reproducibility_ == halves.reproducibility
    assert ImageSPCATV.load(model.save(tmp_path / "model")).reproducibility_ == model.reproducibility_


def test_wrong_parameters_are_reported_before_images_are_opened():
    with pytest.raises(ValueError, match="dtype must be"):
        ImageSPCATV(dtype="int8").fit(["nowhere.nii"])
    with pytest.raises(ValueError, match="dtype must be"):
        ImageSPCATV(dtype=None).fit(["nowhere.nii"])
    with pytest.raises(TypeError, match="standardize must be True or False"):
        ImageSPCATV(standardize="yes").fit(["nowhere.nii"])
    with pytest.raises(ValueError, match="alpha must not be negative"):
        ImageSPCATV(alpha=-1).fit(["nowhere.nii"])


@pytest.fixture(scope="module")
def fitted(volumes):
    rng = np.random.default_rng(5)
    confounds = rng.standard_normal((len(volumes.paths), 2))
    model = ImageSPCATV(n_components=2, mask=volumes.mask, standardize=True)
    model.scores = model.fit_transform(volumes.paths, confounds=confounds)
    model.confounds = confounds
    return model


def test_everything_of_spcatv_is_there(fitted, volumes):
    for name, value in vars(fitted.estimator_).items():
        if name.endswith("_") and not name.startswith("_"):
            assert getattr(fitted, name) is value, name
    names = ["component_1", "component_2"]
    assert list(fitted.get_feature_names_out()) == names


def test_tables_of_scores_are_labelled_by_participant_or_file(volumes, tmp_path):
    model = ImageSPCATV(1, mask=volumes.mask).set_output(transform="pandas").fit(volumes.paths)
    table = model.transform(volumes.paths[3:5])
    assert (list(table.index), table.index.name) == (["sub-04", "sub-05"], "participant_id")
    assert list(table.columns) == ["component_1"]
    assert np.array_equal(
        table, clone(model).set_output(transform="default").fit(volumes.paths).transform(volumes.paths[3:5])
    )
    search = ImageSPCATVCV(1, mask=volumes.mask, sparsity=[0.5, 0.7], smoothness=1.0, cv=2)
    scores = search.set_output(transform="pandas").fit_transform(volumes.paths)
    assert list(scores.index) == list(model.fit_transform(volumes.paths).index)
    assert list(search.transform(volumes.paths[:1]).index) == ["sub-01"]
    # two images of one participant: a 4-D one of one volume, and one of several
    paths = [tmp_path / name for name in ("sub-1_run-1.nii.gz", "sub-1_run-2.nii.gz")]
    for path, n_volumes in zip(paths, (1, 2), strict=True):
        nib.save(nib.concat_images([nib.load(file) for file in volumes.paths[:n_volumes]]), path)
    table = model.transform(paths)
    assert table.index.name == "input"
    assert list(table.index) == ["sub-1_run-1.nii.gz", "sub-1_run-2.nii.gz[0]", "sub-1_run-2.nii.gz[1]"]


def test_fit_transform_is_fit_and_transform(fitted, volumes):
    assert np.allclose(fitted.transform(volumes.paths, confounds=fitted.confounds), fitted.scores, atol=1e-4)
    assert fitted.score(volumes.paths, confounds=fitted.confounds) < 0


def test_standardize_is_undone_by_inverse_transform(volumes):
    model = ImageSPCATV(n_components=2, mask=volumes.mask, standardize=True, alpha=0.2)
    scores = model.fit_transform(volumes.paths)
    scale = volumes.X.std(axis=0, dtype=np.float64)
    plain = SPCATV(n_components=2, structure=model.structure_, alpha=0.2)
    plain.fit((volumes.X / scale).astype(np.float32))
    assert np.allclose(model.components_, plain.components_, atol=1e-4)
    rows = np.asanyarray(model.inverse_transform(scores).dataobj)[volumes.inside].T
    expected = plain.inverse_transform(plain.transform(volumes.X / scale)) * scale
    assert np.allclose(rows, expected, atol=1e-2)
    assert np.allclose(
        np.asanyarray(model.inverse_transform(0 * scores).dataobj)[volumes.inside].T,
        volumes.X.mean(0),
        atol=1e-4,
    )


def test_a_cohort_that_was_read_before(volumes):
    model = ImageSPCATV(n_components=2, mask=volumes.mask)
    cohort = read_cohort(volumes.paths, mask=volumes.mask)
    before = cohort.X.copy()
    scores = model.fit_transform(cohort)
    assert np.array_equal(cohort.X, before)
    assert np.array_equal(scores, clone(model).fit_transform(volumes.paths))
    with pytest.raises(ValueError, match="confounds of a Cohort are removed already"):
        model.fit(cohort, confounds=np.zeros((12, 1)))
    with pytest.raises(ValueError, match="standardize=True does not match"):
        clone(model).set_params(standardize=True).fit(cohort)


def test_saved_and_loaded(fitted, volumes, tmp_path):
    folder = fitted.save(tmp_path / "model")
    again = ImageSPCATV.load(folder)
    expected = fitted.transform(volumes.paths, confounds=fitted.confounds)
    assert np.array_equal(again.transform(volumes.paths, confounds=fitted.confounds), expected)
    assert np.array_equal(again.components_, fitted.components_)
    assert again.structure_ == fitted.structure_
    assert again.get_params() == fitted.get_params()
    assert (again.input_names_, again.dropped_) == (fitted.input_names_, fitted.dropped_)
    assert again.mask_report_ == fitted.mask_report_
    maps, mask = nib.load(folder / "maps" / "desc-SPCATV_components.nii.gz"), nib.load(volumes.mask)
    assert np.array_equal(maps.affine, mask.affine)
    assert maps.header["sform_code"] == mask.header["sform_code"]
    assert np.array_equal(np.asanyarray(maps.dataobj)[volumes.inside].T, fitted.components_)
    sidecar = json.loads((folder / "maps" / "desc-SPCATV_components.json").read_text())
    assert sidecar["MapNames"] == ["component 1", "component 2"]
    inverse = again.inverse_transform(expected)
    assert inverse.header["sform_code"] == mask.header["sform_code"]
    # a second time over the first, from the loaded one
    assert ImageSPCATV.load(again.save(folder)).n_dropped_ == 0


def test_inputs_are_hashed(fitted, volumes, tmp_path):
    import hashlib

    folder = fitted.save(tmp_path / "model", inputs={"study": "ageing"})
    document = json.loads((folder / "model.json").read_text())
    assert document["inputs"]["study"] == "ageing"
    files = document["inputs"]["images"]
    assert [file["name"] for file in files] == [str(path) for path in volumes.paths]
    assert files[2]["sha256"] == hashlib.sha256(volumes.paths[2].read_bytes()).hexdigest()
    assert document["inputs"]["mask"][0]["sha256"] == hashlib.sha256(volumes.mask.read_bytes()).hexdigest()


def test_masks_that_were_objects(volumes, tmp_path):
    labels = volumes.inside.astype(np.uint8)
    labels[:10] *= 3
    for mask in (nib.Nifti1Image(labels, nib.load(volumes.mask).affine), labels):
        model = ImageSPCATV(n_components=1, mask=mask).fit(volumes.paths)
        again = ImageSPCATV.load(model.save(tmp_path / "model"))
        assert np.array_equal(np.asanyarray(again.mask.dataobj), labels)
        assert np.array_equal(clone(again).fit(volumes.paths).components_, model.components_)


def test_surface_models(thickness, fsaverage, tmp_path):
    mask = {hemi: inside.astype(int) for hemi, inside in thickness.cortex.items()}
    model = ImageSPCATV(n_components=1, surface=fsaverage, mask=mask).fit(thickness.files["mgh"])
    again = ImageSPCATV.load(model.save(tmp_path / "model"))
    expected = model.transform(thickness.files["mgh"])
    assert np.array_equal(again.transform(thickness.files["gifti"]), expected)
    assert (tmp_path / "model" / "maps" / "hemi-L_desc-SPCATV_components.func.gii").is_file()
    assert np.array_equal(clone(again).fit(thickness.files["mgh"]).components_, model.components_)


def test_a_changed_map_is_noticed(fitted, tmp_path):
    folder = fitted.save(tmp_path / "model")
    path = folder / "maps" / "desc-SPCATV_components.nii.gz"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelError, match=r"components\.nii\.gz"):
        ImageSPCATV.load(folder)
    with pytest.raises(ModelError, match="ImageSPCATV"):
        SPCATV.load(fitted.save(tmp_path / "other"))


def test_images_of_another_kind(fitted, thickness):
    with pytest.raises(ImageError, match="fitted to volume images"):
        fitted.transform(thickness.files["gifti"], confounds=fitted.confounds)
