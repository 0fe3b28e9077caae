"""El Nino in the sea-surface temperatures: the first component and the index that forecasters use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.data import real
from benchmarks.reproduce.store import Record
from benchmarks.tables import markdown

FIRST_YEAR = 1970  # the first month is its January
# The box of the Nino 3.4 index: degrees north, degrees east.
BOX_LATITUDES = (-5.0, 5.0)
BOX_LONGITUDES = (190.0, 240.0)
# Strong events, from their first to their last month: (year, month).
EVENTS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "1972-73": ((1972, 5), (1973, 3)),
    "1982-83": ((1982, 4), (1983, 6)),
    "1987-88": ((1986, 9), (1988, 2)),
    "1991-92": ((1991, 5), (1992, 6)),
    "1997-98": ((1997, 5), (1998, 5)),
}


def nino_index(temperatures: np.ndarray, latitudes: np.ndarray, longitudes: np.ndarray) -> np.ndarray:
    """Mean anomaly over the box, weighted by area, one value per month; shape (n_months,).

    Parameters
    ----------
    temperatures : ndarray of shape (n_months, n_latitudes, n_longitudes)
        Anomalies, NaN on land.
    latitudes, longitudes : ndarray
        Of the cells' centres, in degrees.
    """
    north = (latitudes >= BOX_LATITUDES[0]) & (latitudes <= BOX_LATITUDES[1])
    east = (longitudes >= BOX_LONGITUDES[0]) & (longitudes <= BOX_LONGITUDES[1])
    box = temperatures[:, north][:, :, east].astype(np.float64)
    area = np.broadcast_to(np.cos(np.deg2rad(latitudes[north]))[:, None], box.shape[1:])
    water = np.isfinite(box)
    return np.where(water, box * area, 0.0).sum(axis=(1, 2)) / (water * area).sum(axis=(1, 2))


def month_number(year: int, month: int) -> int:
    """Row of a month (January is 1)."""
    return 12 * (year - FIRST_YEAR) + month - 1


def event_months(n_months: int) -> np.ndarray:
    """Which months belong to a strong event; shape (n_months,), bool."""
    inside = np.zeros(n_months, dtype=bool)
    for first, last in EVENTS.values():
        inside[month_number(*first) : month_number(*last) + 1] = True
    return inside


def standardised_scores(loading: np.ndarray, X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Scores of a loading, mean 0 and standard deviation 1, with the sign of the index; shape (n_months,)."""
    scores = (X - X.mean(axis=0)) @ loading.astype(np.float64)
    scores = (scores - scores.mean()) / scores.std()
    return scores if scores @ (index - index.mean()) >= 0 else -scores


def report(fits: Mapping[str, Record], X: np.ndarray) -> str:
    """How the first component of every method agrees with the index and the events, as Markdown."""
    arrays = real("sst_grid.npz")
    index = nino_index(arrays["X"], arrays["lat"], arrays["lon"])
    inside = event_months(len(index))
    series = {label: standardised_scores(record.components[0], X, index) for label, record in fits.items()}
    series["the index itself"] = (index - index.mean()) / index.std()
    rows = [[label, *_agreement(scores, index, inside)] for label, scores in series.items()]
    header = ["first component of", "correlation with Nino 3.4", "warmest months in events", *EVENTS]
    return (
        "Scores of the first component, fitted to all months, beside the Nino 3.4 index of the same data "
        f"(5S to 5N, 170W to 120W). {inside.sum()} of {len(index)} months belong to the five strong events: "
        "the share of the as many warmest months, by score, that do; and the highest score in each event, "
        "in standard deviations.\n\n" + markdown(header, rows)
    )


def _agreement(scores: np.ndarray, index: np.ndarray, inside: np.ndarray) -> list[str]:
    """Cells of the table for one series of scores."""
    warmest = np.argsort(scores)[::-1][: inside.sum()]
    events = [scores[month_number(*first) : month_number(*last) + 1] for first, last in EVENTS.values()]
    return [
        f"{np.corrcoef(scores, index)[0, 1]:.3f}",
        f"{inside[warmest].mean():.0%}",
        *(f"{event.max():.1f}" for event in events),
    ]
