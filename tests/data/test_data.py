"""Kinds of data behind one seam, and the checker that says so."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from spcatv import SPCATV
from spcatv.data import ArrayData, as_data
from spcatv.testing import check_data

KINDS = {
    "C order": lambda X: X,
    "Fortran order": np.asfortranarray,
    "every other row of a larger array": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column of a larger array": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "samples of a larger array": lambda X: ArrayData(
        np.concatenate([X[::-1], X + 1]), np.arange(len(X))[::-1]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_layout_passes_the_check(kind):
    check_data(KINDS[kind])


def test_a_read_only_memory_map_passes_the_check(tmp_path):
    def mapped(X):
        np.save(tmp_path / "X.npy", X)
        return np.load(tmp_path / "X.npy", mmap_mode="r")

    check_data(mapped)


class _Broken(ArrayData):
    """Data of which one method is wrong."""


def _break(name, wrong):
    return lambda X: type("Broken", (_Broken,), {name: wrong})(X)


BREAKS = {
    "dot": lambda self, v: ArrayData.dot(self, v) + 1,
    "transpose_dot": lambda self, u: ArrayData.transpose_dot(self, u).astype(np.float32),
    "there_and_back_many": lambda self, v, mean, shift: ArrayData.there_and_back_many(
        self, v, mean, 0 * shift
    ),
    "dot_many": lambda self, vectors: ArrayData.dot_many(self, vectors).T,
    "column_statistics": lambda self, center: ArrayData.column_statistics(self, True),
    "gram": lambda self, mean: ArrayData.gram(self, 0 * mean),
    "blocks": lambda self, entries=9: iter([(slice(0, 1), self.array[:1].astype(float))]),
    "take": lambda self, samples: ArrayData(self.array, np.sort(self.samples[samples])),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_check_finds_a_broken_method(name):
    with pytest.raises(AssertionError):
        check_data(_break(name, BREAKS[name]))


def test_a_part_of_the_samples_is_no_copy():
    X = np.random.default_rng(0).standard_normal((6, 4))
    part = as_data(X).take(np.array([4, 4, 1]))
    assert part.array is X
    assert_array_equal(part.dot(np.ones(4)), X[[4, 4, 1]].sum(axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_part_gives_the_bits_of_a_copy(dtype):
    X = np.random.default_rng(1).standard_normal((30, 50)).astype(dtype)
    samples = np.random.default_rng(2).integers(0, 30, 25)
    part, copied = as_data(X).take(samples), as_data(X[samples].copy())
    for one, other in zip(
        part.there_and_back_many(np.ones((1, 50)), np.zeros(50), np.zeros((25, 1))),
        copied.there_and_back_many(np.ones((1, 50)), np.zeros(50), np.zeros((25, 1))),
        strict=True,
    ):
        assert_array_equal(one, other)
    assert_array_equal(part.gram(np.zeros(50)), copied.gram(np.zeros(50)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_does_not_depend_on_the_layout(kind, striped):
    reference = SPCATV(2, structure=(60,)).fit(striped)
    model = SPCATV(2, structure=(60,)).fit(KINDS[kind](striped))
    assert_array_equal(model.components_, reference.components_)
    assert_array_equal(model.transform(KINDS[kind](striped)), reference.transform(striped))
    assert model.score(as_data(striped)) == reference.score(striped)


def test_what_is_no_data_is_named():
    with pytest.raises(TypeError, match=r"X is a builtins\.list, neither a NumPy array"):
        as_data([[1.0, 2.0]])
    with pytest.raises(ValueError, match="two dimensions"):
        as_data(np.zeros(3))


def test_data_with_other_features_are_refused(striped):
    model = SPCATV(1, structure=(60,)).fit(as_data(striped))
    with pytest.raises(ValueError, match="X has 59 features, but SPCATV is expecting 60"):
        model.transform(as_data(striped[:, 1:].copy()))
