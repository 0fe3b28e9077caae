"""SPCATV.load returns what SPCATV.save has written, to the last bit."""

import json
import re
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import spcatv
from spcatv import SPCATV
from spcatv.model import (
    SCHEMA_VERSION,
    ModelError,
    SavedModel,
    current_versions,
    file_sha256,
    read_model,
    write_model,
)
from spcatv.problem import HuberTV
from spcatv.solvers import solve
from spcatv.structure import concat, from_matrix, graph, grid, groups, icosphere, mesh, stack

LINE = np.eye(60, k=1) + np.eye(60, k=-1)
COORDS, TRIANGLES = icosphere(0)
MASK = np.ones((6, 12), dtype=bool)
MASK[:, :2] = False
ATTRIBUTES = (
    "components_",
    "mean_",
    "singular_values_",
    "explained_variance_",
    "explained_variance_ratio_",
    "l1_",
    "l2_",
    "tv_",
    "n_iter_",
    "n_features_in_",
    "patterns_",
    "mixing_",
)


def own_solver(problem, **options):
    """A user-defined solver."""
    return solve(problem, method="pdhg", **options)


def chain(n_features):
    """A structure given as a function of the number of features."""
    return grid(n_features)


def same(one, other):
    """Equality to the last bit, for all types of parameters and results."""
    if is_dataclass(one) and type(one) is type(other) and not hasattr(one, "matrix"):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if sp.issparse(one):
        return type(one) is type(other) and bool((one != other).nnz == 0)
    return type(one) is type(other) and one == other


def assert_same_model(loaded, model, X):
    for name in ATTRIBUTES:
        assert same(getattr(loaded, name), getattr(model, name)), name
    assert loaded.structure_ == model.structure_
    assert type(loaded.structure_) is type(model.structure_)
    assert same(loaded.diagnostics_, model.diagnostics_)
    scores = model.transform(X)
    assert same(loaded.transform(X), scores)
    assert same(loaded.inverse_transform(scores), model.inverse_transform(scores))


