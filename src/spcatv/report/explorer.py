"""Settings explorer: one page that shows every setting of a grid (docs/explore.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.parameters import EXPLORE
from spcatv.estimator import SPCATV
from spcatv.report.drawing import DIVERGING, colour_top, legend, pack_map
from spcatv.report.formatting import SPACE, count, fixed, percent, python_arguments
from spcatv.report.maps import views_of
from spcatv.report.page import LAYERS, VIEWER_SCRIPTS, Report, render
from spcatv.report.regions import noun_of
from spcatv.report.sections import SectionTable
from spcatv.selection import SPCATVCV
from spcatv.selection.cross_validation import Exploration, explore_settings
from spcatv.selection.rules import edge_of

# Values of all maps together up to which a page holds them with 16 bits; larger ones have 8.
MOST_PRECISE = 1_000_000
SLIDERS = ("sparsity", "smoothness")
# Names and meanings of the measures of a setting.
MEASURES = {
    "held_out": (
        "Held-out share",
        "Share of the sum of squares of held-out samples that the maps explain together, mean over the folds "
        "of the cross-validation. The recommendation is based on it.",
    ),
    "explained": (
        "Explained share",
        "The same for the samples of the fit: higher, because a fit also follows their noise.",
    ),
    "agreement": (
        "Agreement of halves",
        "Dice index of the maps of two random halves of the samples, corrected for chance, mean over "
        "components and splits: 1 is equal, 0 is chance.",
    ),
    "n_regions": ("Regions", "Connected regions of one sign, of all components together."),
}


def explore(
    model: Any,
    X: Any,
    *,
    sparsity: Sequence[float] | None = None,
    smoothness: Sequence[float] | None = None,
    cv: Any = None,
    groups: Any = None,
    confounds: Any = None,
    exclude: str | Sequence[str] = (),
    dim: str | Sequence[str] = "time",
    n_splits: int = EXPLORE.n_splits,
    n_jobs: int | None = None,
    title: str | None = None,
    background: str | os.PathLike[str] | None = None,
) -> Report:
    """Fit a grid of settings, and show all of them on one page with sliders (docs/explore.md).

    Parameters
    ----------
    model : SPCATV, SPCATVCV, ImageSPCATV, ImageSPCATVCV or XarraySPCATV
        Everything but sparsity and smoothness; fitted or not, it is not changed.
    X : array-like, images, Cohort or DataArray
        Data, as for ``fit`` of the model.
    sparsity, smoothness : sequence of float, default=None
        The grid. ``None``: that of a search, otherwise 0.5, 0.6, 0.7, 0.8, 0.9, 0.95 and 0.25, 0.5, 1, 2.
    cv, groups, confounds
        As for `SPCATVCV`, which finds the held-out shares and the recommended setting. `groups` and
        `confounds` are not for DataArrays.
    exclude : str or sequence of str, default=()
        Images to leave out, as for ``ImageSPCATV.fit``.
    dim : str or sequence of str, default="time"
        Dimensions of the samples, as for ``XarraySPCATV.fit``.
    n_splits : int, default=3
        Splits into random halves; each costs two fits of half of the samples for every setting.
    n_jobs : int or None, default=None
        Workers, as in joblib. ``None``: that of a search, otherwise 1.
    title : str, default=None
        Heading of the page.
    background : path, "template", "mean" or None
        Picture behind volumes, as for `generate_report`.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.datasets import make_dots
    >>> from spcatv.report import explore
    >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
    >>> page = explore(SPCATV(2, structure=dots.shape), dots.X, sparsity=[0.7, 0.9], smoothness=[1.0])
    >>> page.save_as_html("explorer.html").name
    'explorer.html'
    """
    outer = own = model.get_params(deep=False)
    is_field = "estimator" in own
    if is_field:
        own = (own["estimator"] or SPCATV()).get_params(deep=False)
    if own["alpha"] is not None:
        raise ValueError("the explorer compares sparsity and smoothness: give a model with alpha=None")
    if is_field and not (groups is None and confounds is None):
        raise ValueError("groups and confounds do not go with DataArrays")
    given = {"sparsity": sparsity, "smoothness": smoothness, "cv": cv, "n_jobs": n_jobs}
    if "rule" not in own:  # the model is no search, and has one sparsity
        own |= {"sparsity": EXPLORE.sparsity, "smoothness": EXPLORE.smoothness}
    own |= {name: value for name, value in given.items() if value is not None}
    search: Any
    around = None
    if "mask" in own:
        from spcatv.images import ImageSPCATVCV
        from spcatv.images.estimator import cohort_for

        search = ImageSPCATVCV(**_accepted(ImageSPCATVCV, own))
        cohort = cohort_for(search, X, confounds, exclude)
        search.fit(cohort, groups=groups)
        rows, confounds = cohort.X, cohort.adjustment.confounds
    elif is_field:
        field = clone(model).set_params(estimator=SPCATVCV(**_accepted(SPCATVCV, own))).fit(X, dim)
        search, rows = field.estimator_, field._rows_of(X)[2]
        around = python_arguments(type(model), {name: outer[name] for name in ("weights", "periodic")})
    else:
        search, rows = SPCATVCV(**_accepted(SPCATVCV, own)).fit(X, groups=groups, confounds=confounds), X
    best = search.best_estimator_
    exploration = explore_settings(search, rows, confounds=confounds, n_splits=n_splits)
    source = repr(os.fspath(X)) if isinstance(X, str | os.PathLike) else "images" if "mask" in own else "X"
    arguments = f"{source}, confounds=confounds" if confounds is not None else source
    lines = python_lines(exploration, type(best), own, arguments, around, dim)
    return explorer_page(exploration, best, {"Python": lines}, title=title, background=background)


def _accepted(kind: type, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that a class has."""
    return {name: value for name, value in parameters.items() if name in signature(kind).parameters}


