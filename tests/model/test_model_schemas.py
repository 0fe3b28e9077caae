"""Folders of every schema version stay readable, and the format changes only together with its version."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_model_hostile import change, contents_of, npy, pack_arrays, refused, set_at

from spcatv import SPCATV
from spcatv.model import SCHEMA_VERSION, read_model
from spcatv.model.schema import ARRAYS, DIAGNOSTICS, FITTED, OPTIONAL_ARRAYS
from spcatv.model.upgrades import UPGRADES

FIXTURES = Path(__file__).parent / "fixtures"
FOLDERS = sorted(path.parent for path in FIXTURES.glob("*/*/expected.json"))
CURRENT = f"schema-{SCHEMA_VERSION}"


def name_of(folder):
    return f"{folder.parent.name}-{folder.name}"


def load(folder, kind):
    if kind == "SPCATV":
        return SPCATV.load(folder)
    pytest.importorskip("nilearn")
    from spcatv.images import ImageSPCATV

    return ImageSPCATV.load(folder)


def scores(model, told):
    rows = np.array(told["rows"])
    if told["kind"] == "SPCATV":
        return model.transform(rows)
    images = model.space_.to_images(rows.astype(np.float32), ("one", "two", "three"))
    return model.transform(images, told["confounds"])


def assert_as_told(model, told):
    """Compare a loaded model with what it was when it was fitted."""
    for name, value in told["parameters"].items():
        found = model.get_params()[name]
        assert (list(found) if isinstance(found, tuple) else found) == value, name
    assert model.components_.tolist() == told["components"]
    assert model.explained_variance_ratio_.tolist() == told["explained_variance_ratio"]
    assert [record.gap for record in model.diagnostics_] == told["gaps"]
    for name in ("target_sparsity", "smoothness"):
        wanted = told.get(name, [None] * len(model.diagnostics_))  # not in the first version
        assert [getattr(record, name) for record in model.diagnostics_] == wanted
    for name in ("l1", "tv"):
        own = [getattr(record, name) for record in model.diagnostics_]
        np.testing.assert_allclose(own, np.broadcast_to(getattr(model, f"{name}_"), len(own)), rtol=1e-14)
    assert model.n_iter_ == told["n_iter"]
    for name, weight in told["weights"].items():
        np.testing.assert_allclose(getattr(model, name), weight, rtol=1e-14)
    assert model.structure_.value(np.array(told["rows"][0])) == pytest.approx(told["structure_value"])
    precision = 1e-12 if model.components_.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(scores(model, told), told["scores"], rtol=precision, atol=precision)
    if told["kind"] == "ImageSPCATV":
        assert list(model.input_names_) == told["names"]


def expectation(folder):
    """What the fitted model had; with one alpha per component, its `alpha` was then the first one."""
    told = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    if folder.name == "alphas" and told["parameters"]["alpha"] == 0.1:
        told["parameters"]["alpha"] = [0.1, 0.2]
        told["weights"] = {name: [weight, 2 * weight] for name, weight in told["weights"].items()}
    if told["parameters"].pop("refine", None) is not None:  # up to version 3, all fits were deflations
        if told["parameters"].get("transform_method") == "deflation":
            told["parameters"]["transform_method"] = "auto"
        told["parameters"]["method"] = "deflation"
    return told


def test_there_are_fixtures_of_every_version():
    versions = {}
    for folder in FOLDERS:
        document = json.loads((folder / "model/model.json").read_text(encoding="utf-8"))
        versions.setdefault(document["schema_version"], set()).add(folder.name)
    assert set(versions) == set(range(1, SCHEMA_VERSION + 1))
    kinds = {"plain", "alphas", "values", "volume", "surface", "cifti"}
    assert versions.pop(1) == kinds | {"refined"}
    assert versions.pop(2) == kinds | {"refined", "wanted"}
    assert versions.pop(3) == kinds | {"refined", "wanted", "runs"}
    assert all(names == kinds | {"joint", "wanted", "runs"} for names in versions.values())
    assert set(UPGRADES) == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_a_folder_of_any_version_is_read_and_saved_again(folder, tmp_path):
    told = expectation(folder)
    model = load(folder / "model", told["kind"])
    assert_as_told(model, told)
    model.save(tmp_path / "again")
    document = json.loads((tmp_path / "again/model.json").read_text(encoding="utf-8"))
    assert document["schema_version"] == SCHEMA_VERSION
    assert_as_told(load(tmp_path / "again", told["kind"]), told)


def test_values_of_every_type_come_back():
    for folder in FIXTURES.glob("*/values"):
        model = SPCATV.load(folder / "model")
        assert model.structure.format == "csr"
        np.testing.assert_array_equal(model.init, np.ones((2, 10)))
        assert model.dtype == np.float32
        assert model.solver == "auto"
        assert model.random_state.randint(10**9) == np.random.RandomState(5).randint(10**9)


def layout(value):
    """Names and JSON types; for a list, the layout of its first item."""
    if isinstance(value, dict):
        return {name: layout(item) for name, item in value.items()}
    if isinstance(value, list):
        return [layout(item) for item in value[:1]]
    return "number" if type(value) in (int, float) else type(value).__name__


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f.parent.name == CURRENT], ids=name_of)
def test_the_format_is_that_of_the_fixtures(folder, tmp_path):
    """A fixture of the current version, saved again, has the same entries with the same values.

    If this fails, the format has changed: raise the version, as `spcatv.model.schema` describes.
    """
    kind = expectation(folder)["kind"]
    load(folder / "model", kind).save(tmp_path / "again")
    before, after = read_model(folder / "model"), read_model(tmp_path / "again")
    left_out = ("solver",) if folder.name == "values" else ()  # a function when it was fitted
    for saved in (before, after):
        for name in left_out:
            del saved.parameters[name]
    # the file of the mask no longer exists
    before.inputs.pop("mask", None)
    for part in ("parameters", "fitted", "inputs"):
        assert layout(getattr(after, part)) == layout(getattr(before, part)), part
    assert after.fitted == before.fitted
    assert list(after.arrays) == list(before.arrays)
    for name, array in before.arrays.items():
        assert (after.arrays[name].dtype, after.arrays[name].shape) == (array.dtype, array.shape), name
        np.testing.assert_array_equal(after.arrays[name], array)


def test_the_documentation_describes_every_field():
    text = (Path(__file__).parents[2] / "docs/model-folder.md").read_text(encoding="utf-8")
    assert f"## model.json (schema version {SCHEMA_VERSION})" in text
    names = [*FITTED, *ARRAYS, *OPTIONAL_ARRAYS, *DIAGNOSTICS]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_contents_are_those_of_the_current_version():
    """Code that reads the plain contents only needs to know the current version."""
    refined = read_model(FIXTURES / "schema-1-early/refined/model")
    assert refined.parameters["method"] == "deflation"
    assert "refine" not in refined.parameters
    assert "refinement" not in refined.fitted
    assert not [name for name in refined.arrays if name.startswith("refinement")]
    alphas = read_model(FIXTURES / "schema-1/alphas/model")
    assert alphas.parameters["alpha"] == [0.1, 0.2]
    assert len(alphas.fitted["l1"]) == 2
    assert "component_alphas" not in alphas.arrays
    volume = read_model(FIXTURES / "schema-1-early/volume/model")
    assert volume.fitted["images"]["confounds"]["levels"] == {}


@pytest.fixture
def old(tmp_path):
    """Makes a copy of a model of version 1."""

    def copy(name):
        return shutil.copytree(FIXTURES / "schema-1" / name / "model", tmp_path / "model")

    return copy


@pytest.mark.parametrize("odd", [3, [], {}, {"confounds": 3}, {"confounds": []}])
def test_an_old_document_with_odd_images(odd, old):
    model = old("volume")
    change(model, set_at("fitted", "images", odd))
    refused(model, "images", lambda folder: load(folder, "ImageSPCATV"))


def test_an_old_array_that_is_not_used_is_checked_too(old):
    model = old("refined")
    contents = contents_of(model)
    pack_arrays(model, contents | {"refinement.0.u": npy(np.full(12, np.nan))})
    change(model, lambda document: None)
    refused(model, r"'refinement\.0\.u' of .* holds 12 values that are NaN or infinite")


@pytest.mark.parametrize(
    ("alphas", "message"),
    [
        (np.array([0.1, 0.2, 0.3]), "alpha must be one number, or one for each of the 2 components"),
        (np.array([]), "alpha must be one number, or one for each of the 2 components"),
        (np.array([[0.1, 0.2]]), "'component_alphas' must hold one positive number per component"),
        (np.array([1, 2]), "'component_alphas' must hold one positive number per component"),
        (np.array([0.0, 0.1]), "'component_alphas' must hold one positive number per component"),
    ],
)
def test_old_alphas_that_do_not_fit_the_components_are_refused(alphas, message, old):
    model = old("alphas")
    pack_arrays(model, contents_of(model) | {"component_alphas": npy(alphas)})
    declared = {"dtype": alphas.dtype.str, "shape": list(alphas.shape)}
    change(model, set_at("arrays", "component_alphas", declared))
    refused(model, message)


def test_old_weights_that_are_not_numbers_are_refused(old):
    model = old("alphas")
    change(model, set_at("fitted", "tv", "0.1"))
    refused(model, "tv must be a number, got '0.1'")
