"""Progress and early stopping through scikit-learn's callbacks."""

import sys

import numpy as np
import pytest
from forks import in_a_fork, needs_fork

from spcatv import SPCATV
from spcatv.progress.callbacks import HAS_CALLBACKS

needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="this scikit-learn has no callbacks (needs >= 1.9)"
)


class Recorder:
    """Records every task, and stops where it is told to."""

    def __init__(self, stop_at=None):
        self.tasks = []
        self.stop_at = stop_at
        self.states = []

    def setup(self, estimator, context):
        self.states.append("setup")

    def teardown(self, estimator, context):
        self.states.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
        self.tasks.append((context.task_name, context.task_id, metadata, fitted_estimator))
        return (context.task_name, context.task_id) == self.stop_at


@needs_callbacks
def test_every_task_is_announced(striped):
    recorder = Recorder()
    model = SPCATV(2, structure=(60,), alpha=0.5).set_callbacks(recorder).fit(striped)
    assert recorder.states == ["setup", "teardown"]
    names = [name for name, *_ in recorder.tasks]
    assert names.count("component") == 2
    assert names.count("alternation") == sum(record.n_alternations for record in model.diagnostics_)
    assert names[-1] == "fit"
    metadata = next(metadata for name, _, metadata, _ in recorder.tasks if name == "alternation")
    assert set(metadata) == {"objective", "relative_gap"}


@needs_callbacks
def test_partly_fitted_estimators_are_usable(striped):
    recorder = Recorder()
    SPCATV(2, structure=(60,), alpha=0.5).set_callbacks(recorder).fit(striped)
    first, second = (estimator for name, _, _, estimator in recorder.tasks if name == "component")
    assert first.transform(striped).shape == (40, 1)
    assert second.score(striped) > first.score(striped)


@needs_callbacks
def test_partly_fitted_estimators_of_a_joint_fit_are_whole(striped):
    recorder = Recorder()
    model = SPCATV(2, structure=(60,)).set_callbacks(recorder).fit(striped)
    names = [name for name, *_ in recorder.tasks]
    assert names.count("alternation") == model.n_iter_
    for fitted in (estimator for name, _, _, estimator in recorder.tasks if name == "component"):
        np.testing.assert_array_equal(fitted.transform(striped), model.transform(striped))


@needs_callbacks
@pytest.mark.parametrize("alpha", [None, 0.1])
def test_stopping_a_joint_fit(striped, alpha):
    recorder = Recorder(("alternation", 1))
    model = SPCATV(2, structure=(60,), method="joint", alpha=alpha, tol=1e-9).set_callbacks(recorder)
    with pytest.warns(Warning, match="was not reached"):
        model.fit(striped)
    assert model.n_iter_ == 2
    assert [name for name, *_ in recorder.tasks].count("alternation") == 2
    assert model.components_.any(axis=1).all()
    scores = model.transform(striped)
    assert abs(np.corrcoef(scores.T)[0, 1]) < 1e-6


@needs_callbacks
def test_stopping_after_a_component(striped):
    model = SPCATV(3, structure=(60,), alpha=0.5).set_callbacks(Recorder(("component", 1))).fit(striped)
    assert model.components_.shape == (2, 60)
    assert model.transform(striped).shape == (40, 2)
    assert list(model.get_feature_names_out()) == ["component_1", "component_2"]


@needs_callbacks
def test_stopping_the_alternation(striped):
    with pytest.warns(Warning, match="was not reached"):
        model = (
            SPCATV(1, structure=(60,), alpha=0.3, init="random", random_state=0)
            .set_callbacks(Recorder(("alternation", 0)))
            .fit(striped)
        )
    assert model.n_iter_ == 1


@needs_callbacks
def test_a_progress_bar_of_scikit_learn_runs(striped):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    model = SPCATV(2, structure=(60,), alpha=0.5).set_callbacks(ProgressBar()).fit(striped)
    assert np.isfinite(model.components_).all()


@pytest.fixture
def images(striped):
    """The signals as volumes of 5 x 4 x 3 voxels, and their mask."""
    pytest.importorskip("nilearn")
    nib = pytest.importorskip("nibabel")
    return [nib.Nifti1Image(row.reshape(5, 4, 3), np.eye(4)) for row in striped], np.ones((5, 4, 3), bool)


@needs_callbacks
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_callbacks_of_an_image_model(images, method):
    from spcatv import ImageSPCATV

    recorder, plain = Recorder(), Recorder()
    model = ImageSPCATV(2, mask=images[1], alpha=0.5, dtype="float64").set_callbacks(recorder)
    getattr(model, method)(images[0])
    X = np.array([np.asarray(image.dataobj)[images[1]] for image in images[0]])
    SPCATV(2, structure=images[1], alpha=0.5).set_callbacks(plain).fit(X)
    assert recorder.states == ["setup", "teardown"]
    assert [task[:2] for task in recorder.tasks] == [task[:2] for task in plain.tasks]
    assert {"component", "alternation", "fit"} == {name for name, *_ in recorder.tasks}
    first, second = (estimator for name, _, _, estimator in recorder.tasks if name == "component")
    assert (first.transform(X).shape, second.transform(X).shape) == ((40, 1), (40, 2))
    assert not [name for name in vars(model.estimator_) if "callback" in name], "nothing stays behind"


@needs_callbacks
def test_an_image_model_can_be_stopped_and_fails_cleanly(images):
    from spcatv import ImageSPCATV

    model = ImageSPCATV(3, mask=images[1], alpha=0.5).set_callbacks(Recorder(("component", 0)))
    assert model.fit(images[0]).components_.shape == (1, 60)

    class Broken(Recorder):
        def on_fit_task_begin(self, estimator, context):
            raise ZeroDivisionError

    broken = Broken()
    with pytest.raises(ZeroDivisionError):
        model.set_callbacks(broken).fit(images[0])
    assert broken.states == ["setup", "teardown"]
    assert model.components_.shape == (1, 60), "the last good fit is still there"


@needs_callbacks
def test_callbacks_of_a_meta_estimator_reach_an_image_model(images):
    from sklearn.model_selection import GridSearchCV

    from spcatv import ImageSPCATV

    class Propagated(Recorder):
        max_propagation_depth = None

    if not hasattr(GridSearchCV, "set_callbacks"):
        pytest.skip("this GridSearchCV has no callbacks")
    recorder = Propagated()
    model = ImageSPCATV(2, mask=images[1], alpha=0.5)
    search = GridSearchCV(model, {"tv_ratio": [0.1, 0.5]}, cv=2, refit=False).set_callbacks(recorder)
    search.fit(images[0])
    assert [name for name, *_ in recorder.tasks].count("component") == 2 * 2 * 2
    assert recorder.states == ["setup", "teardown"]


def fit_without_callbacks():
    """Import the package anew beside a scikit-learn without callbacks, and fit."""
    for name in [name for name in sys.modules if name.split(".")[0] == "spcatv"]:
        del sys.modules[name]
    sys.modules["sklearn.callback"] = None
    from spcatv import SPCATV
    from spcatv.progress.callbacks import HAS_CALLBACKS

    model = SPCATV(1).fit(np.eye(4))
    return HAS_CALLBACKS, hasattr(model, "set_callbacks"), model.components_.shape


@needs_fork
def test_fits_without_callbacks_in_scikit_learn():
    assert in_a_fork(fit_without_callbacks) == (False, False, (1, 4))
