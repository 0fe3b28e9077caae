"""Simulated data whose true loadings are known (docs/method.md section 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

FloatArray = npt.NDArray[np.floating[Any]]
RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None

DOT_AMPLITUDES: tuple[float, float, float] = (1.0, 0.8, 0.5)


@dataclass(frozen=True, eq=False)
class Dots:
    """Images with three known components; made by `make_dots`.

    Attributes
    ----------
    X : ndarray of shape (n_samples, size * size)
        One flattened image a row (C order); every column has mean 0 and standard deviation 1.
    shape : tuple of int
        Shape of an image, ``(size, size)``: also the structure to give to an estimator.
    loadings : ndarray of shape (3, size * size)
        True loadings, the indicators (0 or 1) of the supports: the two upper dots, the two lower
        dots, the middle dot.
    scores : ndarray of shape (n_samples, 3)
        What multiplies the loadings: ``scores @ loadings`` are the images before the noise, the
        smoothing and the standardisation.
    """

    X: FloatArray
    shape: tuple[int, int]
    loadings: FloatArray
    scores: FloatArray

    def split(self, n_train: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Cut the rows of X in two, without a copy.

        Parameters
        ----------
        n_train : int, default=None
            Rows of the first part, between 1 and ``n_samples - 1``; ``None`` takes half.

        Returns
        -------
        train : ndarray of shape (n_train, size * size)
        test : ndarray of shape (n_samples - n_train, size * size)
        """
        n_samples = self.X.shape[0]
        n_train = n_samples // 2 if n_train is None else n_train
        if not 1 <= n_train < n_samples:
            raise ValueError(
                f"n_train must leave at least one row on each side: between 1 and {n_samples - 1} "
                f"of {n_samples} rows, got {n_train}"
            )
        return self.X[:n_train], self.X[n_train:]


def make_dots(
    n_samples: int = 500,
    size: int = 100,
    snr: float = 0.1,
    *,
    amplitudes: tuple[float, float, float] = DOT_AMPLITUDES,
    smoothing: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    random_state: RandomState = None,
) -> Dots:
    """Simulate the images of the SPCA-TV paper: five dots that vary in three groups.

    An image is ``sum_k s_k V_k + e``, with e independent N(0, 1) pixels and V_k the indicator of
    the two upper dots, the two lower dots and the middle dot. Over the samples, each signal is
    drawn from N(0, 1), brought to mean 0 and standard deviation 1 exactly, and multiplied by
    ``snr * amplitudes[k]``. The image is then smoothed by a Gaussian, and at last every pixel is
    brought to mean 0 and standard deviation 1 over all samples (docs/method.md section 6.2).

    Parameters
    ----------
    n_samples : int, default=500
        Number of images, at least 2.
    size : int, default=100
        Pixels on a side, at least 7; a dot has a diameter of ``size // 7`` pixels.
    snr : float, default=0.1
        Standard deviation of the strongest signal over that of the noise, before smoothing.
    amplitudes : tuple of 3 floats, default=(1.0, 0.8, 0.5)
        Strength of the three signals relative to `snr`.
    smoothing : float, default=1.0
        Standard deviation, in pixels, of the Gaussian that smooths each image; 0 for none.
    dtype : {float64, float32}, default=float64
        Type of the arrays; the numbers are drawn and prepared in float64 either way.
    random_state : int, Generator, RandomState or None, default=None
        An integer gives the same data every time; ``None`` gives new data every time.

    Returns
    -------
    Dots
    """
    _check_arguments(n_samples, size, snr, amplitudes, smoothing)
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}")
    rng = _generator(random_state)
    loadings = _dot_supports(size)
    # the signals come first, so that they do not depend on the size of the images
    latent = rng.standard_normal((n_samples, 3))
    scores = snr * np.asarray(amplitudes, dtype=np.float64) * _standardize(latent)
    X = rng.standard_normal((n_samples, size * size))
    X += scores @ loadings
    if smoothing > 0:
        images = X.reshape(n_samples, size, size)
        gaussian_filter(images, sigma=(0, smoothing, smoothing), output=images)
    X = _standardize(X)
    return Dots(
        X=X.astype(dtype, copy=False),
        shape=(size, size),
        loadings=loadings.astype(dtype, copy=False),
        scores=scores.astype(dtype, copy=False),
    )


def _check_arguments(
    n_samples: int, size: int, snr: float, amplitudes: tuple[float, float, float], smoothing: float
) -> None:
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2, to standardise the columns; got {n_samples}")
    if size < 7:
        raise ValueError(f"size must be at least 7, so that a dot has a pixel; got {size}")
    if not (np.isfinite(snr) and snr >= 0):
        raise ValueError(f"snr must be a finite number >= 0, got {snr}")
    if not (np.isfinite(smoothing) and smoothing >= 0):
        raise ValueError(f"smoothing must be a finite number of pixels >= 0, got {smoothing}")
    if np.shape(amplitudes) != (3,) or not np.isfinite(amplitudes).all():
        raise ValueError(f"amplitudes must be three finite numbers, got {amplitudes!r}")


def _generator(random_state: RandomState) -> np.random.Generator | np.random.RandomState:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    return np.random.default_rng(random_state)


def _dot_supports(size: int) -> FloatArray:
    """Draw the indicators of the three supports, shape (3, size * size)."""
    rows, columns = np.ogrid[:size, :size]
    radius = (size // 7) / 2
    low, middle, high = size // 4, size // 2, 3 * size // 4

    def dot(row: int, column: int) -> npt.NDArray[np.bool_]:
        return np.asarray((rows - row) ** 2 + (columns - column) ** 2 <= radius**2)

    supports = np.stack(
        [dot(low, low) | dot(low, high), dot(high, low) | dot(high, high), dot(middle, middle)]
    )
    return supports.reshape(3, size * size).astype(np.float64)


def _standardize(columns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Bring every column to mean 0 and (population) standard deviation 1, in place."""
    columns -= columns.mean(axis=0)
    columns /= np.sqrt(np.einsum("ij,ij->j", columns, columns) / columns.shape[0])
    return columns
