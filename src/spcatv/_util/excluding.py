"""Which samples a list of names leaves out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from spcatv._util.entities import entities_of, files_of, without_ending
from spcatv._util.naming import some_of

MOST_NAMED = 5


def kept_samples(names: Sequence[str], exclude: Sequence[str]) -> list[int]:
    """The numbers of the samples that stay, in order.

    An excluded name is the name of a sample, a path, the name of a file with or without its ending, or a
    participant (``sub-07`` or ``07``), who may have several samples. A ValueError names what matches nothing,
    or what matches several files.
    """
    gone: set[int] = set()
    for wanted in exclude:
        gone |= _matching(str(wanted), names)
    kept = [number for number in range(len(names)) if number not in gone]
    if not kept:
        raise ValueError("exclude: no image is left")
    return kept


def _matching(wanted: str, names: Sequence[str]) -> set[int]:
    """The samples that a name means, by the first kind of name that any of them has."""
    kinds: dict[str, Callable[[str], set[str]]] = {
        "name": lambda name: {name},
        "path": lambda name: {os.path.abspath(file) for file in files_of(name)},
        "file": lambda name: {os.path.basename(file) for file in files_of(name)},
        "stem": lambda name: {without_ending(os.path.basename(file)) for file in files_of(name)},
        "participant": lambda name: {f"sub-{sub}" for key, sub in entities_of(name).items() if key == "sub"},
    }
    for kind, known in kinds.items():
        looked_for = {"path": os.path.abspath(wanted), "participant": f"sub-{wanted.removeprefix('sub-')}"}
        found = {number for number, name in enumerate(names) if looked_for.get(kind, wanted) in known(name)}
        if len(found) > 1 and kind != "participant":
            several = ", ".join(names[number] for number in sorted(found)[:MOST_NAMED])
            raise ValueError(f"exclude: {wanted} could be any of {several}; give the path")
        if found:
            return found
    if re.search(r"\[\d+\]$", wanted):
        raise ValueError(f"exclude: {wanted}: single volumes cannot be left out, only whole files")
    some = some_of([os.path.basename(name) for name in names])
    raise ValueError(f"exclude: {wanted} is none of the {len(names)} images ({some})")
