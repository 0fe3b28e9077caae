"""Verdicts of random halves on components, and their words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from spcatv.model import recordable

CONFIRMED, NOT_CONFIRMED = "confirmed", "not confirmed"
CERTAIN, UNCERTAIN = "certain", "uncertain"
# Least Dice index, corrected for chance, of supports with the same outline.
SAME_OUTLINE = 0.6
# Least absolute cosine of loadings with the same pattern.
SAME_PATTERN = 0.75
WHAT_HELPS = (
    'What may help: fewer components, another sparsity, or more samples (page "Nothing is confirmed: what '
    'now?" of the documentation).'
)


@recordable
@dataclass(frozen=True)
class Reproducibility:
    """Agreement of random halves about one component.

    Attributes
    ----------
    component : int
        Number of the component, from 0.
    rank : int
        1 for the component with the highest `dice`.
    dice : float
        Mean over splits of the Dice index of both halves' supports, corrected for chance.
    cosine : float
        Mean over splits of the absolute cosine of both halves' loadings.
    n_confirmed : int
        Splits whose halves both show the pattern: Dice index at least 0.6, or absolute cosine at least 0.75.
    n_splits : int
        Splits that were fitted.
    n_half : int
        Samples in a half.
    beyond_noise : bool, default=True
        False if halves of noise as smooth as these data would agree as well: there are fewer than 10
        effective independent features, and the component does not stand out (`count_components`).

    Examples
    --------
    >>> from spcatv.stability import Reproducibility
    >>> first = Reproducibility(0, rank=1, dice=0.5, cosine=0.9, n_confirmed=9, n_splits=10, n_half=30)
    >>> first.verdict, first.outline
    ('confirmed', 'uncertain')
    >>> first.sentence
    'Pattern confirmed (9 of 10 splits), outline uncertain.'
    """

    component: int
    rank: int
    dice: float
    cosine: float
    n_confirmed: int
    n_splits: int
    n_half: int
    beyond_noise: bool = True

    @property
    def verdict(self) -> str:
        """Verdict on the pattern.

        It is "confirmed" if `dice` is at least 0.6 or `cosine` at least 0.75, and `beyond_noise`, and
        otherwise "not confirmed".
        """
        agree = self.dice >= SAME_OUTLINE or self.cosine >= SAME_PATTERN
        return CONFIRMED if agree and self.beyond_noise else NOT_CONFIRMED

    @property
    def outline(self) -> str:
        """Verdict on the support: "certain" if confirmed with a `dice` of at least 0.6, else "uncertain"."""
        return CERTAIN if self.verdict == CONFIRMED and self.dice >= SAME_OUTLINE else UNCERTAIN

    @property
    def sentence(self) -> str:
        """Both verdicts and the count of splits, in one sentence."""
        if self.verdict == CONFIRMED:
            return (
                f"Pattern confirmed ({self.n_confirmed} of {self.n_splits} splits), outline {self.outline}."
            )
        if not self.beyond_noise:
            return "Not confirmed: halves of noise as smooth as these data agree as well."
        splits = f"{self.n_confirmed} of {self.n_splits} splits agree"
        return f"Not confirmed by halves of {self.n_half} samples ({splits})."


def verdict_lines(records: Iterable[Reproducibility]) -> list[str]:
    """Describe the verdicts, one line per component or per run of components that are not confirmed."""
    lines, missed = [], False
    for (verdict, _), run in groupby(records, key=lambda record: (record.verdict, record.beyond_noise)):
        own = list(run)
        if verdict == CONFIRMED or len(own) == 1:
            lines += [f"Component {record.component + 1}: {_lower(record.sentence)}" for record in own]
        else:
            # describe the record with most agreement
            most = max(own, key=lambda record: record.n_confirmed)
            sentence = _lower(most.sentence).replace("(", "(at most " if most.n_confirmed else "(")
            join = "and" if len(own) == 2 else "to"
            lines.append(f"Components {own[0].component + 1} {join} {own[-1].component + 1}: {sentence}")
        missed |= verdict == NOT_CONFIRMED
    return [*lines, WHAT_HELPS] if missed else lines


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
