"""SPCATV takes a penalty by name or as an object."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from spcatv import SPCATV
from spcatv.problem import GraphNet, HuberTV, TotalVariation
from spcatv.selection import alpha_grid


def data(dtype="float64"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 60))
    X[:, 20:40] += 3 * rng.standard_normal((30, 1))
    return X.astype(dtype)


@pytest.mark.parametrize(("name", "penalty"), [("tv", TotalVariation()), ("graphnet", GraphNet())])
@pytest.mark.parametrize("alpha", [None, 0.2])
def test_a_name_and_its_object_give_the_same_fit(name, penalty, alpha):
    model = SPCATV(2, structure=(60,), alpha=alpha)
    by_name, by_object = (clone(model).set_params(penalty=p).fit(data()) for p in (name, penalty))
    np.testing.assert_array_equal(by_name.components_, by_object.components_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["auto", "conesta"])
def test_huber_tv_is_certified_and_close_to_tv_for_a_small_delta(dtype, solver):
    X = data(dtype)
    tv = SPCATV(1, structure=(60,), alpha=0.2, tol=1e-7).fit(X)
    offs = []
    for delta in (1.0, 1e-4):
        huber = SPCATV(1, structure=(60,), alpha=0.2, tol=1e-5, penalty=HuberTV(delta), solver=solver).fit(X)
        assert huber.diagnostics_[0].converged
        offs.append(np.abs(huber.components_ - tv.components_).max())
    assert offs[1] < 5e-3 < offs[0]


def test_a_joint_fit_and_the_grid_of_alphas_take_it():
    penalty = HuberTV(0.01)
    model = SPCATV(2, structure=(60,), alpha=0.2, penalty=penalty, method="joint").fit(data())
    assert all(record.converged for record in model.diagnostics_)
    alphas = alpha_grid(data(), (60,), penalty=penalty, n_alphas=3)
    nonempty, empty = (
        SPCATV(1, structure=(60,), penalty=penalty, alpha=a).fit for a in (alphas[0], 1.1 * alphas[0])
    )
    assert nonempty(data()).components_.any()
    with pytest.warns(UserWarning, match="zero"):
        assert not empty(data()).components_.any()


def test_it_survives_clone_and_copy():
    model = SPCATV(1, structure=(60,), penalty=HuberTV(0.3))
    assert clone(model).penalty == HuberTV(0.3)
    assert copy.deepcopy(model.fit(data())).penalty == HuberTV(0.3)


def test_a_wrong_penalty_is_refused():
    for wrong in ("ridge", None, HuberTV):
        with pytest.raises(ValueError, match=r"unknown penalty .*; choose one of 'tv', 'graphnet'"):
            SPCATV(penalty=wrong).fit(data())


@pytest.mark.parametrize("penalty", [GraphNet(), HuberTV(0.3)])
def test_a_model_folder_keeps_the_penalties_of_the_package(penalty, tmp_path):
    model = SPCATV(1, structure=(60,), penalty=penalty).fit(data())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model")
    loaded = SPCATV.load(tmp_path / "model")
    assert loaded.penalty == penalty
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_a_model_folder_warns_of_a_penalty_that_it_cannot_keep(tmp_path):
    class Own(HuberTV):
        """Not of the package."""

    model = SPCATV(1, structure=(60,), penalty=Own(0.3)).fit(data())
    with pytest.warns(UserWarning, match="cannot keep the penalty"):
        model.save(tmp_path / "model")
    assert SPCATV.load(tmp_path / "model").penalty == "tv"