def python_lines(
    exploration: Exploration,
    kind: type,
    parameters: dict[str, Any],
    source: str,
    around: Sequence[str] | None = None,
    dim: str | Sequence[str] = "time",
) -> list[str]:
    """Return the Python that fits a class at every setting; arrays and objects keep their names.

    `source` holds the arguments of ``fit``. `around` holds those of an `XarraySPCATV` of a DataArray X, if
    there is one, with `dim` for its ``fit``.
    """
    named = {name: value for name, value in _accepted(kind, parameters).items() if name not in SLIDERS}
    words = [repr(named.pop("n_components")), *python_arguments(kind, named)]
    lines = []
    for setting in exploration.settings:
        settings = [f"{name}={setting[name]!r}" for name in SLIDERS]  # also if they are the defaults
        line = f"from spcatv import {kind.__name__}\n\nmodel = {kind.__name__}({', '.join(words + settings)})"
        if around is None:
            lines.append(f"{line}.fit({source})")
            continue
        call = f"XarraySPCATV({', '.join(['model', *around])}).fit(X, dim={dim!r})"
        lines.append(f"from spcatv.xarray import XarraySPCATV\n{line}\nmodel = {call}")
    return lines


def explorer_page(
    exploration: Exploration,
    model: Any,
    commands: dict[str, Sequence[str]],
    *,
    title: str | None = None,
    background: str | os.PathLike[str] | None = None,
) -> Report:
    """Create the page of an exploration; `commands` fit every setting, by the name of their language.

    `model` is the fitted model of the recommended setting.
    """
    views = views_of(model, background)
    settings, best = exploration.settings, exploration.recommended
    n_settings, n_components, n_features = exploration.components.shape
    labels = {name: [f"{value:g}" for value in sorted({row[name] for row in settings})] for name in SLIDERS}
    names = [f"sparsity {row['sparsity']:g}, smoothness {row['smoothness']:g}" for row in settings]
    measures = _measures(exploration)
    edge = edge_of(settings, settings[best])
    ids = {name: f"command-{number}" for number, name in enumerate(commands)}
    page = SimpleNamespace(
        title=title or "Settings explorer",
        lead=f"{count(n_settings, 'setting')} of {count(n_components, 'component')} on {n_features:,} "
        f"{noun_of(model)}. Each was fitted to all samples, in the {exploration.n_folds} folds of a "
        "cross-validation, and to random halves. Move the two sliders to see what a setting does to the "
        "maps.",
        numbers=range(1, n_components + 1),
        labels=labels,
        views=views,
        layers={"loading": LAYERS["loading"]},
        legend=legend(DIVERGING),
        measures=measures,
        rows=np.arange(n_settings).reshape(-1, len(labels["sparsity"])).tolist(),
        recommended=names[best],
        reason=f"{exploration.reason[:1].upper()}{exploration.reason[1:]}."
        + (f" It is the {edge} sparsity compared: values beyond it may suit better." if edge else ""),
        commands=ids,
        table=_table(settings, best, measures),
    )
    bits = 16 if exploration.components.size <= MOST_PRECISE else 8
    tops = [[colour_top(loading) for loading in loadings] for loadings in exploration.components]
    data = {
        "labels": labels,
        "recommended": best,
        "top": float(np.max(tops)) or 1.0,
        "measures": measures,
        "settings": [
            {
                "name": names[number],
                "tops": tops[number],
                "peaks": [int(np.abs(loading).argmax()) for loading in loadings],
                "maps": [pack_map(loading, bits) for loading in loadings],
                "sentences": [_sentence(exploration, number, k) for k in range(n_components)],
                "commands": {ids[name]: lines[number] for name, lines in commands.items()},
            }
            for number, loadings in enumerate(exploration.components)
        ],
    }
    scripts, styles = (*VIEWER_SCRIPTS, "explorer.js"), ("report.css", "explorer.css")
    return render(page, views, data, template="explorer.html.j2", scripts=scripts, styles=styles)