SETTINGS = {
    "defaults": {},
    "every number and string": {
        "alpha": 0.1,
        "l1_ratio": 0.3,
        "tv_ratio": 0.4,
        "penalty_units": "relative",
        "penalty": "graphnet",
        "positive": True,
        "center": False,
        "tol": 1e-5,
        "max_iter": 400,
        "solver": "pdhg",
        "n_init": 2,
        "transform_method": "projection",
        "init": "random",
        "dtype": "float32",
        "random_state": 7,
        "structure": 60,
    },
    "deflation": {"method": "deflation", "structure": (60,)},
    "joint with weights": {"method": "joint", "alpha": 0.1, "structure": (60,)},
    "shape": {"structure": (6, 10)},
    "shape as a list": {"structure": [6, 10]},
    "mask": {"structure": MASK},
    "labels": {"structure": np.repeat([1, 2], 30)},
    "sparse": {"structure": sp.csr_array(LINE)},
    "mesh": {"structure": mesh(*icosphere(1), mask=np.arange(42) < 30), "features": 30, "alpha": 0.02},
    "coords and triangles": {"structure": (COORDS, TRIANGLES), "features": 12, "alpha": 0.02},
    "coords and triangles as lists": {
        "structure": (COORDS.tolist(), TRIANGLES.tolist()),
        "features": 12,
        "alpha": 0.02,
    },
    "grid": {"structure": grid((6, 10), voxel_size=(1.0, 3.0), periodic=(False, True))},
    "graph": {"structure": graph(LINE, isotropic=False)},
    "groups": {"structure": groups([range(10, 20), range(35, 50)], 60)},
    "stack": {"structure": stack([grid(60), groups([range(60)], 60)], weights=[1, 0.5])},
    "concat": {"structure": concat([grid((5, 6)), graph(LINE[:20, :20]), groups([[0, 1]], 10)])},
    "matrix": {"structure": from_matrix(np.diff(np.eye(60), axis=0), [*np.arange(0, 60, 2).tolist(), 59])},
    "init as an array": {"init": np.ones((2, 60), dtype=np.float32)},
    "init as a list": {"init": np.ones((2, 60)).tolist()},
    "dtype as a class": {"dtype": np.float32},
    "numbers of NumPy": {"alpha": np.float64(0.1), "max_iter": np.int64(300), "center": np.bool_(True)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_everything_is_restored(name, striped, tmp_path):
    given = dict(SETTINGS[name])
    X = striped[:, : given.pop("features", 60)]
    model = SPCATV(2, **given).fit(X)
    assert model.save(tmp_path / "model") == tmp_path / "model"
    loaded = SPCATV.load(tmp_path / "model")
    assert_same_model(loaded, model, X)
    assert set(loaded.get_params()) == set(model.get_params())
    for parameter, value in model.get_params().items():
        found = loaded.get_params()[parameter]
        if isinstance(value, (np.generic, type)):
            assert found == value
        else:
            assert same(found, value), parameter


def test_a_loaded_model_is_an_ordinary_estimator(striped, tmp_path):
    model = SPCATV(2, structure=grid((6, 10))).fit(striped)
    model.save(tmp_path / "model")
    loaded = SPCATV.load(tmp_path / "model")
    assert loaded.structure is loaded.structure_
    again = clone(loaded).fit(striped)
    assert not hasattr(clone(loaded), "components_")
    np.testing.assert_array_equal(again.components_, model.components_)
    assert loaded.get_feature_names_out().tolist() == ["component_1", "component_2"]
    loaded.save(tmp_path / "again")
    assert file_sha256(tmp_path / "again/arrays.npz") == file_sha256(tmp_path / "model/arrays.npz")
    assert file_sha256(tmp_path / "again/model.json") == file_sha256(tmp_path / "model/model.json")


def test_names_of_features_are_restored(striped, tmp_path):
    pandas = pytest.importorskip("pandas")
    names = [f"voxel {k} \N{GREEK SMALL LETTER ALPHA}" for k in range(60)]
    X = pandas.DataFrame(striped, columns=names)
    SPCATV(1).fit(X).save(tmp_path / "model")
    loaded = SPCATV.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.feature_names_in_.dtype == object
    loaded.transform(X)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(X.rename(columns={names[0]: "other"}))


def test_one_alpha_per_component_is_restored(striped, tmp_path):
    model = SPCATV(2, structure=(60,), alpha=[0.3, 0.2]).fit(striped)
    model.save(tmp_path / "model")
    loaded = SPCATV.load(tmp_path / "model")
    assert list(loaded.alpha) == list(model.alpha)
    assert len(set(loaded.alpha)) == 2
    for name in ("l1_", "l2_", "tv_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    np.testing.assert_array_equal(loaded.transform(striped), model.transform(striped))
    loaded.save(tmp_path / "again")
    assert file_sha256(tmp_path / "again/model.json") == file_sha256(tmp_path / "model/model.json")


@pytest.mark.parametrize("weights", [[0.1], [0.1, 0.2, 0.3], []])
def test_weights_that_do_not_fit_the_components_are_refused(weights, striped, tmp_path):
    SPCATV(2, structure=(60,), alpha=0.2).fit(striped).save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    write_model(tmp_path / "other", replace(saved, fitted={**saved.fitted, "tv": weights}))
    with pytest.raises(ModelError, match="tv of the model must be one number, or one number per component"):
        SPCATV.load(tmp_path / "other")


def test_empty_components_are_restored(striped, tmp_path):
    with pytest.warns(UserWarning, match="components are empty"):
        model = SPCATV(2, alpha=50.0, structure=(60,), method="joint").fit(striped)
    model.save(tmp_path / "model")
    assert_same_model(SPCATV.load(tmp_path / "model"), model, striped)


def test_a_random_state_is_replaced_with_a_warning(striped, tmp_path):
    model = SPCATV(1, init="random", random_state=np.random.RandomState(5)).fit(striped)
    with pytest.warns(UserWarning, match="random_state=None"):
        model.save(tmp_path / "model")
    assert SPCATV.load(tmp_path / "model").random_state is None


def test_a_function_given_as_structure_comes_back_as_the_structure_it_made(striped, tmp_path):
    model = SPCATV(1, structure=chain).fit(striped)
    model.save(tmp_path / "model")
    loaded = SPCATV.load(tmp_path / "model")
    assert loaded.structure == grid(60)
    np.testing.assert_array_equal(clone(loaded).fit(striped).components_, model.components_)


def test_a_function_given_as_solver_is_named_and_replaced(striped, tmp_path):
    model = SPCATV(1, structure=(60,), solver=own_solver).fit(striped)
    with pytest.warns(
        UserWarning, match=r"cannot keep the solver test_save_and_load\.own_solver: .* has solver='auto'"
    ) as caught:
        model.save(tmp_path / "model")
    assert caught[0].filename == __file__
    kept = read_model(tmp_path / "model").parameters["solver"]
    assert kept["type"] == "replaced"
    assert kept["was"].endswith(".own_solver")
    loaded = SPCATV.load(tmp_path / "model")
    assert loaded.solver == "auto"
    assert_same_model(loaded, model, striped)


@dataclass(frozen=True)
class Own(HuberTV):
    """A penalty of a class that the package does not have."""


def test_another_penalty_is_named_and_replaced(striped, tmp_path):
    model = SPCATV(1, structure=(60,), penalty=Own(0.1)).fit(striped)
    with pytest.warns(UserWarning, match=r"cannot keep the penalty .*\.Own: .* has penalty='tv'"):
        model.save(tmp_path / "model")
    assert read_model(tmp_path / "model").parameters["penalty"]["was"].endswith(".Own")
    assert SPCATV.load(tmp_path / "model").penalty == "tv"


def test_a_penalty_of_the_package_is_restored(striped, tmp_path):
    SPCATV(1, structure=(60,), penalty=HuberTV(0.1)).fit(striped).save(tmp_path / "model")
    assert SPCATV.load(tmp_path / "model").penalty == HuberTV(0.1)


def test_the_folder_states_what_was_done(striped, tmp_path):
    np.save(tmp_path / "X.npy", striped)
    digest = file_sha256(tmp_path / "X.npy")
    model = SPCATV(2, structure=(6, 10), alpha=0.2).fit(striped)
    model.save(tmp_path / "model", inputs={"X": {"name": "X.npy", "sha256": digest}})
    document = json.loads((tmp_path / "model/model.json").read_text(encoding="utf-8"))
    assert document["schema_version"] == SCHEMA_VERSION
    assert document["fitted"]["l1"] == model.l1_
    assert document["fitted"]["diagnostics"][1]["gap"] == model.diagnostics_[1].gap
    assert document["inputs"]["X"]["sha256"] == digest
    assert re.fullmatch("[0-9a-f]{64}", document["inputs"]["structure"]["sha256"])
    assert set(document["versions"]) == {"python", "numpy", "scipy", "scikit-learn", "numba", "spca-tv"}
    assert document["versions"] == current_versions()
    assert document["versions"]["numpy"] == np.__version__
    assert document["versions"]["spca-tv"] == spcatv.__version__
    # any tool that reads .npz files can read the arrays
    with np.load(tmp_path / "model/arrays.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["components"], model.components_)


def test_the_hash_of_the_structure_is_that_of_the_mask(striped, tmp_path):
    def digest(structure):
        SPCATV(1, structure=structure).fit(striped).save(tmp_path / "model")
        return read_model(tmp_path / "model").inputs["structure"]["sha256"]

    assert digest((6, 10)) == digest(np.ones((6, 10), dtype=bool))
    assert digest((6, 10)) != digest((10, 6))


def test_extras_become_part_of_the_model(tmp_path):
    def maps(folder):
        (folder / "maps").mkdir()
        (folder / "maps/component.txt").write_text("1 2 3", encoding="utf-8")

    saved = SavedModel("ImageSPCATV", {"a": 1}, {"b": [2.5]}, {"c": np.arange(3)}, {"d": None})
    write_model(tmp_path / "model", saved, extras=maps)
    found = read_model(tmp_path / "model", kind="ImageSPCATV")
    assert (found.kind, found.parameters, found.fitted) == ("ImageSPCATV", {"a": 1}, {"b": [2.5]})
    assert found.inputs == {"d": None}
    assert found.versions == saved.versions
    np.testing.assert_array_equal(found.arrays["c"], np.arange(3))
    (tmp_path / "model/maps/component.txt").write_text("1 2 4", encoding="utf-8")
    with pytest.raises(ModelError, match=r"component\.txt was changed"):
        read_model(tmp_path / "model")


def test_another_kind_of_model_is_named(tmp_path):
    write_model(tmp_path / "model", SavedModel("ImageSPCATV", {}, {}, {}))
    with pytest.raises(ModelError, match=r"load it with ImageSPCATV\.load"):
        SPCATV.load(tmp_path / "model")


def test_only_a_fitted_model_can_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        SPCATV().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"alpha": float("nan")}, "alpha"),
        ({"init": np.array(["a"], dtype=object)}, "plain numbers"),
        ({"init": np.full((1, 60), np.nan)}, "NaN or infinite"),
        ({"random_state": np.random.default_rng(0)}, "random_state is a Generator"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(changed, message, striped, tmp_path):
    model = SPCATV(1).fit(striped).set_params(**changed)
    with pytest.raises((ValueError, TypeError), match=message):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_inputs_must_be_json(striped, tmp_path):
    model = SPCATV(1).fit(striped)
    for inputs, message in (
        ({"X": Path("X.npy")}, "cannot be written as JSON: .*Path"),
        ({"X": [1.0, np.inf]}, "cannot be written as JSON"),
    ):
        with pytest.raises(ModelError, match=message):
            model.save(tmp_path / "model", inputs=inputs)
    assert list(tmp_path.iterdir()) == []
