"""ImageSPCATVCV: the numbers of SPCATVCV on the data matrix, and the habits of scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

pytest.importorskip("nilearn")

import spcatv
from spcatv import SPCATV, SPCATVCV, ImageSPCATV, ImageSPCATVCV
from spcatv.images import read_cohort

GRID = {"sparsity": [0.7, 0.9], "smoothness": 1.0}


@pytest.fixture(scope="module")
def confounds():
    return np.random.default_rng(5).standard_normal((12, 2))


@pytest.fixture(scope="module")
def search(volumes, confounds):
    """Two visits of each of six people, with confounds and standardised features."""
    found = ImageSPCATVCV(2, mask=volumes.mask, standardize=True, cv=3, **GRID)
    found.scores = found.fit_transform(volumes.paths, groups=np.arange(12) // 2, confounds=confounds)
    return found


def test_same_numbers_as_on_the_matrix(search, volumes, confounds):
    cohort = read_cohort(volumes.paths, mask=volumes.mask)
    plain = SPCATVCV(2, structure=cohort.space.structure(), standardize=True, cv=3, **GRID)
    plain.fit(cohort.X, groups=np.arange(12) // 2, confounds=confounds)
    for name in ("mean_test_error", "split0_test_error", "split2_test_error", "mean_sparsity", "mean_dice"):
        # float32: the images' confounds are removed twice, by all samples and then by those of a fold; one
        # voxel more or less in a support changes the Dice index by about 1e-3
        rtol = 5e-3 if name == "mean_dice" else 1e-3
        assert_allclose(search.cv_results_[name], plain.cv_results_[name], rtol=rtol, err_msg=name)
    assert (search.best_params_, search.best_index_) == (plain.best_params_, plain.best_index_)
    assert search.n_splits_ == 3
    assert_allclose(search.components_, plain.components_, atol=1e-3)
    assert_allclose(search.scores, plain.transform(cohort.X, confounds), rtol=1e-2, atol=1e-2)
    leaky = SPCATVCV(2, structure=cohort.space.structure(), cv=3, **GRID).fit(
        read_cohort(volumes.paths, mask=volumes.mask, standardize=True, confounds=confounds).X,
        groups=np.arange(12) // 2,
    )
    differs = leaky.cv_results_["mean_test_error"] / search.cv_results_["mean_test_error"] - 1
    assert (np.abs(differs) > 0.01).all(), "folds that know the coefficients of held-out samples are better"


def test_the_chosen_model_takes_and_makes_images(search, volumes, confounds, tmp_path):
    best = search.best_estimator_
    assert isinstance(best, ImageSPCATV)
    assert {name: getattr(best, name) for name in search.best_params_} == search.best_params_
    assert search.components_img_.shape == (*volumes.inside.shape, 2)
    assert search.n_features_in_ == volumes.inside.sum()
    assert_allclose(search.transform(volumes.paths, confounds), search.scores, atol=1e-3)
    assert_array_equal(
        search.transform(volumes.paths[:2], confounds[:2]), best.transform(volumes.paths[:2], confounds[:2])
    )
    assert search.score(volumes.paths, confounds=confounds) < 0
    assert search.inverse_transform(search.scores[:3]).shape == (*volumes.inside.shape, 3)
    best.save(tmp_path / "model")
    again = ImageSPCATV.load(tmp_path / "model")
    assert_array_equal(again.components_, search.components_)
    direct = ImageSPCATV(2, mask=volumes.mask, standardize=True, **search.best_params_)
    direct.fit(volumes.paths, confounds=confounds)
    assert_allclose(direct.components_, search.components_, atol=1e-3)


def test_parameters_are_those_of_the_search_and_of_reading():
    both = ImageSPCATVCV().get_params()
    plain, image, array = SPCATVCV().get_params(), ImageSPCATV().get_params(), SPCATV().get_params()
    assert set(both) == set(plain) - {"structure"} | set(image) - set(array)
    for name, value in both.items():
        assert value == (image if name not in plain or name == "dtype" else plain)[name], name
    with pytest.raises(TypeError, match="unexpected keyword argument 'structure'"):
        ImageSPCATVCV(structure=(3, 3))


def test_a_subclass_has_parameters_of_its_own(volumes):
    class Search(ImageSPCATVCV):
        def __init__(self, n_components=1, *, mask=None, sparsity=(0.7, 0.9), note="", cv=2):
            super().__init__(n_components, mask=mask, sparsity=sparsity, smoothness=1.0, cv=cv)
            self.note = note

    found = clone(Search(mask=volumes.mask, note="mine")).fit(volumes.paths)
    assert found.get_params()["note"] == "mine"
    assert found.best_params_["sparsity"] in (0.7, 0.9)


def test_habits_of_scikit_learn(volumes):
    model = ImageSPCATVCV(2, mask=volumes.mask, cv=3, **GRID)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).set_params(rule="error").rule == "error"
    assert repr(model).startswith("ImageSPCATVCV(cv=3,")
    with pytest.raises(NotFittedError):
        model.transform(volumes.paths)
    assert spcatv.ImageSPCATVCV is ImageSPCATVCV
    assert "ImageSPCATVCV" in spcatv.__all__


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": "int8"}, "dtype must be"),
        ({"rule": "best"}, "unknown rule"),
        ({"sparsity": 1.5}, "sparsity"),
        ({"bad_features": "keep"}, "bad_features"),
    ],
)
def test_wrong_parameters_are_reported_before_images_are_opened(wrong, message):
    with pytest.raises(ValueError, match=message):
        ImageSPCATVCV(**wrong).fit(["nowhere.nii"])


def test_groups_of_the_images_are_kept_together(volumes):
    """Where the images know who belongs together no fold tears them apart, and there are not more folds."""
    cohort = read_cohort(volumes.paths, mask=volumes.mask)
    cohort = replace(cohort, names=tuple(f"sub-{k // 4}_run-{k % 4}.nii" for k in range(12)))
    found = ImageSPCATVCV(1, sparsity=0.8, smoothness=1.0).fit(cohort)
    assert found.groups_ == cohort.groups
    assert len(set(found.groups_)) == 3
    assert found.n_splits_ == 3
    own = np.arange(12) // 2
    assert ImageSPCATVCV(1, sparsity=0.8, smoothness=1.0).fit(cohort, groups=own).groups_ == tuple(own)


def test_a_report_shows_the_maps_and_the_choice(search, volumes, confounds):
    pytest.importorskip("jinja2")
    html = search.generate_report(data=volumes.paths, confounds=confounds).html
    assert "Selection of the setting" in html
    assert "sub-01_gm.nii.gz" in html
    assert "from spcatv import ImageSPCATVCV" in html
