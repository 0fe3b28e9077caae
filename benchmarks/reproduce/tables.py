"""Tables of the study on real data: reproducibility, errors, regions, zeros, and tests between methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce import nino
from benchmarks.reproduce.comparison import Scores, compare, difference_text
from benchmarks.reproduce.methods import N_COMPONENTS, PEER_SHARE, ZEROS_TOL, matched_methods
from benchmarks.reproduce.real import (
    N_SUBSETS,
    SHARES,
    Study,
    default_study,
    fit_subset,
    fit_whole,
    methods_and_shares,
    open_data,
    store_of,
    study,
    sweep,
)
from benchmarks.reproduce.realdata import DATA, QUICK_DATA, RealData, all_rows
from benchmarks.reproduce.store import Record, Store, run_all
from benchmarks.tables import each, markdown
from spcatv.metrics import dice, match_components, pairwise_dice
from spcatv.stability.halves import SplitHalves, agreement

ABOUT = (
    "Three components. Five shuffled folds and ten random splits into halves, columns standardised on "
    "the rows that are fitted. SPCA-TV (smoothness 1) and ElasticNet PCA (smoothness 0) have the "
    "share of zeros in each component. Sparse PCA and DictLearning have one strength for all "
    "components: it is searched on the rows that are fitted until all components together have that "
    f"share (±{ZEROS_TOL:.0%}, or the closest found), at {PEER_SHARE:.0%} alone. Errors are Frobenius norms "
    "of held-out folds. "
    "Dice indices are those of supports cut to 99 % of the norm, of pairs of folds (in brackets: of the "
    "supports as they are) and of the two halves of a split, as they come and without chance. The cosine "
    "is that of halves. Regions are connected pieces of a support. Verdicts are those of "
    "`spcatv.stability.split_halves`. Seconds are those of a fit to a fold, with the search."
)
HEADER = (
    "method", "error", "Dice, folds", "by component", "Dice, halves", "without chance", "cosine",
    "verdict by component", "zeros", "regions by component", "largest gap", "seconds",
)  # fmt: skip
# Share of the norm that makes a support, as in the package.
NORM = 0.99
# What the study is to show; the error may exceed that of ElasticNet PCA by these shares.
LARGEST_EXCESS = {"vbm": 0.016}
LEAST_DICE = {"fmri": 0.60}
OTHERWISE_LEAST_DICE = 0.75


def real_report(
    output: Path,
    names: Sequence[str] | None,
    *,
    jobs: int,
    quick: bool = False,
    say: Callable[[str], None] = print,
) -> str:
    """Run the fits that are missing on every data set that is there, and report in Markdown.

    Parameters
    ----------
    output : Path
        Folder of the results of all studies.
    names : sequence of str or None
        Data sets; None for all.
    jobs : int
        Processes.
    quick : bool
        Tiny simulated data.
    say : callable
        Receives progress.

    Returns
    -------
    str
    """
    known = QUICK_DATA if quick else DATA
    unknown = set(names or ()) - set(known)
    if unknown:
        raise SystemExit(f"unknown data {', '.join(sorted(unknown))}; choose among {', '.join(known)}")
    left_out, present = [], {}
    for name in names or known:
        try:
            present[name] = open_data(name, quick)
        except FileNotFoundError as missing:
            left_out.append(f"## {name}\n\nLeft out: {missing.filename} is not there.")
            say(f"{name} is left out: {missing.filename} is not there")
    work = [(output, name, *method) for name in present for method in methods_and_shares()]
    run_all(fit_whole, [(*one, quick) for one in work], jobs=jobs, say=say)
    run_all(fit_subset, [(*one, n, quick) for one in work for n in range(N_SUBSETS)], jobs=jobs, say=say)
    studies = {
        name: {zeros: _studies(store_of(output, name, data), data, zeros) for zeros in SHARES}
        for name, data in present.items()
    }
    parts = ["# Real data", ABOUT, "## At a glance", _glance(studies)]
    for name, data in present.items():
        parts.append(_section(store_of(output, name, data), name, data, studies[name]))
    return "\n\n".join(parts + left_out)


def _studies(store: Store, data: RealData, zeros: float) -> dict[str, Study]:
    """All methods by their keys; SPCA-TV is the last."""
    return {method.key: study(store, data, method) for method in matched_methods(zeros)}


def _glance(studies: Mapping[str, Mapping[float, Mapping[str, Study]]]) -> str:
    """Every data set and share of zeros: Dice over folds of all methods, and the errors of two of them."""
    rows = []
    keys = [method.key for method in matched_methods(PEER_SHARE)]
    for name, by_share in studies.items():
        for zeros, found in by_share.items():
            means = {key: _fold_dice(one).mean() for key, one in found.items()}
            errors = {key: _errors(one).mean() for key, one in found.items()}
            excess = errors["spca-tv"] / errors["elastic-net"] - 1
            rows.append(
                [
                    name,
                    f"{zeros:.0%}",
                    *(f"{means[key]:.3f}" if key in means else None for key in keys),
                    _yes(means["spca-tv"] > means["elastic-net"]),
                    _yes(means["spca-tv"] >= max(means.values())),
                    f"{excess:+.1%}",
                    _yes(excess <= LARGEST_EXCESS.get(name, 0.0)),
                ]
            )
    labels = [f"Dice, {method.label}" for method in matched_methods(PEER_SHARE)]
    header = [
        "data",
        "zeros",
        *labels,
        "above ElasticNet",
        "above all",
        "error against ElasticNet",
        "at most",
    ]
    return markdown(header, rows)


def _section(store: Store, name: str, data: RealData, studies: Mapping[float, Mapping[str, Study]]) -> str:
    parts = [f"## {name}: {data.title}, {data.X.shape[0]} x {data.X.shape[1]:,}"]
    for zeros, found in studies.items():
        parts += [
            f"### {zeros:.0%} zeros",
            markdown(HEADER, [_row(one) for one in found.values()]),
            _tests(found),
        ]
    if name == "sst":
        X, _ = all_rows(len(data.X)).standardised(data.X)
        parts.append(nino.report({one.method.label: one.whole for one in studies[SHARES[0]].values()}, X))
    default = default_study(store, data)
    mean = _fold_dice(default).mean()
    reached = min(min(record.values["sparsity"]) for record in [default.whole, *default.folds])
    least = LEAST_DICE.get(name, OTHERWISE_LEAST_DICE)
    return "\n\n".join(
        [
            *parts,
            "### Defaults: `SPCATV(3, structure=structure).fit(X)`",
            markdown(HEADER, [_row(default)]),
            f"Every component at least half zero: {_yes(reached >= 0.5)} (at least {reached:.1%}). Dice "
            f"index over folds at least {least}: {_yes(mean >= least)}.",
            "### Zeros asked for and reached, SPCA-TV of all rows",
            _sweep_table(sweep(store, data)),
        ]
    )


def _sweep_table(found: Mapping[float, Record]) -> str:
    rows = []
    for zeros, record in found.items():
        off = np.abs(np.array(record.values["sparsity"]) - zeros)
        jumps = [jump or 0.0 for jump in record.values["notes"]["jump"]]
        within = off <= ZEROS_TOL
        rows.append(
            [
                f"{zeros:.0%}",
                each(record.values["sparsity"], ".1%"),
                each(jumps, ".1%"),
                _smoothness(record.values["notes"]["smoothness"]),
                "yes" if within.all() else "a plateau" if (within | (off <= jumps)).all() else "no",
                f"{max(record.values['notes']['relative_gap']):.0e}",
            ]
        )
    header = ["asked for", "reached by component", "jump there", "smoothness", "within 1 %", "largest gap"]
    return markdown(header, rows)


def _smoothness(values: Sequence[float | None]) -> str | None:
    return None if None in values else each(values, ".2g")


def _tests(found: Mapping[str, Study]) -> str:
    scores = {one.method.label: _scores(one) for one in found.values()}
    ours = found["spca-tv"].method.label
    rows = []
    for label, other in scores.items():
        if label != ours:
            result = compare(scores[ours], other)
            rows.append([label, difference_text(result.error, 2), difference_text(result.dice)])
    return markdown([f"{ours} against", "error, paired t-test", "Dice over folds, sign flips"], rows)


def _scores(one: Study) -> Scores:
    return Scores(one.method.label, errors=_errors(one), dice=_fold_dice(one))


def _errors(one: Study) -> np.ndarray:
    return np.array([record.values["error"] for record in one.folds])


def _fold_dice(one: Study, norm_fraction: float | None = NORM) -> np.ndarray:
    """Dice indices of pairs of folds, shape (10, K)."""
    loadings = [record.components for record in one.folds]
    return pairwise_dice(loadings, reference=one.whole.components, norm_fraction=norm_fraction)


def _half_dice(one: Study) -> np.ndarray:
    """Dice indices of the two halves of every split, shape (n_splits, K)."""
    reference = one.whole.components
    own = [record.components[:N_COMPONENTS] for record in one.halves]
    matched = [loadings[match_components(reference, loadings).order] for loadings in own]
    return np.array(
        [dice(*pair, norm_fraction=NORM) for pair in zip(matched[::2], matched[1::2], strict=True)]
    )


def _split_halves(one: Study) -> SplitHalves:
    """Return the halves as the package judges them."""
    reference, maps = one.whole.components, [record.components for record in one.halves]
    first, further = [], []
    for pair in zip(maps[::2], maps[1::2], strict=True):
        first.append(agreement(reference, [loadings[:N_COMPONENTS] for loadings in pair], NORM))
        further.append(np.maximum(first[-1][0], agreement(reference, pair, NORM)[0]))
    indices, cosines = (np.array(values) for values in zip(*first, strict=True))
    return SplitHalves(reference, indices, cosines, np.array(further), failures=())


def _row(one: Study) -> list[Any]:
    values = [record.values for record in one.folds]
    fold, whole, half, split = _fold_dice(one), _fold_dice(one, None), _half_dice(one), _split_halves(one)
    judged = len(one.halves[0].components) > N_COMPONENTS
    gaps = [max(value["notes"]["relative_gap"]) for value in values if value["notes"]]
    return [
        one.method.label,
        f"{_errors(one).mean():.2f}",
        f"{fold.mean():.3f} ({whole.mean():.3f})",
        each(fold.mean(axis=0), ".2f"),
        f"{half.mean():.3f}",
        f"{split.dice.mean():.3f}",
        f"{split.cosine.mean():.3f}",
        "; ".join(record.verdict for record in split.reproducibility) if judged else None,
        each(np.mean([value["sparsity"] for value in values], axis=0), ".0%"),
        each(np.mean([value["regions"] for value in values], axis=0), ".0f"),
        f"{max(gaps):.0e}" if gaps else None,
        f"{np.mean([value['seconds'] for value in values]):.1f}",
    ]


def _yes(condition: bool) -> str:
    return "yes" if condition else "no"
