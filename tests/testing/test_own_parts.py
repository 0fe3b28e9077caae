"""Parts of one's own, as docs/extending.md shows them: the page includes the code between the marks."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from spcatv import SPCATV
from spcatv.data import BlockedData, row_blocks
from spcatv.solvers import Solution
from spcatv.solvers.api import Monitor
from spcatv.structure import Structure
from spcatv.testing import check_data, check_solver, check_structure

# structure: begin


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Structure):
    """Features in a tree: each is compared with its parent."""

    parents: tuple[int, ...]  # of every feature; -1 for the root

    @property
    def n_features(self):
        return len(self.parents)

    def _build(self):
        children = np.flatnonzero(np.array(self.parents) >= 0)
        rows = np.arange(len(children))
        ends = np.concatenate([children, np.array(self.parents)[children]])
        values = np.repeat([1.0, -1.0], len(children))
        shape = (len(children), self.n_features)
        matrix = sp.csr_array((values, (np.tile(rows, 2), ends)), shape=shape)
        return matrix, np.arange(len(children) + 1)  # every difference is a group of its own


def tree(parents):
    """Total variation on a tree: the sum of absolute differences between a feature and its parent."""
    parents = tuple(map(int, parents))
    for child, parent in enumerate(parents):
        if not -1 <= parent < child:
            raise ValueError(f"feature {child} has the parent {parent}; parents come before their children")
    return Tree(parents)


def test_the_tree():
    rng = np.random.default_rng(0)
    for size in (2, 3, 20):
        check_structure(tree([-1, *(rng.integers(child) for child in range(1, size))]))
    assert tree([-1, 0, 0, 1]).value([1, 3, 0, 7]) == 2 + 1 + 4


# structure: end


def test_the_tree_refuses_children_before_their_parents():
    with pytest.raises(ValueError, match="feature 1 has the parent 2"):
        tree([-1, 2, 0])


# solver: begin


def plain_dual_ascent(problem, *, tol=1e-6, max_iter=100_000, v0=None, alpha0=None) -> Solution:
    """Gradient steps on the dual, each followed by a projection: slow, and right."""
    monitor = Monitor(problem, "plain dual ascent", tol)
    alpha = problem.feasible(np.zeros(problem.structure.n_rows) if alpha0 is None else alpha0)
    step = 2.0 / (problem.tv**2 * problem.structure.norm_squared()) if problem.has_structure else 0.0
    for iteration in range(max_iter):
        v = problem.minimizer(alpha)  # the best v for this dual variable
        if iteration % 10 == 0:
            monitor.look(iteration, v, alpha)  # asks the problem for the exact gap
            if monitor.converged():
                break
        slope = problem.tv * problem.structure.forward(v)
        alpha = problem.structured_penalty.dual_step(
            problem.structure, alpha + step * slope, step * problem.tv
        )
    return monitor.finish(n_iter=iteration)


def test_the_solver():
    check_solver(plain_dual_ascent)


# solver: end


# data: begin


class Parts(BlockedData):
    """Samples in several arrays, such as one per site, which are never put together."""

    def __init__(self, parts):
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])
        self.samples = np.arange(self.ends[-1])
        self.shape = len(self.samples), parts[0].shape[1]
        self.dtype = parts[0].dtype

    def blocks(self, entries=1_000_000):
        for first, last in row_blocks(self.shape, entries):
            homes = np.searchsorted(self.ends, self.samples[first:last], side="right")
            rows = self.samples[first:last] - self.ends[homes]  # counted from the end of their part
            pairs = zip(homes, rows, strict=True)
            yield slice(first, last), np.array([self.parts[home][row] for home, row in pairs], dtype=float)


def test_the_parts():
    check_data(lambda X: Parts(np.array_split(X, 3)))


# data: end


def test_the_parts_give_the_fit_of_the_whole():
    X = np.random.default_rng(2).standard_normal((12, 20))
    X[:, 3:9] += 3 * np.random.default_rng(3).standard_normal((12, 1))
    in_parts = SPCATV(1, structure=(4, 5)).fit(Parts([X[:5], X[5:]]))
    np.testing.assert_allclose(
        in_parts.components_, SPCATV(1, structure=(4, 5)).fit(X).components_, atol=1e-10
    )
