"""Report as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
from markupsafe import Markup

from spcatv._util.atomic_files import replacing
from spcatv._version import __version__
from spcatv.estimator.verdicts import CONFIRMED, WHAT_HELPS
from spcatv.report import sections
from spcatv.report.component import component_panel, verdict_summary
from spcatv.report.drawing import (
    DIVERGING,
    SEQUENTIAL,
    colour_table,
    colour_top,
    legend,
    pack,
    pack_map,
    shared_top,
)
from spcatv.report.image_sections import quality_section, time_courses_section
from spcatv.report.inputs import gather
from spcatv.report.maps import views_of
from spcatv.report.methods_text import methods_section
from spcatv.report.regions import cluster_table, label_features, noun_of, parts_of, region_noun
from spcatv.report.relations import relations, relations_section
from spcatv.report.views import View

VIEWER_SCRIPTS = ("data.js", "volume.js", "surface.js", "flat.js", "viewers.js", "copy.js")
SCRIPTS = (*VIEWER_SCRIPTS, "tabs.js", "main.js")
# Maps of a component: their names in the chooser and in the legend, texts of their values, and colours.
LAYERS = {
    "loading": {
        "choice": "the loadings",
        "legend": "Loading",
        "text": "loading {number}",
        "colours": "diverging",
    },
    "frequency": {
        "choice": "how often each is selected",
        "legend": "Share of resampled fits",
        "text": "selected in {percent} of the resampled fits",
        "colours": "sequential",
    },
    "consistency": {
        "choice": "how consistent its sign is",
        "legend": "Consistency of the sign",
        "text": "consistency of the sign {number}",
        "colours": "sequential",
    },
}


@dataclass(frozen=True)
class Report:
    """Finished page; `html` holds all of it, and a notebook shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> report = SPCATV(1).fit(np.random.default_rng(0).standard_normal((20, 30))).generate_report()
    >>> report.html[:15], report.save_as_html("report.html").name, report.open_in_browser("page.html").name
    ('<!DOCTYPE html>', 'report.html', 'page.html')
    """

    html: str

    def save_as_html(self, file: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all, and return its path."""
        path = Path(file)
        with replacing(path) as temporary:
            temporary.write_text(self.html, encoding="utf-8", newline="\n")
        return path

    def open_in_browser(self, file: str | os.PathLike[str] | None = None) -> Path:
        """Write the page to a file, by default a temporary one, show it, and return its path."""
        if file is None:
            file = Path(tempfile.mkdtemp(prefix="spca-tv-")) / "report.html"
        path = self.save_as_html(file)
        webbrowser.open(path.resolve().as_uri())
        return path

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame that isolates its script and style."""
        source = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{source}" width="100%" height="800" title="Report"></iframe>'


def generate_report(
    model: Any,
    *,
    title: str | None = None,
    data: Any = None,
    confounds: Any = None,
    names: Sequence[str] | None = None,
    groups: Any = None,
    variable: Any = None,
    atlas: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    atlas_names: str | os.PathLike[str] | None = None,
    stability: Any = None,
    halves: Any = None,
    background: str | os.PathLike[str] | None = None,
) -> Report:
    """Create a report of a fitted model: one self-contained HTML page.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, SPCATVCV, path or Results
        A fitted estimator, a model folder, or a results folder of ``spca-tv fit`` or ``spca-tv select``,
        whose scores, selection and stability are shown as well (or `spcatv.results.read_results` of it).
    title : str, default=None
        Heading of the page.
    data : array, images or Cohort, default=None
        Data of the fit; they give the scores of the samples and the variance that PCA explains.
    confounds : table, default=None
        Confounds of the images, as for ``ImageSPCATV.transform``.
    names : sequence of str, default=None
        Names of the samples of `data`; by default the names of the fit.
    groups : sequence of n_samples labels, Series or Column, default=None
        Groups of the samples. A Series whose index names participants (``participant_id``) or samples is
        matched by it (docs/cli.md); everything else is in the order of the samples.
    variable : sequence of n_samples numbers, Series or Column, default=None
        Variable to which the scores are related; matched as `groups`.
    atlas : path or sequence of paths, default=None
        Label images that name regions: NIfTI for voxels, GIFTI or ``.annot`` (left, right) for surfaces.
    atlas_names : path, default=None
        Names of the atlas's labels: a table, or an XML file of FSL.
    stability : Bootstrap, default=None
        From `spcatv.stability.bootstrap_components`.
    halves : SplitHalves, default=None
        From `spcatv.stability.split_halves`.
    background : path, "template", "mean" or None
        Picture behind volumes; by default the MNI152 template if the mask lies in its brain, otherwise the
        mean image.

    Raises
    ------
    ReportError
        If an input does not match the model; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import generate_report
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> report = generate_report(SPCATV(1, structure=(30,)).fit(X), data=X)
    >>> report.html.startswith("<!DOCTYPE html>")
    True
    """
    inputs = gather(
        model,
        title=title,
        data=data,
        confounds=confounds,
        names=names,
        groups=groups,
        variable=variable,
        stability=stability,
        halves=halves,
    )
    fitted, stability = inputs.model, inputs.stability
    parts, labels = parts_of(fitted), None
    if atlas is not None:
        files = [atlas] if isinstance(atlas, (str, os.PathLike)) else list(atlas)
        labels = label_features(parts, files, table=atlas_names)
    numbers = range(inputs.n_components)
    clusters = [cluster_table(fitted, k, parts, labels, stability) for k in numbers]
    tests = relations(inputs)
    panels = [component_panel(inputs, k, clusters[k], tests) for k in numbers]
    views = views_of(fitted, background)
    found = (
        sections.variance_section(inputs),
        sections.stability_section(inputs),
        sections.count_section(inputs.count, inputs.n_components),
        sections.selection_section(inputs.selection),
        sections.samples_section(inputs),
        relations_section(tests),
        time_courses_section(inputs),
        quality_section(inputs, views),
        sections.computation_section(inputs, clusters),
        methods_section(inputs, tests),
        sections.run_section(inputs),
    )
    maps = {"loading": fitted.components_}
    if stability is not None:
        maps |= {"frequency": stability.selection_frequency, "consistency": stability.sign_consistency}
    page = SimpleNamespace(
        title=inputs.title,
        lead=sections.summary(inputs),
        warnings=sections.empty_warnings(inputs),
        verdict=verdict_summary([panel.verdict for panel in panels], by_halves=inputs.halves is not None),
        advice=WHAT_HELPS if any(half.verdict != CONFIRMED for half in inputs.halves or ()) else "",
        is_checked=not sections.how_to_check(inputs),
        noun=noun_of(fitted),
        region=region_noun(fitted),
        scale_noun="scale" if views[0].kind == "line" else "colour scale",
        legend=legend(DIVERGING),
        views=views,
        # the views in which a component is zero
        blank=[[not view.shown(row).any() for view in views] for row in fitted.components_],
        components=panels,
        layers={name: LAYERS[name] for name in maps},
        sections=[section for section in found if section is not None],
        is_penalised=fitted.alpha is not None,
        uses_dice=stability is not None or inputs.halves is not None,
    )
    components = [
        {
            "maps": {name: pack_map(table[k]) for name, table in maps.items()},
            "top": colour_top(loading) or 1.0,
            "peaks": panels[k].peaks,
        }
        for k, loading in enumerate(fitted.components_)
    ]
    return render(page, views, {"top": shared_top(fitted.components_), "components": components})


def render(
    page: Any,
    views: Sequence[View],
    data: dict[str, Any],
    *,
    template: str = "report.html.j2",
    scripts: Sequence[str] = SCRIPTS,
    styles: Sequence[str] = ("report.css",),
) -> Report:
    """Render a page; strings are escaped, and the policy admits the page's own script only.

    The script draws from `data`, the `views`, and colours.
    """
    colours = {"diverging": DIVERGING, "sequential": SEQUENTIAL}
    data = {
        **data,
        "views": [view.payload() for view in views],
        "layers": page.layers,
        "tables": {name: pack(colour_table(table)) for name, table in colours.items()},
        "legends": {name: legend(table) for name, table in colours.items()},
    }
    folder = resources.files("spcatv.report") / "assets"
    style, code = (
        "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
        for names in (styles, scripts)
    )
    script = f'(() => {{\n"use strict";\n{code}}})();\n'
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (
        _templates()
        .get_template(template)
        .render(
            page=page,
            policy=policy,
            version=__version__,
            # these three are safe: style and script hold nothing from the user, and the filter writes <, >, &
            # and ' of the data as \u escapes, which cannot end an element
            style=Markup(style),
            script=Markup(script),
            data=jinja2.utils.htmlsafe_json_dumps(data, ensure_ascii=True),
        )
    )
    return Report(html)


@cache
def _templates() -> jinja2.Environment:
    """Return the templates, of which each is compiled once."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("spcatv.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
