"""Whether a component may be interpreted: a verdict in words, from how stable it is in other samples.

The verdict never follows from the duality gap. The gap says how exactly a problem was solved, not whether its
solution means anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spcatv.metrics import threshold_loadings
from spcatv.report import words
from spcatv.report.material import Material
from spcatv.stability.halves import AGREEMENT, FOUND_AGAIN, ONE_OF_EQUALS

# levels of a verdict, which are also its names in the style sheet
GOOD, UNSURE, BAD, UNKNOWN = "good", "unsure", "bad", "unknown"
MARKS = {GOOD: "✓", UNSURE: "?", BAD: "✗", UNKNOWN: "–"}
# share of resamples that must show a component
MOST, HALF = 0.9, 0.5


@dataclass(frozen=True)
class Verdict:
    """A verdict in words, and its level."""

    text: str
    level: str

    @property
    def mark(self) -> str:
        """A sign beside the text: colour is never the only cue."""
        return MARKS[self.level]


def verdict_of(material: Material, k: int) -> Verdict:
    """The verdict on component `k`, from 0: by random halves, otherwise by resamples, otherwise none."""
    if material.model.diagnostics_[k].is_dead:
        return Verdict("Dead: there is nothing to interpret.", BAD)
    if material.halves is not None:
        half = material.halves[k]
        levels = {FOUND_AGAIN: GOOD, ONE_OF_EQUALS: UNSURE}
        return Verdict(half.sentence, levels.get(half.verdict, BAD))
    if material.stability is not None:
        return _by_resamples(material, k)
    return Verdict("Stability not checked.", UNKNOWN)


def _by_resamples(material: Material, k: int) -> Verdict:
    """Count the resampled fits that show the component.

    A fit shows it if the Dice index of the supports, less what is due to chance, is at least `AGREEMENT`. By
    chance, two supports that hold a share E of the features have the Dice index E.
    """
    assert material.stability is not None
    dice = material.stability.dice[:, k]
    chance = float(np.mean(threshold_loadings(material.model.components_[k]) != 0))
    found = int((dice - chance >= AGREEMENT * (1 - chance)).sum()) if chance < 1 else 0
    share, counted = found / len(dice), f"{found} of {len(dice)} resamples"
    if share >= MOST:
        return Verdict(f"Found again in {counted}.", GOOD)
    if share >= HALF:
        return Verdict(f"Found again in only {counted}: interpret with care.", UNSURE)
    return Verdict(f"Not reproducible (found again in {counted}): do not interpret.", BAD)


def together(verdicts: tuple[Verdict, ...]) -> str:
    """All verdicts in a few sentences, for the top of the page."""
    if all(verdict.level == UNKNOWN for verdict in verdicts):
        return "Whether other samples would show these components was not checked."
    numbers = {
        level: [k for k, verdict in enumerate(verdicts, start=1) if verdict.level == level] for level in MARKS
    }
    sentences = []
    if good := numbers[GOOD]:
        sentences.append(f"{_components(good)} {'was' if len(good) == 1 else 'were'} found again.")
    if unsure := numbers[UNSURE]:
        sentences.append(f"{_components(unsure)} {'needs' if len(unsure) == 1 else 'need'} care.")
    if bad := numbers[BAD]:
        sentences.append(f"Do not interpret {_components(bad).lower()}.")
    return " ".join(sentences)


def _components(numbers: list[int]) -> str:
    return f"{'Component' if len(numbers) == 1 else 'Components'} {words.ranges(numbers)}"


def how_to_check(material: Material) -> str:
    """The command, or the code, that checks the stability of a model; empty if it was checked."""
    if material.halves is not None or material.stability is not None:
        return ""
    if material.config is not None:
        return material.repeat.replace(" --output", " --n-splits 10 --output")
    return (
        "from spcatv.stability import split_halves\n"
        "generate_report(model, data=X, halves=split_halves(model, X))"
    )
