"""What can be heard while work goes on. All numbers count from 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from spcatv._util.types import FloatArray


class Diagnostics(Protocol):
    """The figures of a fitted component that listeners show (`spcatv.decomposition.ComponentDiagnostics`)."""

    @property
    def objective(self) -> float:
        """Penalised objective."""

    @property
    def relative_gap(self) -> float:
        """Certified duality gap, relative to the scale of the loading problem."""

    @property
    def n_alternations(self) -> int:
        """Alternations done."""

    @property
    def converged(self) -> bool:
        """Whether the gap is within the tolerance."""

    @property
    def is_dead(self) -> bool:
        """Whether the loading is zero."""

    @property
    def sparsity(self) -> float:
        """Share of the loadings that are exactly zero."""

    @property
    def seconds(self) -> float:
        """Wall-clock time."""

    def global_remark(self, number: int) -> str:
        """A sentence if component `number` is global, else an empty string."""


@dataclass(frozen=True)
class FileRead:
    """Image `number` of `total` has been read."""

    number: int
    total: int
    name: str


@dataclass(frozen=True)
class StageStarted:
    """A new stage of the work begins: `total` steps, if their number is known, of the kind `unit`.

    Workers do `at_once` steps at the same time, which does not change what is done.
    """

    title: str
    total: int | None = None
    unit: str = "steps"
    at_once: int = field(default=1, compare=False)


@dataclass(frozen=True)
class StageAdvanced:
    """One more step of the current stage is done."""

    note: str


@dataclass(frozen=True)
class ComponentStarted:
    """Component `number` of `n_components` begins; it ends at the relative gap `tol`."""

    number: int
    n_components: int
    tol: float


@dataclass(frozen=True)
class AlternationEnded:
    """Alternation `number` of the current component is done. Stopping here leaves the component as it is.

    In a joint fit, of all components.
    """

    number: int
    objective: float
    relative_gap: float


@dataclass(frozen=True, eq=False)
class ComponentEnded:
    """Component `number` of `n_components` is done. Stopping here ends a deflation with those so far.

    `components` are the unit loading vectors of all components so far, shape (number, P). A joint fit ends
    all of its components at once: they are those of all components, shape (n_components, P), and `mixing` is
    the matrix C of their scores ``X V' C``.
    """

    number: int
    n_components: int
    diagnostics: Diagnostics
    components: FloatArray
    mixing: FloatArray | None = None


@dataclass(frozen=True)
class Message:
    """Text for people."""

    text: str


Event = (
    FileRead | StageStarted | StageAdvanced | ComponentStarted | AlternationEnded | ComponentEnded | Message
)
