"""Confounds of text: groups of images, each with its own mean."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

from spcatv.images import ImageError, ImageSPCATV, read_cohort
from spcatv.images.confounds import read_confounds

SHAPE = (5, 4, 3)
N_IMAGES = 24


def images(X):
    return [nib.Nifti1Image(row.reshape(SHAPE), np.eye(4)) for row in X]


def cohort(X, confounds):
    return read_cohort(images(X), mask=np.ones(SHAPE, bool), confounds=confounds, dtype="float64")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, N_IMAGES).astype(float),
            "site": np.array(["London", "Paris", "Berlin"])[np.arange(N_IMAGES) % 3],
            "sex": np.array(["F", "M"])[rng.integers(0, 2, N_IMAGES)],
        }
    )
    means = {site: rng.standard_normal(60) for site in ("London", "Paris", "Berlin")}
    X = rng.standard_normal((N_IMAGES, 60)) + np.stack([means[site] for site in table["site"]])
    return X, table


def test_groups_lose_their_means(data):
    X, table = data
    found = cohort(X, table[["site"]]).X
    for site in ("London", "Paris", "Berlin"):
        own = found[(table["site"] == site).to_numpy()]
        np.testing.assert_allclose(own.mean(axis=0), found.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(found.mean(axis=0), X.mean(axis=0), atol=1e-10)


def test_the_residuals_are_those_of_any_other_coding(data):
    X, table = data
    every_level = pd.get_dummies(table, columns=["site", "sex"]).to_numpy(dtype=float)
    np.testing.assert_allclose(cohort(X, table).X, cohort(X, every_level).X, atol=1e-9)
    categories = table.assign(site=table["site"].astype("category"))
    np.testing.assert_allclose(cohort(X, categories).X, cohort(X, table).X, atol=1e-12)


def test_numbers_as_text_or_categories_are_groups(data):
    X, table = data
    code = table["site"].map({"London": 1, "Paris": 2, "Berlin": 3})
    expected = cohort(X, table[["site"]]).X
    for column in (code.astype(str), code.astype("category")):
        np.testing.assert_allclose(cohort(X, pd.DataFrame({"code": column})).X, expected, atol=1e-9)
    assert not np.allclose(cohort(X, pd.DataFrame({"code": code})).X, expected)


def test_new_images_are_coded_by_the_levels_of_the_fit(data, tmp_path):
    X, table = data
    model = ImageSPCATV(n_components=1, mask=np.ones(SHAPE, bool), dtype="float64")
    scores = model.fit_transform(images(X), confounds=table)
    model.save(tmp_path / "model")
    table[["sex", "site", "age"]].to_csv(tmp_path / "c.tsv", sep="\t", index=False)
    for again in (model, ImageSPCATV.load(tmp_path / "model")):
        np.testing.assert_allclose(again.transform(images(X), confounds=tmp_path / "c.tsv"), scores)
        # one image has one level only
        for row in (0, 1, 2):
            alone = again.transform(images(X[row : row + 1]), confounds=table[row : row + 1])
            np.testing.assert_allclose(alone, scores[row : row + 1])
        elsewhere = table[:3].assign(site=["London", "Paris", "Rome"])
        with pytest.raises(
            ImageError,
            match=r"row 3 has site 'Rome', which .* with.* Berlin, London, Paris",
        ):
            again.transform(images(X[:3]), confounds=elsewhere)
        with pytest.raises(ImageError, match=r"fitted with confounds \(age, site, sex\)"):
            again.transform(images(X))
        with pytest.raises(ImageError, match=r"fitted with age, site, sex, got age, site"):
            again.transform(images(X), confounds=table[["age", "site"]])


def test_text_where_the_fit_had_numbers(data):
    X, table = data
    preparation = cohort(X, table[["age"]]).preparation
    with pytest.raises(ImageError, match=r"column 'age' holds text \(first value 'old'\), which the model"):
        preparation.read(images(X[:1]), pd.DataFrame({"age": ["old"]}))


def test_columns_that_are_no_groups(data):
    def refused(values):
        with pytest.raises(ImageError) as caught:
            read_confounds(pd.DataFrame({"column": values}), ["image"] * len(values))
        return str(caught.value)

    assert "has 24 different values in 24 rows (first 'sub-0')" in refused([f"sub-{k}" for k in range(24)])
    assert "mixes numbers and text: row 2 has 'x'" in refused(["31", "x", "40", "25"])
    assert "mixes numbers and text: row 3 has '7'" in refused(["a", "b", "7", "b"])
    assert "mixes numbers and text" in refused(["a", 1, "b", "a"])
    assert "1 values of column 'column' are missing, first in row 3" in refused(["a", "b", None, "b"])


def test_a_single_group_changes_nothing(data):
    X, table = data
    one = table[["age"]].assign(scanner="Prisma")
    np.testing.assert_allclose(cohort(X, one).X, cohort(X, table[["age"]]).X, atol=1e-12)
    with pytest.raises(ImageError, match=r"no column has more than one value \(scanner\)"):
        cohort(X, one[["scanner"]])
