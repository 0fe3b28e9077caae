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
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.files import replacing
from spcatv._version import __version__
from spcatv.report import sections
from spcatv.report.component import ComponentPanel, component_panel, verdict_summary
from spcatv.report.figures import DIVERGING, SEQUENTIAL, colour_table, colour_top, png_uri, shared_top
from spcatv.report.image_sections import quality_section, time_courses_section
from spcatv.report.inputs import ReportInputs, gather
from spcatv.report.maps import views_of
from spcatv.report.maps.base import View, packed, packed_map
from spcatv.report.methods_text import methods_section
from spcatv.report.regions import label_features, parts_of
from spcatv.report.selection import count_section, selection_section
from spcatv.report.statistics import relations, relations_section

if TYPE_CHECKING:
    import jinja2

VIEWER_SCRIPTS = ("data.js", "volume.js", "surface.js", "flat.js", "viewers.js", "copy.js")
SCRIPTS = (*VIEWER_SCRIPTS, "tabs.js", "main.js")
# how the script describes a value, as a percentage or as a number
LAYERS = {
    "frequency": "selected in {percent} of the resampled fits",
    "consistency": "consistency of the sign {number}",
}


@dataclass(frozen=True)
class Report:
    """Finished report; `html` is the page.

    Examples
    --------
    >>> from spcatv.report import Report
    >>> Report("<!DOCTYPE html>").html
    '<!DOCTYPE html>'
    """

    html: str

    def __str__(self) -> str:
        return self.html

    def save_as_html(self, file: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        file : path
            Replaced if it exists.

        Returns
        -------
        Path
            `file`.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv import SPCATV
        >>> model = SPCATV(1).fit(np.random.default_rng(0).standard_normal((20, 30)))
        >>> model.generate_report().save_as_html("report.html").name
        'report.html'
        """
        path = Path(file)
        with replacing(path) as temporary:
            temporary.write_text(self.html, encoding="utf-8", newline="\n")
        return path

    def open_in_browser(self, file: str | os.PathLike[str] | None = None) -> Path:
        """Write the page to a file (a temporary one by default) and show it in the web browser.

        Parameters
        ----------
        file : path, default=None
            Where the page is written.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv import SPCATV
        >>> model = SPCATV(1).fit(np.random.default_rng(0).standard_normal((20, 30)))
        >>> model.generate_report().open_in_browser("report.html").name
        'report.html'
        """
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
        whose scores, selection and stability are shown as well. `spcatv.results.read_results` gives the
        same, if it is read already.
    title : str, default=None
        Heading of the page.
    data : array, images or Cohort, default=None
        The data that the model was fitted to; they give the scores of the samples and the variance that PCA
        explains.
    confounds : table, default=None
        Confounds of the images, as for ``ImageSPCATV.transform``.
    names : sequence of str, default=None
        Names of the samples of `data`; by default the names of the fit.
    groups : sequence of n_samples labels, Series or Column, default=None
        Groups of the samples, which colour the scores. A Series whose index names participants
        (``participant_id``) or samples is matched by it (docs/cli.md), and samples without a value count as
        missing; everything else is in the order of the samples.
    variable : sequence of n_samples numbers, Series or Column, default=None
        Variable against which the scores are drawn; matched as `groups`.
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

    Returns
    -------
    Report
        With ``save_as_html(file)`` and ``open_in_browser()``.

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
    parts = parts_of(inputs.model)
    labels = None
    if atlas is not None:
        files = [atlas] if isinstance(atlas, (str, os.PathLike)) else list(atlas)
        labels = label_features(parts, files, table=atlas_names)
    noun = getattr(getattr(inputs.model, "space_", None), "noun", None) or parts[0].unit
    tests = relations(inputs)
    panels = tuple(component_panel(inputs, k, parts, labels, noun, tests) for k in range(inputs.n_components))
    views = views_of(inputs.model, background)
    found = (
        sections.variance_section(inputs),
        sections.stability_section(inputs),
        count_section(inputs.count, inputs.n_components),
        selection_section(inputs.selection),
        sections.samples_section(inputs),
        relations_section(tests),
        time_courses_section(inputs),
        quality_section(inputs, views),
        sections.computation_section(inputs, panels, noun),
        methods_section(inputs, noun, tests),
        sections.run_section(inputs),
    )
    page = SimpleNamespace(
        title=inputs.title,
        lead=sections.lead(inputs, noun),
        warnings=sections.warnings(inputs),
        verdict=verdict_summary(
            tuple(panel.verdict for panel in panels), by_halves=inputs.halves is not None
        ),
        is_checked=not sections.how_to_check(inputs),
        noun=noun,
        scale_noun="scale" if views[0].kind == "line" else "colour scale",
        legend=legend(DIVERGING),
        views=tuple(view.frame() for view in views),
        # the views in which a component is zero
        blank=tuple(tuple(not view.shown(row).any() for view in views) for row in inputs.model.components_),
        components=panels,
        with_resamples=inputs.stability is not None,
        sections=tuple(section for section in found if section is not None),
        is_penalised=inputs.model.alpha is not None,
        uses_dice=inputs.stability is not None or inputs.halves is not None,
    )
    return Report(render(page, payload(inputs, panels, views)))


def payload(inputs: ReportInputs, panels: Sequence[ComponentPanel], views: Sequence[View]) -> dict[str, Any]:
    """Return the views, maps and colours from which the script of the page draws."""
    components = []
    for k, panel in enumerate(panels):
        maps = {"loading": packed_map(inputs.model.components_[k])}
        if inputs.stability is not None:
            maps["frequency"] = packed_map(inputs.stability.selection_frequency[k])
            maps["consistency"] = packed_map(inputs.stability.sign_consistency[k])
        top = colour_top(inputs.model.components_[k])
        components.append({"maps": maps, "top": top or 1.0, "peaks": list(panel.peaks)})
    return {
        "top": shared_top(inputs.model.components_),
        "views": [view.payload() for view in views],
        "components": components,
        "layers": LAYERS,
        "tables": {
            "diverging": packed(colour_table(DIVERGING)),
            "sequential": packed(colour_table(SEQUENTIAL)),
        },
        "legends": {"diverging": legend(DIVERGING), "sequential": legend(SEQUENTIAL)},
    }


@cache
def legend(name: str) -> str:
    """Return a picture of the colours of a table, from low to high."""
    return png_uri(np.repeat(colour_table(name)[None], 2, axis=0))


@cache
def _template(name: str) -> jinja2.Template:
    """Compile the template of a page once."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spcatv.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def render(
    page: Any,
    data: dict[str, Any],
    *,
    template: str = "report.html.j2",
    scripts: Sequence[str] = SCRIPTS,
    styles: Sequence[str] = ("report.css",),
) -> str:
    """Render a page; strings are escaped, and the policy admits the page's own script only."""
    import jinja2
    from markupsafe import Markup

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
    return _template(template).render(
        page=page,
        policy=policy,
        version=__version__,
        # these three are safe: style and script hold nothing from the user, and the filter writes <, >, &
        # and ' of the data as \u escapes, which cannot end an element
        style=Markup(style),
        script=Markup(script),
        data=jinja2.utils.htmlsafe_json_dumps(data, ensure_ascii=True),
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
