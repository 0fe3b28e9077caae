"""Kinds of arrays in files, for tests."""

import numpy as np
import pytest


class Files:
    """Makes arrays in files of a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        self.open = []

    def path(self, suffix):
        self.count += 1
        return self.folder / f"X{self.count}{suffix}"

    def mapped(self, X):
        path = self.path(".npy")
        np.save(path, X)
        return np.load(path, mmap_mode="r")

    def hdf5(self, X, mode="r", **options):
        h5py = pytest.importorskip("h5py", reason="not installed")
        path = self.path(".h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=X, **options)
        self.open.append(h5py.File(path, mode))
        return self.open[-1]["X"]

    def chunked_hdf5(self, X):
        return self.hdf5(X, chunks=self.chunks(X), compression="gzip")

    def zarr(self, X):
        zarr = pytest.importorskip("zarr", reason="not installed")
        store = zarr.open(
            str(self.path(".zarr")), mode="w", shape=X.shape, chunks=self.chunks(X), dtype=X.dtype
        )
        store[...] = X
        return store

    @staticmethod
    def chunks(X):
        """A few in each direction, and the last ones cut off: a chunk of Zarr takes a millisecond."""
        return min(max(4, X.shape[0] // 8), X.shape[0]), min(max(7, X.shape[1] // 4), X.shape[1])

    def close(self):
        for file in self.open:
            file.close()


class Rows:
    """An array that counts the samples asked for, and is no NumPy array; `chunks` as given."""

    def __init__(self, X, chunks=None):
        self.X, self.chunks = X, chunks
        self.shape, self.dtype = X.shape, X.dtype
        self.asked = []

    def __getitem__(self, index):
        rows = index[0] if isinstance(index, tuple) else index
        self.asked.append((rows.start, rows.stop))
        return self.X[index]


def two_regions(n_images):
    """Images of 20 x 24 pixels with two regions, shape (n_images, 480)."""
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((n_images, 20, 24)) + 1.0
    X[:, 2:9, 2:11] += 2.0 * rng.standard_normal((n_images, 1, 1))
    X[:, 11:18, 12:22] += 1.5 * rng.standard_normal((n_images, 1, 1))
    return X.reshape(n_images, 480)
