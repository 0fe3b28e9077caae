"""Components of an interrupted fit, restored from a checkpoint with the state of solver and generator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from spcatv.data import CentredData
from spcatv.decomposition.component import Component
from spcatv.solvers.pdhg import WarmSolver

T = TypeVar("T")
# Returns the component that is known by a name, or else makes it.
Recall = Callable[[str, Callable[[], Component]], Component]


def make_anew(name: str, make: Callable[[], Component]) -> Component:
    """Recall nothing."""
    return make()


class Journal(Protocol):
    """Keeps results by their names (`spcatv.model.checkpoint.Stage`)."""

    def recall(self, name: str, make: Callable[[], T], /) -> T:
        """Return the result of that name, or else a new one, which is kept."""

    def forget(self, prefix: str, /) -> None:
        """Drop the results whose names begin so."""


class RecalledComponent:
    """One component of a fit, and the starts compared for it; each is made only if no journal knows it.

    What comes after a component depends on the step sizes of the solver and on the random generator, too:
    they are kept and restored with it, so that the fit goes on to the same bits.
    """

    def __init__(
        self,
        number: int,
        journal: Journal | None,
        data: CentredData,
        solver: WarmSolver,
        rng: np.random.RandomState,
    ) -> None:
        self._name, self._journal = f"component-{number + 1}", journal
        self._data, self._solver, self._rng = data, solver, rng

    def __call__(self, make: Callable[[], Component]) -> tuple[Component, float]:
        """Return the component, and the seconds that it took, in this process or in an earlier one."""
        found = self._recalled(self._name, make)
        if self._journal is not None:
            self._journal.forget(f"{self._name}-")
        return found

    def start(self, name: str, make: Callable[[], Component]) -> Component:
        """Return the component that a start led to."""
        return self._recalled(f"{self._name}-{name}", make)[0]

    def _recalled(self, name: str, make: Callable[[], Component]) -> tuple[Component, float]:
        made: list[Component] = []

        def timed() -> tuple[Component, float]:
            started = time.perf_counter()
            made.append(make())
            return made[0], time.perf_counter() - started

        if self._journal is None:
            return timed()
        result = self._journal.recall(name, lambda: (*timed(), self._solver.steps(), self._rng.get_state()))
        component, seconds, steps, state = result
        if not made:
            self._solver.set_steps(steps)
            self._rng.set_state(state)
            v, back, dual = map(self._data.vectors, (component.v, component.back, component.dual))
            component = replace(component, v=v, back=back, dual=dual)
        return component, seconds
