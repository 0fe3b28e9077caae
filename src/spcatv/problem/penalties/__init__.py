"""The structured penalties, one per file, and the table of their classes."""

from __future__ import annotations

from typing import Any

from spcatv._util import parameters
from spcatv.problem.penalties.graphnet import GraphNet
from spcatv.problem.penalties.huber import HuberTV
from spcatv.problem.penalties.total_variation import TotalVariation, UnitBallPenalty
from spcatv.structure.penalty import StructuredPenalty

__all__ = [
    "PENALTIES",
    "PENALTY_CLASSES",
    "GraphNet",
    "HuberTV",
    "Penalty",
    "StructuredPenalty",
    "TotalVariation",
    "UnitBallPenalty",
    "as_penalty",
]

# What a parameter `penalty` takes: a name from the table below, or a penalty of one's own.
Penalty = str | StructuredPenalty

# Dataclasses whose fields are numbers, by name: penalties that a model folder can keep.
PENALTY_CLASSES: dict[str, type[Any]] = {
    penalty.__name__: penalty for penalty in (TotalVariation, GraphNet, HuberTV)
}
_BY_NAME: dict[str, StructuredPenalty] = {
    name: PENALTY_CLASSES[kind]() for name, kind in parameters.PENALTIES.items()
}
PENALTIES: tuple[str, ...] = tuple(_BY_NAME)


def as_penalty(penalty: Penalty) -> StructuredPenalty:
    """Return the penalty of a name, or the penalty itself.

    Parameters
    ----------
    penalty : {"tv", "graphnet"} or StructuredPenalty
        A name, or a penalty.

    Returns
    -------
    StructuredPenalty
        The penalty.

    Examples
    --------
    >>> from spcatv.problem import HuberTV, as_penalty
    >>> as_penalty("tv"), as_penalty(HuberTV(delta=0.1))
    (TotalVariation(), HuberTV(delta=0.1))
    """
    if isinstance(penalty, StructuredPenalty):
        return penalty
    if not (isinstance(penalty, str) and penalty in _BY_NAME):
        raise ValueError(
            f"unknown penalty {penalty!r}; choose one of {', '.join(PENALTIES)}, or give a StructuredPenalty"
        )
    return _BY_NAME[penalty]
