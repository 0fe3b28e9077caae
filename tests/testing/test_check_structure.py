"""A check that cannot fail checks nothing: every promise is broken once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
import scipy.sparse as sp

from spcatv.structure import MatrixStructure, as_structure, from_matrix, grid, groups
from spcatv.testing import check_structure


def base():
    return grid((4, 5))


@dataclass(frozen=True, eq=False, repr=False)
class Broken(MatrixStructure):
    @classmethod
    def make(cls):
        good = from_matrix(base().matrix, base().group_ptr)
        return cls(good.data, good.indices, good.indptr, good.group_boundaries, good.feature_count)


class WrongAdjoint(Broken):
    def adjoint(self, alpha):
        return super().adjoint(alpha) * 1.0001


class WrongForward(Broken):
    def forward(self, v):
        return 2 * super().forward(v)

    def adjoint(self, alpha):
        return 2 * super().adjoint(alpha)


class NotFeasible(Broken):
    def project(self, alpha):
        return np.asarray(alpha)


class NotIdempotent(Broken):
    def project(self, alpha):
        return 0.5 * super().project(alpha)


class NotClosest(Broken):
    def project(self, alpha):
        return np.clip(alpha, -0.7, 0.7)


class BoxInsteadOfBall(Broken):
    # feasible and idempotent, but every row is shrunk on its own
    def project(self, alpha):
        point = super().project(alpha)
        return np.where(self.group_norms(alpha)[self._group] > 1, point * np.sign(self._group % 2), point)

    @cached_property
    def _group(self):
        return np.repeat(np.arange(self.n_groups), np.diff(self.group_ptr))


class WrongValue(Broken):
    def value(self, v):
        return 0.9 * super().value(v)


class ShiftedValue(Broken):
    def value(self, v):
        return super().value(v) + 1.0


class BoundTooSmall(Broken):
    def norm_squared(self):
        return 0.99 * super().norm_squared()


class BoundTooLarge(Broken):
    def norm_squared(self):
        return 1.2 * super().norm_squared()


class Writable(Broken):
    @property
    def group_ptr(self):
        return np.array(super().group_ptr)


class ForgetsItself(Broken):
    def __getstate__(self):
        return {**super().__getstate__(), "data": -2 * self.data}


class HasNoHash(Broken):
    def __hash__(self):
        return id(self)


class MissesARow(Broken):
    @property
    def group_ptr(self):
        return super().group_ptr[:-1]


class HasAnEmptyGroup(Broken):
    @property
    def group_ptr(self):
        return np.insert(super().group_ptr, 1, 0)


class WrongWidth(Broken):
    @property
    def n_features(self):
        return self.feature_count + 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongAdjoint, r"not adjoint: <A v, alpha> = .* but <v, A' alpha> = "),
        (WrongForward, "not matrix @ v: off by"),
        (NotFeasible, "not feasible: a group has norm"),
        (NotIdempotent, "not idempotent"),
        (NotClosest, "not the closest point|not idempotent|not feasible"),
        (BoxInsteadOfBall, "not the closest point of K"),
        (WrongValue, "not the sum of the group norms"),
        (ShiftedValue, "not the sum of the group norms"),
        (BoundTooSmall, "too small"),
        (BoundTooLarge, "more than 5 % above"),
        (Writable, "group_ptr can be written to"),
        (ForgetsItself, "does not equal its pickle"),
        (HasNoHash, "different hashes"),
        (MissesARow, "must cover the rows 0 to 31"),
        (HasAnEmptyGroup, "the smallest has 0"),
        (WrongWidth, r"matrix has shape \(31, 20\), but n_rows=31, n_features=21"),
    ],
)
def test_every_broken_promise_is_found(kind, message):
    check_structure(Broken.make())
    with pytest.raises(AssertionError, match=message):
        check_structure(kind.make())


def test_structures_that_can_be_assigned_to_are_found():
    class Loose(type(base())):
        def __setattr__(self, name, value):
            self.__dict__[name] = value

        n_features = None

    loose = Loose.__new__(Loose)
    loose.__dict__.update(base().__getstate__())
    loose.__dict__["n_features"] = 20
    with pytest.raises(AssertionError, match="can be assigned to"):
        check_structure(loose)


@pytest.mark.parametrize(
    "structure",
    [
        as_structure(None, 3),
        grid(1),
        groups([], 4),
        from_matrix(sp.csr_array((0, 1))),
        from_matrix(np.zeros((2, 3))),
    ],
)
def test_structures_without_rows_or_entries_pass(structure):
    check_structure(structure)


def test_any_seed():
    check_structure(base(), random_state=7)
    check_structure(base(), random_state=None)