def _table(settings: Sequence[Any], best: int, measures: Sequence[dict[str, Any]]) -> SectionTable:
    """Create the table of all settings."""
    columns = {
        "Sparsity": [f"{row['sparsity']:g}{' ★' * (number == best)}" for number, row in enumerate(settings)],
        "Smoothness": [f"{row['smoothness']:g}" for row in settings],
        **{measure["name"]: measure["texts"] for measure in measures},
    }
    return SectionTable("One row per setting; ★ is recommended.", columns, id="settings-table")


def _measures(exploration: Exploration) -> list[dict[str, Any]]:
    """Return the figures of every setting as text, and as levels between 0 and 1 for the heat map."""
    found = {
        "held_out": exploration.held_out,
        "explained": exploration.explained,
        "agreement": exploration.agreement.mean(axis=1),
    }
    if exploration.n_regions is not None:
        found["n_regions"] = exploration.n_regions.sum(axis=1).astype(float)
    measures = []
    for key, values in found.items():
        # numbers of regions differ by orders of magnitude
        scale = np.log1p(values) if key == "n_regions" else values
        low, high = (np.nanmin(scale), np.nanmax(scale)) if np.isfinite(scale).any() else (0.0, 0.0)
        write = {"agreement": fixed, "n_regions": "{:,.0f}".format}.get(key, percent)
        texts = [write(value) for value in values]
        name, meaning = MEASURES[key]
        measure = {
            "key": key,
            "name": name,
            "meaning": meaning,
            "unit": ", in %" if write is percent else "",
            "texts": texts,
            "short": [text.partition(SPACE)[0] for text in texts],  # the cells have no room for a unit
            "levels": np.nan_to_num((scale - low) / ((high - low) or 1.0)).round(3).tolist(),
        }
        measures.append(measure)
    return measures


def _sentence(exploration: Exploration, number: int, k: int) -> str:
    """Describe component `k` at a setting."""
    if not exploration.components[number, k].any():
        return f"Component {k + 1} is empty at this setting: all of its loadings are zero."
    facts = [f"its scores explain {percent(exploration.variance[number, k])} of the variance"]
    if exploration.n_regions is not None:
        facts.append(count(int(exploration.n_regions[number, k]), "region"))
    if np.isfinite(exploration.agreement[number, k]):
        facts.append(f"agreement of halves {fixed(exploration.agreement[number, k])}")
    if number != exploration.recommended:
        similarity = fixed(exploration.similarity[number, k])
        facts.append(f"similarity with its map at the recommended setting {similarity}")
    other = exploration.order[number, k] + 1
    renamed = "" if other == k + 1 else f" A fit of this setting calls it component {other}."
    return f"Component {k + 1}: {'; '.join(facts)}.{renamed}"
