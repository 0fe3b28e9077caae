"""Where the alternation starts: singular vectors of X, and of X diffused on the structure.

The problem of a component is bi-convex and has local minima; a start decides which one is found
(docs/method.md section 4.2). Every function returns unit scores, one row per start, best guess first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from spcatv._util.devices import beside, to_host
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, as_data, row_blocks
from spcatv.data.diffusion import DIFFUSED_ENTRIES, binary_unit, diffuse, diffusion_on, step_matrix
from spcatv.data.leading import leading_eigenvectors, singular_scores
from spcatv.data.sketch import CompressedData
from spcatv.decomposition.weights import ROUNDING
from spcatv.structure import Structure

# The heat kernel exp(-t A'A) that X is diffused by, with t in units of 1 / ||A||^2: on an image it
# is a Gaussian of 3 pixels, on a volume one of 2.4 voxels. Places are found by its square, wider by sqrt(2).
DIFFUSION_TIME = 36.0
# The same for the maps that components fitted jointly start from: a Gaussian of about two pixels or voxels.
JOINT_DIFFUSION_TIME = 15.0
# Singular vectors beyond the number of components among which diffusion may choose.
SPARE_DIRECTIONS = 3
# Relative change of the criterion of varimax that ends its iterations.
ROTATION_TOL = 1e-5
# Leading directions of large data in which starts are searched.
DIFFUSED_DIRECTIONS = 40
# Places to start from, for every singular vector of the diffused data.
PLACES_A_START = 2
# Exclude further places where the kernel of a place is above this share of its peak: within two widths.
PLACE_SHARE = 0.135
# Places compared exactly for every one that is kept; the estimate that ranks them is coarse.
PLACES_COMPARED = 4
# Random signs that estimate how much noise the kernel lets through at every feature.
N_PROBES = 128


def diffused_scores(data: CentredData, structure: Structure, n_starts: int) -> FloatArray:
    """Return scores (n, N) to start from, of data diffused on the structure; n <= 3 n_starts.

    ``W = exp(-t A'A / ||A||^2)`` smooths along the structure, so that what is noise from one feature
    to the next weighs less than what neighbours share. The starts are

    * leading left singular vectors of ``X W``: regions that vary together, wherever they are;
    * columns of ``X W^2``, the mean of the data around a place, for the places where it varies most
      beside what independent features would give: single regions, which a singular vector mixes.
    """
    if structure.norm_squared() == 0 or not structure.is_difference.any():
        return singular_scores(data, n_starts)
    if data.gram_pays:
        return _diffused_scores(data, structure, n_starts)
    compressed = data.compressed(max(n_starts, DIFFUSED_DIRECTIONS))
    few = CentredData(as_data(to_host(compressed.rows)), center=False)
    return _diffused_scores(few, structure, n_starts) @ compressed.basis.T


def _diffused_scores(data: CentredData, structure: Structure, n_starts: int) -> FloatArray:
    twice = step_matrix(structure)
    gram, norms, diffused_norms = _diffused_moments(data, twice)
    values, vectors = leading_eigenvectors(gram, n_starts)
    places = _coherent_places(norms, diffused_norms, twice, PLACES_A_START * n_starts)
    local = [scores_of_loading(data, place) for place in places]
    return np.concatenate([vectors[values > 0], *local])


def _diffused_moments(data: CentredData, twice: sp.csr_array) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``(X W)(X W)'``, shape (N, N), and the norms of the columns of X and of ``X W^2``, shape (P,) each."""
    n_samples, n_features = data.shape
    gram = np.empty((n_samples, n_samples))
    squares, diffused_squares = np.zeros(n_features), np.zeros(n_features)
    for samples, block in data.blocks(DIFFUSED_ENTRIES):
        smooth = diffuse(twice, block.T, 2 * DIFFUSION_TIME)
        squares += np.einsum("ij,ij->j", block, block)
        diffused_squares += np.einsum("ij,ij->i", smooth, smooth)
        gram[:, samples] = data.dot_many(smooth.T)
    return 0.5 * (gram + gram.T), np.sqrt(squares), np.sqrt(diffused_squares)


def _coherent_places(
    norms: FloatArray, diffused_norms: FloatArray, twice: sp.csr_array, n_places: int
) -> list[FloatArray]:
    """Return columns of ``W^2`` around the features where X is most coherent, best first; each of shape (P,).

    The coherence at feature j is ``||X w||^2`` for the column ``w = W^2 e_j`` over what it would be, on
    average, if the columns of X were independent: ``sum_k w_k^2 ||X_k||^2``. Without the latter the edges
    of the structure, where the kernel averages over fewer features, would always win.
    """
    expected = _independent_squares(norms, twice)
    left = np.divide(diffused_norms**2, expected, out=np.zeros(len(norms)), where=expected > 0)
    places: list[FloatArray] = []
    coherences: list[float] = []
    while len(places) < PLACES_COMPARED * n_places and left.max(initial=0.0) > 0:
        peak = int(np.argmax(left))
        unit = (np.arange(len(left)) == peak).astype(np.float64)[:, np.newaxis]
        kernel = diffuse(twice, unit, 2 * DIFFUSION_TIME)[:, 0]
        # exact here, and estimated elsewhere
        expected_at_peak = float(kernel**2 @ norms**2)
        if expected_at_peak > 0:
            places.append(kernel)
            coherences.append(float(diffused_norms[peak] ** 2) / expected_at_peak)
        left[kernel > PLACE_SHARE * kernel[peak]] = 0.0
        left[peak] = 0.0
    best = np.argsort(coherences)[::-1][:n_places]
    return [places[index] for index in best]


def _independent_squares(norms: FloatArray, twice: sp.csr_array) -> FloatArray:
    """Estimate of ``sum_k (W^2)_jk^2 norms_k^2`` for every feature j, shape (P,).

    It is the mean square of ``W^2`` times the norms with random signs, and changes slowly along the
    structure, so that a mean over neighbours stands for more signs.
    """
    rng = np.random.default_rng(0)
    total = np.zeros((len(norms), 1))
    for first, last in row_blocks((N_PROBES, len(norms)), DIFFUSED_ENTRIES):
        signs = rng.choice([-1.0, 1.0], size=(len(norms), last - first))
        probes = diffuse(twice, norms[:, None] * signs, 2 * DIFFUSION_TIME)
        total[:, 0] += np.einsum("ij,ij->i", probes, probes)
    return np.maximum(diffuse(twice, total, 0.5 * DIFFUSION_TIME)[:, 0] / N_PROBES, 0.0)


@dataclass(frozen=True, eq=False)
class JointStart:
    """Start of a joint fit."""

    scores: FloatArray  # orthonormal, shape (N, K)
    smooth_maps: FloatArray  # their maps ``X'u``, diffused on the structure, shape (K, P), in any unit
    # length of the map ``X'u / N`` of the weakest leading direction, a spare one; infinite if unknown
    spare_length: float = np.inf

    def upright(self) -> JointStart:
        """Turn the signs so that the larger part of every map is positive."""
        rises = [float(np.sum(row * np.abs(row))) >= 0 for row in self.smooth_maps]
        signs = np.where(rises, 1.0, -1.0)
        maps = beside(signs, self.smooth_maps)[:, None] * self.smooth_maps
        return replace(self, scores=self.scores * signs, smooth_maps=maps)


def given_start(data: CentredData | CompressedData, scores: FloatArray, structure: Structure) -> JointStart:
    """Return the start from given orthonormal scores (N, K)."""
    return JointStart(scores, structure.cached(diffusion_on)(data.maps(scores), JOINT_DIFFUSION_TIME))


def rotated_start(
    data: CentredData | CompressedData,
    leading: FloatArray,
    structure: Structure,
    n_components: int,
    known: FloatArray,
    known_maps: FloatArray,
) -> JointStart:
    """Return orthonormal scores (N, n) from which n <= n_components components are fitted jointly.

    One step of subspace iteration leads from the leading left singular vectors of X (N, q) to those of
    ``X W``, X diffused on the structure. The scores are rotated within their span so that the diffused maps
    ``W X'u`` become as sparse as a rotation can make them (varimax; Kaiser, 1958). They are orthogonal to the
    known scores (N, m), whose maps ``u'X`` are (m, P), and fewer where X has no further dimension.
    """
    if leading.shape[1] == 0:
        return JointStart(leading, known_maps[:0])
    spread = structure.cached(diffusion_on)
    maps = data.maps(leading)
    spare_length = float(np.linalg.norm(maps, axis=1).min()) / len(leading)
    smooth = spread(maps, 2 * JOINT_DIFFUSION_TIME)
    smooth /= np.maximum(np.linalg.norm(smooth, axis=1, keepdims=True), np.finfo(float).tiny)
    scores, back = data.there_and_back_many(smooth)
    largest, inner = float(np.square(scores).sum(axis=0).max()), known.T @ scores
    scores, back = scores - known @ inner, back - beside(inner.T, back) @ known_maps
    unit = binary_unit(scores)
    values, turn = eigh((scores / unit).T @ (scores / unit))
    values *= unit**2
    kept = values > ROUNDING * largest
    turn = turn[:, kept] / np.sqrt(values[kept])
    scores = scores @ turn
    diffused = spread(beside(turn.T, back) @ back, JOINT_DIFFUSION_TIME)
    maps = to_host(diffused)
    maps = maps / binary_unit(maps)
    values, turn = eigh(maps @ maps.T)
    turn = turn[:, ::-1][:, : min(n_components, np.count_nonzero(values > 0))]
    turn = np.asarray(turn @ varimax(turn.T @ maps))
    return JointStart(scores @ turn, beside(turn.T, diffused) @ diffused, spare_length)


def varimax(maps: FloatArray) -> FloatArray:
    """Return the rotation R (K, K) that maximises the variance of the squares of ``R'maps`` (K, P)."""
    rotation, before = np.eye(len(maps)), 0.0
    while True:
        rotated = rotation.T @ maps
        squares = rotated * rotated
        squares -= squares.mean(axis=1, keepdims=True)
        left, values, right = np.linalg.svd(maps @ (rotated * squares).T)
        rotation = left @ right
        if values.sum() <= (1 + ROTATION_TOL) * before:
            return rotation
        before = values.sum()


def random_scores(n_samples: int, n_starts: int, rng: np.random.RandomState) -> FloatArray:
    """Return random unit scores, shape (n_starts, N)."""
    scores = rng.standard_normal((n_starts, n_samples))
    return np.asarray(scores / np.linalg.norm(scores, axis=1, keepdims=True))


def scores_of_loading(data: CentredData, loading: FloatArray) -> FloatArray:
    """Return unit scores of a given loading vector, shape (1, N); none if it explains nothing."""
    scores = data.dot(loading)
    length = np.linalg.norm(scores)
    return scores[None] / length if length > 0 else np.zeros((0, data.shape[0]))
