"""Units of tests: which samples are averaged, and which may be exchanged under the null hypothesis.

Samples of one participant, or volumes of one run, are not independent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from spcatv._util.bids import PAIR, entities_of, files_of
from spcatv._util.types import FloatArray, IntArray

SEED = 0
MOST_PERMUTATIONS = 9999
FEWEST_PERMUTATIONS = 999
MOST_ENTRIES = 100_000_000  # of all permutations together
BLOCK_ENTRIES = 1 << 21  # of the permutations that are drawn at once
# Treat means of units as zero below this multiple of the deviation within units; rounding gives about 1e-7.
ZERO_MEANS = 1e-5
# what is averaged over the samples of a unit, and how the sentence about it begins
SCORES, DEVIATIONS = "scores", "standard deviations of the scores in each run"
AVERAGED = {
    SCORES: "The scores were averaged over the samples",
    DEVIATIONS: f"Mean scores are zero up to rounding. The {DEVIATIONS} were averaged over the runs",
}
UNTESTED = "Components whose mean scores are zero up to rounding are not tested."
# Name of a sample that is a row of an array: such rows are no volumes of a run.
ARRAY_ROW = re.compile(r"\.(npy|npz|csv|tsv)\[\d+\]$")


@dataclass(frozen=True, eq=False)
class Exchange:
    """The units of a test, and which of them may be exchanged."""

    unit: IntArray  # the unit that every sample is averaged to, from 0, shape (n_samples,)
    block: IntArray | None  # the block of every unit, shape (n_units,); None if all may be exchanged
    shift: bool  # whether the units of a block are a series in time, which is shifted in a circle
    sentence: str  # the same in words, with {} for what was averaged

    @property
    def firsts(self) -> IntArray:
        """Return one sample of every unit, shape (n_units,)."""
        return _firsts(self.unit)

    @property
    def blocks(self) -> list[IntArray]:
        """Return the units of every block."""
        if self.block is None:
            return [np.arange(len(self.firsts))]
        return [np.flatnonzero(self.block == number) for number in range(self.block.max() + 1)]

    def averaged(self, scores: FloatArray, names: Sequence[str]) -> tuple[FloatArray, str, str]:
        """Average scores (n_samples, K) over units, or the deviations of centred runs, and say which."""
        means, runs = _means(scores, self.unit), runs_of(names)
        within = np.sqrt(np.square(scores - means[self.unit]).mean(axis=0))
        zero = means.std(axis=0) <= ZERO_MEANS * within
        if not (zero & (within > 0)).any():
            return means, SCORES, self.sentence.format(AVERAGED[SCORES])
        if zero.all() and runs is not None:
            part = _numbered(list(zip(self.unit.tolist(), runs, strict=True)))
            squares = np.square(scores - _means(scores, part)[part])
            deviations = _means(np.sqrt(_means(squares, part)), self.unit[_firsts(part)])
            return deviations, DEVIATIONS, self.sentence.format(AVERAGED[DEVIATIONS])
        return np.where(zero, 0.0, means), SCORES, f"{self.sentence.format(AVERAGED[SCORES])} {UNTESTED}"

    def centred(self, values: FloatArray) -> FloatArray:
        """Subtract the means of the blocks from values of shape (n_units, K)."""
        centred = values.copy()
        for members in self.blocks:
            centred[members] -= values[members].mean(axis=0)
        return centred

    def ranked(self, values: FloatArray) -> FloatArray:
        """Return the ranks of values of shape (n_units, K) within their blocks."""
        ranks = np.empty(values.shape)
        for members in self.blocks:
            ranks[members] = stats.rankdata(values[members], axis=0)
        return ranks

    def permutations(self) -> Iterator[IntArray]:
        """Yield random orders of the units in tables of shape (n, n_units), one order per row."""
        rng, n_units = np.random.default_rng(SEED), len(self.firsts)
        n_left = int(np.clip(MOST_ENTRIES // n_units, FEWEST_PERMUTATIONS, MOST_PERMUTATIONS))
        height = max(1, BLOCK_ENTRIES // n_units)
        while n_left > 0:
            n_orders = min(height, n_left)
            orders = np.empty((n_orders, n_units), dtype=np.int64)
            for members in self.blocks:
                if self.shift:
                    offset = rng.integers(len(members), size=(n_orders, 1))
                    orders[:, members] = members[(np.arange(len(members)) + offset) % len(members)]
                else:
                    orders[:, members] = rng.permuted(np.tile(members, (n_orders, 1)), axis=1)
            yield orders
            n_left -= n_orders


def runs_of(names: Sequence[str]) -> list[str] | None:
    """Return the file of every sample if some image file holds several volumes (``file[k]``), else None."""
    if any(ARRAY_ROW.search(name) for name in names):
        return None
    files = [PAIR.join(files_of(name)) for name in names]
    return files if len(set(files)) < len(files) else None


def participants_of(names: Sequence[str]) -> list[str] | None:
    """Return the participant of every sample by its file name; None if some name has none, or all differ."""
    people = [person for name in names if (person := entities_of(name).get("sub"))]
    return people if len(people) == len(names) and len(set(people)) < len(people) else None


def exchange_of(names: Sequence[str], values: Sequence[Any], *, labels: bool) -> Exchange:
    """Choose units and blocks for a test of one value per sample, by the table of docs/report.md."""
    people, runs = participants_of(names), runs_of(names)
    samples = np.arange(len(names))
    for noun, members in (("participant", people), ("run", runs)):
        if members is None or (labels and noun == "run" and people):
            continue
        if len(set(zip(members, values, strict=True))) > len(set(members)):  # their values differ
            continue
        unit = _numbered(members)
        block = None if noun == "participant" or people is None else _numbered(people)[_firsts(unit)]
        within = "" if block is None else ", and exchanged within every participant"
        return Exchange(unit, block, False, f"{{}} of every {noun} ({unit.max() + 1} {noun}s){within}.")
    if labels and (members := people or runs):
        noun = "participant" if people else "run"
        unit = _numbered(list(zip(members, map(str, values), strict=True)))
        text = f"{{}} of every {noun} and group, and the groups were compared within {noun}s."
        return Exchange(unit, _numbered(members)[_firsts(unit)], False, text)
    if runs is not None:
        text = "Correlations were computed within runs, and permutations shifted every run in a circle."
        return Exchange(samples, _numbered(runs), True, text)
    if people is not None:
        text = "Correlations were computed within participants, and samples were exchanged within them."
        return Exchange(samples, _numbered(people), False, text)
    return Exchange(samples, None, False, "")


def _numbered(labels: Sequence[Any]) -> IntArray:
    """Replace labels by numbers from 0, in the order of their first appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _firsts(numbers: IntArray) -> IntArray:
    return np.unique(numbers, return_index=True)[1]


def _means(table: FloatArray, number: IntArray) -> FloatArray:
    """Average the rows with the same number; one row per number from 0 on."""
    sums = np.stack([np.bincount(number, weights=column) for column in table.T], axis=1)
    return sums / np.bincount(number)[:, None]
