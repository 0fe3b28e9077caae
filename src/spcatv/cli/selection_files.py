"""What `spca-tv select` writes besides the chosen model: the settings compared, and the stability maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv.cli.folder import STABILITY, TAG
from spcatv.cli.outputs import Data, Outcome, column_descriptions, write_json, write_table, write_text
from spcatv.cli.tables import table_text
from spcatv.selection import SPCATVCV
from spcatv.selection.chains import setting_text
from spcatv.stability import Bootstrap, Region

# columns of cv_results_ that have no number in their names; `params` repeats the three that follow it
COLUMNS = {
    "param_alpha": "Strength of all penalties together; one number a component where they differ.",
    "param_l1_ratio": "Share of alpha for the l1 norm.",
    "param_tv_ratio": "Share of alpha for the structured penalty.",
    "mean_test_error": "Mean over folds of the held-out error, the Frobenius norm of the residual.",
    "std_test_error": "Standard deviation of the held-out error over folds.",
    "mean_test_score": "Minus the mean held-out error.",
    "rank_test_score": "Place of the setting by its mean held-out error, 1 for the lowest.",
    "mean_test_explained": "Mean over folds of the explained share of the held-out sum of squares.",
    "se_test_explained": "Standard error of the explained share over folds.",
    "mean_sparsity": "Mean share of loadings that are exactly zero.",
    "mean_n_live": "Mean number of components that are not zero.",
    "mean_dice": "Dice index of matched supports, mean over pairs of folds and components.",
    "mean_corrected_dice": "The same without what is due to chance: 0 for chance, 1 for equal supports.",
    "n_unconverged": "Fits that did not reach their tolerance.",
    "mean_fit_time": "Mean wall-clock time of a fit, in seconds.",
}
SPLIT_COLUMN = "Held-out error on fold {}."
NUMBERED_COLUMNS = {
    "mean_test_explained_": "The explained share with the first {} components alone.",
    "mean_sparsity_": "Mean share of zeros of component {}.",
}
REGIONS = {
    "component": "Number of the component, from 1.",
    "region": "Number of the region in its component, from 1, the heaviest first; the value in its map.",
    "n_features": "Voxels, vertices or cells of the region.",
    "sign": "Sign of the loadings in the region.",
    "share": "Share of the component's sum of squares.",
    "selection_frequency": "How often its features are selected in resampled fits, mean over the region.",
    "found": "Share of resampled fits that select at least half of the region with its sign.",
}
FREQUENCY_STEM = "desc-frequency_components"
SIGN_STEM = "desc-signconsistency_components"
REGIONS_STEM = "desc-regions_components"


@dataclass(frozen=True, eq=False)
class Selected:
    """A finished selection.

    Attributes
    ----------
    outcome : Outcome
        The chosen model.
    search : SPCATVCV
        The settings that were compared.
    stability : Bootstrap or None
        Resampled fits of the chosen model.
    """

    outcome: Outcome
    search: SPCATVCV
    stability: Bootstrap | None


def write_selection(selected: Selected, folder: Path) -> None:
    """Write the table of settings, and what the resampled fits say if there are any."""
    _write_settings(selected.search, folder)
    if selected.stability is not None:
        _write_stability(selected.stability, selected.outcome.data, folder)
        if selected.outcome.model.structure_.n_rows > 0:
            _write_regions(selected.stability, selected.outcome.data, folder)


def _write_settings(search: SPCATVCV, folder: Path) -> None:
    results = {name: values for name, values in search.cv_results_.items() if name != "params"}
    columns = {name: described(name) for name in results}
    rows = ([_cell(value) for value in row] for row in zip(*results.values(), strict=True))
    write_text(folder / f"{TAG}selection.tsv", table_text(tuple(results), rows))
    choice = {
        "rule": search.rule,
        "min_sparsity": search.min_sparsity,
        "sparsity": search.sparsity,
        "best_index": int(search.best_index_),
        "best_params": search.best_params_,
        "n_folds": int(search.n_splits_),
    }
    write_json(folder / f"{TAG}selection.json", {**choice, **column_descriptions(columns)})


def described(column: str) -> str:
    """What a column of the table of settings is."""
    if column in COLUMNS:
        return COLUMNS[column]
    if column.startswith("split"):
        return SPLIT_COLUMN.format(1 + int(column.removeprefix("split").partition("_")[0]))
    stem = column.rstrip("0123456789")
    return NUMBERED_COLUMNS[stem].format(column.removeprefix(stem))


def _cell(value: Any) -> Any:
    """A value for a table: what failed is missing, and one alpha a component is a list."""
    if isinstance(value, tuple):
        return ",".join(map(repr, value))
    return None if math.isnan(value) else value


def _write_stability(stability: Bootstrap, data: Data, folder: Path) -> None:
    n_resamples = len(stability.dice)
    np.savez_compressed(
        folder / STABILITY,
        selection_frequency=stability.selection_frequency,
        sign_consistency=stability.sign_consistency,
        dice=stability.dice,
        signed_dice=stability.signed_dice,
        correlation=stability.correlation,
    )
    frequency = (
        "Share of resampled fits in whose matched component, cut to 99 % of its norm, the value is not 0"
    )
    consistency = (
        "Consistency of the sign over the resampled fits that select the value: 1 if it is always the same, "
        "0 if either is as frequent or the value is never selected"
    )
    for stem, rows, about in (
        (FREQUENCY_STEM, stability.selection_frequency, frequency),
        (SIGN_STEM, stability.sign_consistency, consistency),
    ):
        data.write_maps(rows, folder, stem, {"Description": about, "NumberOfResamples": n_resamples})


def _write_regions(stability: Bootstrap, data: Data, folder: Path) -> None:
    numbered = list(_numbered(stability.regions))
    rows = (
        (
            region.component + 1,
            number,
            len(region.features),
            region.sign,
            region.share,
            region.selection_frequency,
            region.found,
        )
        for number, region in numbered
    )
    write_table(folder / f"{TAG}regions.tsv", REGIONS, rows)
    maps = np.zeros(stability.components.shape)
    for number, region in numbered:
        maps[region.component, region.features] = number
    about = f"Numbers of the regions in {TAG}regions.tsv, a map a component; 0 in none"
    data.write_maps(maps, folder, REGIONS_STEM, {"Description": about})


def _numbered(regions: Sequence[Region]) -> Iterator[tuple[int, Region]]:
    """Every region with its number in its component, from 1."""
    counts: dict[int, int] = {}
    for region in regions:
        counts[region.component] = counts.get(region.component, 0) + 1
        yield counts[region.component], region


def choice_text(search: SPCATVCV) -> str:
    """The setting that was chosen, in a line."""
    best, results = search.best_index_, search.cv_results_
    explained = _percent(results, "mean_test_explained", best)
    return (
        f"Compared {len(results['params'])} settings on {search.n_splits_} folds, chosen by rule "
        f"{search.rule}: {setting_text(search.best_params_)} ({explained} of the held-out variance "
        f"explained, Dice index of folds {results['mean_dice'][best]:.2f})"
    )


def _percent(results: Mapping[str, Any], column: str, row: int) -> str:
    return f"{100 * results[column][row]:.1f} %"


def stability_text(stability: Bootstrap) -> str:
    """How alike the resampled fits are, in a line."""
    by_component = ", ".join(f"{value:.2f}" for value in stability.dice.mean(axis=0))
    return f"Resampled {len(stability.dice)} times: mean Dice index by component {by_component}"
