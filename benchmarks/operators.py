"""Loading solvers of this package and operators of others, each as ``make(...) -> job(effort)``.

Other packages solve proximal problems. With ``z = y / 2``

    F(v) = 1/2 ||v - y||^2 + 1/2 ||v||^2 + c s(v) + k ||v||_1
         = 2 ( 1/2 ||v - z||^2 + c/2 s(v) + k/2 ||v||_1 ) + constant

so the point z and the weights c/2 and k/2 pose the same problem. On a full box nilearn's and
scikit-image's total variation is ours: the norm of the forward differences, those that leave the box
being zero; the tests of this folder check that they agree on the minimiser.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from spcatv.problem import LoadingProblem

Answer = dict[str, Any]
Job = Callable[[float], Answer]


def make_own(problem: LoadingProblem, method: str, options: dict[str, Any]) -> Job:
    """Make a job of a solver of this package; the effort is the relative gap to reach."""
    from spcatv.solvers import solve

    def job(tol: float) -> Answer:
        started = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):  # the score shows a gap that is missed
            answer = solve(problem, method, tol=tol, **options)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "n_iter": answer.n_iter, "v": answer.v, "alpha": answer.alpha}

    job(1e-3)  # loads the kernels, and lets the structure compute what it keeps
    return job


def make_nilearn(problem: LoadingProblem, shape: tuple[int, ...]) -> Job:
    """Nilearn's TV-l1 operator on a full box; the effort is the number of iterations.

    Its penalty is ``weight ( (1 - l1_ratio) TV + l1_ratio ||.||_1 )``.
    """
    from nilearn.decoding._proximal_operators import prox_tvl1

    image = 0.5 * problem.y.reshape(shape)
    both = problem.tv + problem.l1

    def job(n_iter: float) -> Answer:
        started = time.perf_counter()
        # a tolerance that is never met: only the number of iterations stops it
        v, _ = prox_tvl1(
            image,
            l1_ratio=problem.l1 / both,
            weight=0.5 * both,
            dgap_tol=-np.inf,
            max_iter=int(n_iter),
        )
        return {"seconds": time.perf_counter() - started, "n_iter": int(n_iter), "v": v.ravel()}

    job(2)
    return job


def make_chambolle(problem: LoadingProblem, shape: tuple[int, ...]) -> Job:
    """scikit-image's Chambolle iteration on a full box without l1; the effort is the number of iterations."""
    from skimage.restoration import denoise_tv_chambolle

    if problem.l1 > 0:
        raise ValueError("Chambolle's operator knows no l1 norm: pose a problem without it")
    image = 0.5 * problem.y.reshape(shape)

    def job(n_iter: float) -> Answer:
        started = time.perf_counter()
        v = denoise_tv_chambolle(image, weight=0.5 * problem.tv, eps=0.0, max_num_iter=int(n_iter))
        return {"seconds": time.perf_counter() - started, "n_iter": int(n_iter), "v": v.ravel()}

    job(2)
    return job


def make_authors(problem: LoadingProblem, mask: np.ndarray) -> Job:
    """Make a job of the authors' CONESTA on the same problem; the effort is its relative precision.

    Their function takes X, u and the weights; a single row X = y and u = 1 pose our problem.
    """
    from parsimony.algorithms.proximal import CONESTA
    from parsimony.decomposition.pca_tv import RightSingularL1L2SmoothedTV_CONESTA
    from parsimony.functions.nesterov.tv import linear_operator_from_mask

    operator = linear_operator_from_mask(mask)
    # its own search for this number fails with recent SciPy, and is not timed
    operator.singular_values = [problem.structure.norm_squared()]
    scale = problem.scale()

    def job(tol: float) -> Answer:
        function = RightSingularL1L2SmoothedTV_CONESTA(
            problem.y[None, :], np.ones((1, 1)), problem.l1, 1.0, problem.tv, Atv=operator
        )
        started = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):
            algorithm = CONESTA(eps=tol * scale, max_iter=1_000_000)
            v = algorithm.run(function, np.zeros((problem.y.size, 1)))
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "n_iter": algorithm.num_iter, "v": v[:, 0]}

    return job
