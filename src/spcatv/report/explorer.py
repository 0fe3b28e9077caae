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
from spcatv.report.figures import DIVERGING, SEQUENTIAL, colour_table, colour_top
from spcatv.report.formatting import count, fixed, percent, python_arguments
from spcatv.report.maps import views_of
from spcatv.report.maps.base import packed, packed_map
from spcatv.report.page import VIEWER_SCRIPTS, Report, legend, render
from spcatv.report.regions import parts_of
from spcatv.selection import SPCATVCV
from spcatv.selection.exploration import Exploration, explore_settings
from spcatv.selection.rules import edge_of

# Values of all maps together up to which a page holds them with 16 bits; larger ones have 8.
MOST_PRECISE = 1_000_000
HELP = {
    "held_out": "Share of the sum of squares of samples that a fit has not seen which its maps explain "
    "together, mean over the folds of the cross-validation. It decides about the recommended setting.",
    "explained": "The same for the samples that the fit has seen: the difference is fitted to chance.",
    "agreement": "Whether two random halves of the samples show the same places: the Dice index of the two "
    "maps, corrected for chance, mean over components and splits. 1 is equal, 0 is chance.",
    "n_regions": "Connected regions of one sign, of all components together.",
}
SLIDERS = {
    "sparsity": "Share of every map that is exactly zero.",
    "smoothness": "How much neighbours pull each other together.",
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

    Returns
    -------
    Report
        With ``save_as_html(file)`` and ``open_in_browser()``.

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
    if "mask" in own:
        from spcatv.images import ImageSPCATVCV
        from spcatv.images.estimator import cohort_for

        search = ImageSPCATVCV(**_known(ImageSPCATVCV, own))
        cohort = cohort_for(search, X, confounds, exclude)
        search.fit(cohort, groups=groups)
        rows, confounds = cohort.X, cohort.adjustment.confounds
    elif is_field:
        field = clone(model).set_params(estimator=SPCATVCV(**_known(SPCATVCV, own))).fit(X, dim)
        search, rows = field.estimator_, field._rows_of(X)[2]
    else:
        search, rows = SPCATVCV(**_known(SPCATVCV, own)).fit(X, groups=groups, confounds=confounds), X
    best = search.best_estimator_
    exploration = explore_settings(search, rows, confounds=confounds, n_splits=n_splits)
    source = repr(os.fspath(X)) if isinstance(X, str | os.PathLike) else "images" if "mask" in own else "X"
    lines = [
        python_line(type(best), {**own, **setting}, source, confounds is not None)
        for setting in exploration.settings
    ]
    if is_field:
        around = python_arguments(type(model), {name: outer[name] for name in ("weights", "periodic")})
        lines = [around_field(line, around, dim) for line in lines]
    return explorer_page(exploration, best, {"Python": lines}, title=title, background=background)


def _known(kind: type, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that a class has."""
    return {name: value for name, value in parameters.items() if name in signature(kind).parameters}


def python_line(kind: type, parameters: dict[str, Any], source: str, with_confounds: bool) -> str:
    """Return the Python that fits a class with given parameters; arrays and objects keep their names."""
    named = _known(kind, parameters)
    setting = [f"{name}={named.pop(name)!r}" for name in SLIDERS]  # last, and also if they are the defaults
    words = ", ".join([repr(named.pop("n_components")), *python_arguments(kind, named), *setting])
    data = f"{source}, confounds=confounds" if with_confounds else source
    return f"from spcatv import {kind.__name__}\n\nmodel = {kind.__name__}({words}).fit({data})"


def around_field(line: str, arguments: Sequence[str], dim: str | Sequence[str]) -> str:
    """Return the Python of `python_line` for a DataArray X, with arguments of `XarraySPCATV`."""
    fit = f"model = XarraySPCATV({', '.join(['model', *arguments])}).fit(X, dim={dim!r})"
    return f"from spcatv.xarray import XarraySPCATV\n{line.removesuffix('.fit(X)')}\n{fit}"


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
    noun = getattr(getattr(model, "space_", None), "noun", None) or parts_of(model)[0].unit
    n_settings, n_components, n_features = exploration.components.shape
    labels = {
        name: [f"{value:g}" for value in sorted({setting[name] for setting in exploration.settings})]
        for name in SLIDERS
    }
    names = [
        f"sparsity {setting['sparsity']:g}, smoothness {setting['smoothness']:g}"
        for setting in exploration.settings
    ]
    measures = _measures(exploration)
    edge = edge_of(exploration.settings, exploration.settings[exploration.recommended])
    ids = {name: f"command-{number}" for number, name in enumerate(commands)}
    width = len(labels["sparsity"])
    page = SimpleNamespace(
        title=title or "Settings explorer",
        lead=f"{count(n_settings, 'setting')} of {count(n_components, 'component')} on {n_features:,} "
        f"{noun}. Each was fitted to all samples, in the {exploration.n_folds} folds of a cross-validation, "
        "and to random halves. Move the two sliders to see what a setting does to the maps.",
        numbers=range(1, n_components + 1),
        sliders=[{"name": name, "labels": labels[name], "help": text} for name, text in SLIDERS.items()],
        views=tuple(view.frame() for view in views),
        legend=legend(DIVERGING),
        measures=measures,
        rows=np.arange(n_settings).reshape(-1, width).tolist(),
        recommended=names[exploration.recommended],
        reason=f"{exploration.reason[:1].upper()}{exploration.reason[1:]}."
        + (f" It is the {edge} sparsity compared: values beyond it may suit better." if edge else ""),
        commands=ids,
        star=exploration.recommended,
    )
    bits = 16 if exploration.components.size <= MOST_PRECISE else 8
    tops = [[colour_top(loading) for loading in loadings] for loadings in exploration.components]
    data = {
        "views": [view.payload() for view in views],
        "labels": labels,
        "recommended": exploration.recommended,
        "top": float(np.max(tops)) or 1.0,
        "measures": measures,
        "settings": [
            {
                "name": names[number],
                "tops": tops[number],
                "peaks": [int(np.abs(loading).argmax()) for loading in loadings],
                "maps": [packed_map(loading, bits) for loading in loadings],
                "sentences": [_sentence(exploration, number, k) for k in range(n_components)],
                "commands": {ids[name]: lines[number] for name, lines in commands.items()},
            }
            for number, loadings in enumerate(exploration.components)
        ],
        "layers": {},
        "tables": {
            name: packed(colour_table(table))
            for name, table in (("diverging", DIVERGING), ("sequential", SEQUENTIAL))
        },
        "legends": {"diverging": legend(DIVERGING)},
    }
    return Report(
        render(
            page,
            data,
            template="explorer.html.j2",
            scripts=(*VIEWER_SCRIPTS, "explorer.js"),
            styles=("report.css", "explorer.css"),
        )
    )


def _measures(exploration: Exploration) -> list[dict[str, Any]]:
    """Return the figures of every setting as text, and as levels between 0 and 1 for the heat map."""
    found = {
        "held_out": ("Held-out share", exploration.held_out),
        "explained": ("Explained share", exploration.explained),
        "agreement": ("Agreement of halves", exploration.agreement.mean(axis=1)),
    }
    if exploration.n_regions is not None:
        found["n_regions"] = ("Regions", exploration.n_regions.sum(axis=1).astype(float))
    measures = []
    for key, (name, values) in found.items():
        # numbers of regions differ by orders of magnitude
        scale = np.log1p(values) if key == "n_regions" else values
        low, high = (np.nanmin(scale), np.nanmax(scale)) if np.isfinite(scale).any() else (0.0, 0.0)
        texts = [_text(key, value) for value in values]
        measures.append(
            {
                "key": key,
                "name": name,
                "unit": ", in %" if key in ("held_out", "explained") else "",
                "help": HELP[key],
                "texts": texts,
                # the cells have no room for a unit
                "short": [text.partition("\u00a0")[0] for text in texts],
                "levels": np.nan_to_num((scale - low) / ((high - low) or 1.0)).round(3).tolist(),
            }
        )
    return measures


def _text(key: str, value: float) -> str:
    if np.isnan(value):
        return "–"
    if key == "n_regions":
        return f"{value:,.0f}"
    return fixed(value) if key == "agreement" else percent(value)


def _sentence(exploration: Exploration, number: int, k: int) -> str:
    """Describe component `k` at a setting."""
    if not exploration.components[number, k].any():
        return f"Component {k + 1} is empty at this setting: all of its loadings are zero."
    said = [f"its scores explain {percent(exploration.variance[number, k])} of the variance"]
    if exploration.n_regions is not None:
        said.append(count(int(exploration.n_regions[number, k]), "region"))
    if np.isfinite(exploration.agreement[number, k]):
        said.append(f"agreement of halves {fixed(exploration.agreement[number, k])}")
    if number != exploration.recommended:
        similarity = fixed(exploration.similarity[number, k])
        said.append(f"similarity with its map at the recommended setting {similarity}")
    other = exploration.order[number, k] + 1
    renamed = "" if other == k + 1 else f" A fit of this setting calls it component {other}."
    return f"Component {k + 1}: {'; '.join(said)}.{renamed}"
