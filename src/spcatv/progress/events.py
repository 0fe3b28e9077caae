"""Events of the work in progress. All numbers count from 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spcatv._util.types import FloatArray


@dataclass(frozen=True)
class FileRead:
    """Image `number` of `total` has been read."""

    number: int
    total: int
    name: str


@dataclass(frozen=True)
class StageStarted:
    """A new stage of the work begins: `total` steps, if their number is known, of the kind `unit`."""

    title: str
    total: int | None = None
    unit: str = "steps"


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
    """Alternation `number` of the current component, or of all components of a joint fit, is done.

    A listener that stops here leaves the component as it is.
    """

    number: int
    objective: float
    relative_gap: float


@dataclass(frozen=True, eq=False)
class ComponentEnded:
    """Component `number` of `n_components` is done; a listener that stops here ends a deflation.

    `components` are the unit loading vectors of all components so far, shape (number, P). A joint fit ends
    all of its components at once: `components` then has shape (n_components, P), and `mixing` is the matrix C
    of their scores ``X V' C``.
    """

    number: int
    n_components: int
    diagnostics: Any  # spcatv.decomposition.ComponentDiagnostics, which imports this package
    components: FloatArray
    mixing: FloatArray | None = None


@dataclass(frozen=True)
class Message:
    """Text for people."""

    text: str


Event = (
    FileRead | StageStarted | StageAdvanced | ComponentStarted | AlternationEnded | ComponentEnded | Message
)
