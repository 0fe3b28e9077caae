"""Simulated data with known loadings: the dots of the paper, and cohorts on any mask or mesh.

The dots are described in docs/method.md section 6.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.ndimage import gaussian_filter
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

from spcatv._util.types import BoolArray, FloatArray, IntArray

RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None

DOT_AMPLITUDES: tuple[float, float, float] = (1.0, 0.8, 0.5)
REGIONS_PER_COMPONENT = 2
# Iterations that move the centres of regions towards the middle of the points nearest to them.
CENTRE_MOVES = 5


@dataclass(frozen=True, eq=False)
class Dots:
    """Images with three known components; returned by `make_dots`.

    Attributes
    ----------
    X : ndarray of shape (n_samples, size * size)
        One flattened image per row (C order); every column has mean 0 and standard deviation 1.
    shape : tuple of int
        Shape of an image, ``(size, size)``, which can be given to an estimator as `structure`.
    loadings : ndarray of shape (3, size * size)
        True loadings: the indicators (0 or 1) of the two upper dots, the two lower dots, and the middle
        dot.
    scores : ndarray of shape (n_samples, 3)
        True scores: ``scores @ loadings`` are the images before noise, smoothing and standardisation.

    Examples
    --------
    >>> from spcatv.datasets import make_dots
    >>> dots = make_dots(n_samples=10, size=21, random_state=0)
    >>> dots.shape, dots.loadings.shape, dots.scores.shape
    ((21, 21), (3, 441), (10, 3))
    >>> dots.loadings.sum(axis=1)  # pixels of the upper dots, the lower dots, and the middle dot
    array([18., 18.,  9.])
    """

    X: FloatArray
    shape: tuple[int, int]
    loadings: FloatArray
    scores: FloatArray

    def split(self, n_train: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Split the samples in two parts, without a copy.

        Parameters
        ----------
        n_train : int, default=None
            Number of samples in the first part, between 1 and ``n_samples - 1``; ``None`` for half.

        Returns
        -------
        train : ndarray of shape (n_train, size * size)
            The first samples.
        test : ndarray of shape (n_samples - n_train, size * size)
            The others.

        Examples
        --------
        >>> from spcatv.datasets import make_dots
        >>> train, test = make_dots(n_samples=10, size=21, random_state=0).split(8)
        >>> train.shape, test.shape
        ((8, 441), (2, 441))
        """
        n_samples = self.X.shape[0]
        n_train = n_samples // 2 if n_train is None else n_train
        if not 1 <= n_train < n_samples:
            raise ValueError(
                f"n_train must leave at least one sample in each part: between 1 and {n_samples - 1} "
                f"of {n_samples} samples, got {n_train}"
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

    An image is ``sum_k s_k V_k + e``, where the pixels of e are independent N(0, 1) and V_k is the
    indicator of the two upper dots, the two lower dots or the middle dot. Over the samples, each signal
    s_k is drawn from N(0, 1), scaled to mean 0 and standard deviation 1 exactly, and multiplied by
    ``snr * amplitudes[k]``. Each image is then smoothed by a Gaussian. Finally, every pixel is scaled to
    mean 0 and standard deviation 1 over all samples (docs/method.md section 6.2).

    Parameters
    ----------
    n_samples : int, default=500
        Number of images, at least 2.
    size : int, default=100
        Width and height of an image in pixels, at least 7; a dot has a diameter of ``size // 7`` pixels.
    snr : float, default=0.1
        Ratio of the standard deviations of the strongest signal and the noise, before smoothing.
    amplitudes : tuple of 3 floats, default=(1.0, 0.8, 0.5)
        Strength of the three signals relative to `snr`.
    smoothing : float, default=1.0
        Standard deviation, in pixels, of the Gaussian that smooths each image; 0 for none.
    dtype : {float64, float32}, default=float64
        Type of the arrays; the data are always computed in float64.
    random_state : int, Generator, RandomState or None, default=None
        An integer gives the same data every time, ``None`` new data every time.

    Returns
    -------
    Dots
        The images, and the truth behind them.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.datasets import make_dots
    >>> from spcatv.metrics import match_components
    >>> dots = make_dots(n_samples=60, size=35, snr=2.0, random_state=0)
    >>> model = SPCATV(3, structure=dots.shape, sparsity=0.9).fit(dots.X)
    >>> match = match_components(dots.loadings, model.components_)
    >>> match.cosine.round(1)
    array([0.7, 0.7, 0.8])
    """
    _check_signals(n_samples, snr, amplitudes, dtype)
    if size < 7:
        raise ValueError(f"size must be at least 7, so that a dot has at least one pixel; got {size}")
    if len(amplitudes) != 3:
        raise ValueError(f"amplitudes must be three finite numbers, got {amplitudes!r}")
    if not (np.isfinite(smoothing) and smoothing >= 0):
        raise ValueError(f"smoothing must be a finite number of pixels >= 0, got {smoothing}")
    rng = _generator(random_state)
    loadings = _dot_supports(size)
    # the signals are drawn first, so that they do not depend on the size of the images
    latent = rng.standard_normal((n_samples, 3))
    scores = snr * np.asarray(amplitudes, dtype=np.float64) * _standardize(latent)
    X: FloatArray = rng.standard_normal((n_samples, size * size))
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


@dataclass(frozen=True, eq=False)
class SimulatedCohort:
    """One map per person, with known components.

    Returned by `make_volume_cohort` and `make_surface_cohort`.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        One map per row: ``scores @ loadings`` plus smooth noise of standard deviation 1.
    loadings : ndarray of shape (n_components, n_features)
        True loadings: the indicators (0 or 1) of the regions of each component; regions do not overlap.
    scores : ndarray of shape (n_samples, n_components)
        True scores, with mean 0 and standard deviation ``snr * amplitudes[k]``.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.datasets import make_volume_cohort
    >>> cohort = make_volume_cohort(np.ones((8, 8, 8)), 20, radius=2, random_state=0)
    >>> cohort.X.shape, cohort.loadings.shape, cohort.scores.shape
    ((20, 512), (3, 512), (20, 3))
    >>> np.unique(cohort.loadings)
    array([0., 1.])
    """

    X: FloatArray
    loadings: FloatArray
    scores: FloatArray


def make_volume_cohort(
    mask: npt.ArrayLike,
    n_samples: int = 60,
    *,
    voxel_size: float | tuple[float, ...] = 1.0,
    radius: float,
    snr: float = 1.0,
    amplitudes: tuple[float, ...] = DOT_AMPLITUDES,
    smoothing: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    random_state: RandomState = None,
) -> SimulatedCohort:
    """Simulate a cohort of maps on the voxels of a mask; each component consists of two balls.

    Parameters
    ----------
    mask : array-like of bool, of shape (n_0, n_1, ...)
        Its nonzero voxels, in C order, are the features.
    n_samples : int, default=60
        Number of maps, at least 2.
    voxel_size : float or tuple of float, default=1.0
        Size of a voxel along every axis, in the unit of `radius`.
    radius : float
        Radius of the balls; only the part of a ball inside the mask counts.
    snr : float, default=1.0
        Ratio of the standard deviations of the strongest signal and the noise.
    amplitudes : tuple of float, default=(1.0, 0.8, 0.5)
        Strength of the signals relative to `snr`, one per component.
    smoothing : float, default=1.0
        Standard deviation, in voxels, of the Gaussian that smooths the noise; 0 for none.
    dtype : {float64, float32}, default=float64
        Type of the arrays.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the signals and the noise. The places of the balls depend on the mask alone.

    Returns
    -------
    SimulatedCohort
        The maps, and the truth behind them.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.datasets import make_volume_cohort
    >>> mask = np.ones((8, 8, 8), dtype=bool)
    >>> mask[0] = False
    >>> cohort = make_volume_cohort(mask, 20, voxel_size=3.0, radius=6.0, random_state=0)
    >>> cohort.X.shape
    (20, 448)
    """
    _check_signals(n_samples, snr, amplitudes, dtype, radius)
    inside = np.asarray(mask) != 0
    sizes = np.broadcast_to(np.asarray(voxel_size, dtype=np.float64), (inside.ndim,))
    points = np.argwhere(inside) * sizes
    centres = _region_centres(points, REGIONS_PER_COMPONENT * len(amplitudes))
    distances = cdist(points[centres], points)
    box = np.zeros(inside.shape)

    def smooth(values: FloatArray) -> FloatArray:
        box[inside] = values
        return np.asarray(gaussian_filter(box, smoothing)[inside] if smoothing > 0 else values)

    return _simulate(distances, radius, n_samples, snr, amplitudes, smooth, dtype, random_state)


def make_surface_cohort(
    coords: npt.ArrayLike,
    triangles: npt.ArrayLike,
    n_samples: int = 60,
    *,
    mask: npt.ArrayLike | None = None,
    radius: float,
    snr: float = 1.0,
    amplitudes: tuple[float, ...] = DOT_AMPLITUDES,
    smoothing: int = 4,
    dtype: npt.DTypeLike = np.float64,
    random_state: RandomState = None,
) -> SimulatedCohort:
    """Simulate a cohort of maps on the vertices of a mesh; each component consists of two discs.

    To simulate two hemispheres, give them as one mesh: concatenate the vertices, and add the number of
    vertices of the first hemisphere to the triangles of the second.

    Parameters
    ----------
    coords : array-like of shape (n_vertices, 3)
        Positions of the vertices.
    triangles : array-like of int, of shape (n_triangles, 3)
        Indices of the vertices of every triangle.
    n_samples : int, default=60
        Number of maps, at least 2.
    mask : array-like of bool, of shape (n_vertices,), default=None
        Vertices that are features, such as all but the medial wall; ``None`` for all vertices.
    radius : float
        Radius of the discs, measured along the edges of the mesh in the unit of `coords`.
    snr, amplitudes
        As for `make_volume_cohort`.
    smoothing : int, default=4
        Number of smoothing steps; each averages the noise of a vertex with the mean of its neighbours.
    dtype, random_state
        As for `make_volume_cohort`.

    Returns
    -------
    SimulatedCohort
        The features are the vertices inside the mask, in order.

    Examples
    --------
    >>> from spcatv.datasets import make_surface_cohort
    >>> from spcatv.structure import icosphere
    >>> coords, triangles = icosphere(2)
    >>> cohort = make_surface_cohort(coords, triangles, 20, radius=0.4, random_state=0)
    >>> cohort.X.shape, cohort.loadings.shape
    ((20, 162), (3, 162))
    """
    _check_signals(n_samples, snr, amplitudes, dtype, radius)
    places = np.asarray(coords, dtype=np.float64)
    inside = np.ones(len(places), dtype=bool) if mask is None else np.asarray(mask) != 0
    lengths = _edge_lengths(places, np.asarray(triangles))[inside][:, inside]
    centres = _region_centres(places[inside], REGIONS_PER_COMPONENT * len(amplitudes))
    distances = dijkstra(lengths, directed=False, indices=centres)
    neighbours = (lengths > 0).astype(np.float64)
    n_neighbours = np.maximum(neighbours.sum(axis=1), 1)

    def smooth(values: FloatArray) -> FloatArray:
        for _ in range(smoothing):
            values = 0.5 * values + 0.5 * (neighbours @ values) / n_neighbours
        return values

    return _simulate(distances, radius, n_samples, snr, amplitudes, smooth, dtype, random_state)


def _simulate(
    distances: FloatArray,
    radius: float,
    n_samples: int,
    snr: float,
    amplitudes: tuple[float, ...],
    smooth: Callable[[FloatArray], FloatArray],
    dtype: npt.DTypeLike,
    random_state: RandomState,
) -> SimulatedCohort:
    """Draw signals and noise; `distances` are those of every feature to the centres (n_regions, P)."""
    rng = _generator(random_state)
    # a feature within the radius of two centres belongs to the nearer one, so regions do not overlap
    nearest = np.argmin(distances, axis=0)
    reached = distances.min(axis=0) <= radius
    component_of_region = np.arange(len(distances)) // REGIONS_PER_COMPONENT
    components = np.arange(len(amplitudes))[:, None]
    loadings = ((component_of_region[nearest] == components) & reached).astype(np.float64)
    strengths = snr * np.asarray(amplitudes, dtype=np.float64)
    scores = strengths * _standardize(rng.standard_normal((n_samples, len(amplitudes))))
    X = np.empty((n_samples, distances.shape[1]), dtype=dtype)
    for number in range(n_samples):
        X[number] = smooth(np.asarray(rng.standard_normal(distances.shape[1])))
    X /= X.std(dtype=np.float64)
    X += scores @ loadings
    return SimulatedCohort(
        X=X, loadings=loadings.astype(dtype, copy=False), scores=scores.astype(dtype, copy=False)
    )


def _region_centres(points: FloatArray, n_centres: int) -> IntArray:
    """Return the indices of points that are far apart, each in the middle of its nearest points."""
    if len(points) < n_centres:
        raise ValueError(f"{n_centres} regions need at least as many features, got {len(points)}")
    chosen = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    while len(chosen) < n_centres:
        chosen.append(int(np.argmax(cdist(points[chosen], points).min(axis=0))))
    for _ in range(CENTRE_MOVES):
        nearest = np.argmin(cdist(points[chosen], points), axis=0)
        middles = np.stack([points[nearest == region].mean(axis=0) for region in range(n_centres)])
        chosen = np.argmin(cdist(middles, points), axis=1).tolist()
    return np.asarray(chosen)


def _edge_lengths(coords: FloatArray, triangles: IntArray) -> sp.csr_array:
    """Symmetric matrix of the lengths of the edges, shape (n_vertices, n_vertices)."""
    pairs = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    lengths = np.linalg.norm(coords[pairs[:, 0]] - coords[pairs[:, 1]], axis=1)
    one_way = sp.coo_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(len(coords), len(coords)))
    return sp.csr_array(one_way + one_way.T)


def _check_signals(
    n_samples: int, snr: float, amplitudes: tuple[float, ...], dtype: npt.DTypeLike, radius: float = 1.0
) -> None:
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2 to standardise over samples, got {n_samples}")
    if not (np.isfinite(snr) and snr >= 0):
        raise ValueError(f"snr must be a finite number >= 0, got {snr}")
    if np.ndim(amplitudes) != 1 or len(amplitudes) == 0 or not np.isfinite(amplitudes).all():
        raise ValueError(f"amplitudes must be finite numbers, one per component, got {amplitudes!r}")
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}")
    if not radius > 0:
        raise ValueError(f"radius must be above 0, got {radius}")


def _generator(random_state: RandomState) -> np.random.Generator | np.random.RandomState:
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    return np.random.default_rng(random_state)


def _dot_supports(size: int) -> FloatArray:
    """Return the indicators of the three supports, shape (3, size * size)."""
    rows, columns = np.ogrid[:size, :size]
    radius = (size // 7) / 2
    low, middle, high = size // 4, size // 2, 3 * size // 4

    def dot(row: int, column: int) -> BoolArray:
        return np.asarray((rows - row) ** 2 + (columns - column) ** 2 <= radius**2)

    supports = np.stack(
        [dot(low, low) | dot(low, high), dot(high, low) | dot(high, high), dot(middle, middle)]
    )
    return supports.reshape(3, size * size).astype(np.float64)


def _standardize(columns: FloatArray) -> FloatArray:
    """Scale every column to mean 0 and (population) standard deviation 1, in place."""
    columns -= columns.mean(axis=0)
    columns /= np.sqrt(np.einsum("ij,ij->j", columns, columns) / columns.shape[0])
    return columns
