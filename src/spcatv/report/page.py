"""The report: one HTML file that holds all it shows."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.files import replacing
from spcatv._util.types import FloatArray
from spcatv._version import __version__
from spcatv.report import sections
from spcatv.report.atlas import label_features
from spcatv.report.choice import selection_section
from spcatv.report.components import ComponentPanel, component_panel
from spcatv.report.content import Table
from spcatv.report.flat import ImageView
from spcatv.report.material import Material, gather
from spcatv.report.packing import packed, packed_map
from spcatv.report.places import parts_of
from spcatv.report.style import DIVERGING, SEQUENTIAL, colour_table, png_uri, shared_top
from spcatv.report.surface import SurfaceView
from spcatv.report.views import View, hemisphere_vertices, views_of
from spcatv.report.volume import VolumeView

SCRIPTS = ("data.js", "tabs.js", "volume.js", "surface.js", "flat.js", "main.js")
# what the script says of a value, as a percentage or as a number
LAYERS = {
    "frequency": "selected in {percent} of the resampled fits",
    "consistency": "consistency of the sign {number}",
}
ANATOMICAL = ("Sagittal", "Coronal", "Axial")
PRESETS = ("left outside", "left inside", "right outside", "right inside", "top", "bottom", "front", "back")


@dataclass(frozen=True)
class Report:
    """A finished report.

    Attributes
    ----------
    html : str
        The page.
    """

    html: str

    def __str__(self) -> str:
        return self.html

    def save_as_html(self, file: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        file : path
            Replaced if it is there.

        Returns
        -------
        Path
            `file`.
        """
        path = Path(file)
        with replacing(path) as temporary:
            temporary.write_text(self.html, encoding="utf-8", newline="\n")
        return path

    def open_in_browser(self, file: str | os.PathLike[str] | None = None) -> Path:
        """Write the page to a file (a temporary one by default) and show it in the web browser.

        Returns
        -------
        Path
            The file.
        """
        if file is None:
            file = Path(tempfile.mkdtemp(prefix="spca-tv-")) / "report.html"
        path = self.save_as_html(file)
        webbrowser.open(path.resolve().as_uri())
        return path

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own, which keeps its script and style apart."""
        source = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{source}" width="100%" height="800" title="Report"></iframe>'


@dataclass(frozen=True)
class Plane:
    """A direction of slices."""

    name: str


@dataclass(frozen=True)
class ViewFrame:
    """What the page says of a view; the picture itself is drawn by the script."""

    kind: str
    name: str
    caption: str
    planes: tuple[Plane, ...] = ()
    presets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """All that the templates show; `blank` says by component and view where there is no loading."""

    title: str
    lead: str
    noun: str
    warnings: tuple[str, ...]
    legend: str
    views: tuple[ViewFrame, ...]
    blank: tuple[tuple[bool, ...], ...]
    summary: Table
    components: tuple[ComponentPanel, ...]
    variance: sections.Section
    stability: sections.Section | None
    selection: sections.Section | None
    samples: sections.Samples | None
    run: sections.Run


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
    background: str | os.PathLike[str] | None = None,
) -> Report:
    """Make a report of a fitted model: one HTML page that needs nothing else.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, SPCATVCV or path
        A fitted estimator, a model folder, or a folder that ``spca-tv fit`` or ``spca-tv select`` has
        written, whose scores, selection and stability are shown, too.
    title : str, default=None
        Heading of the page.
    data : array, images or Cohort, default=None
        What the model was fitted to: gives the scores of the samples and the variance that PCA explains.
    confounds : table, default=None
        Goes with images, as for ``ImageSPCATV.transform``.
    names : sequence of str, default=None
        Of the rows of `data`; those of the fit by default.
    groups : sequence of n_samples labels, Series or Column, default=None
        Colours the scores.
    variable : sequence of n_samples numbers, Series or Column, default=None
        The scores are drawn against it.
    atlas : path or sequence of paths, default=None
        Label images that name regions: NIfTI for voxels, GIFTI or ``.annot`` (left, right) for surfaces.
    atlas_names : path, default=None
        Table of the atlas's labels, see `spcatv.report.atlas.label_features`.
    stability : Bootstrap, default=None
        From `spcatv.stability.bootstrap_components`.
    background : path, "template", "mean" or None
        Picture behind volumes; the MNI152 template if the mask lies in its brain, else the mean image.

    Returns
    -------
    Report
        With ``save_as_html(file)`` and ``open_in_browser()``.

    Raises
    ------
    ReportError
        If something given does not fit the model; the message says what.

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
    material = gather(
        model,
        title=title,
        data=data,
        confounds=confounds,
        names=names,
        groups=groups,
        variable=variable,
        stability=stability,
    )
    parts = parts_of(material.model)
    labels = None
    if atlas is not None:
        files = [atlas] if isinstance(atlas, (str, os.PathLike)) else list(atlas)
        vertices = hemisphere_vertices(material.model)
        labels = label_features(parts, files, table=atlas_names, vertices=vertices)
    noun = getattr(getattr(material.model, "space_", None), "noun", None) or parts[0].unit
    panels = tuple(component_panel(material, k, parts, labels, noun) for k in range(material.n_components))
    views = views_of(material.model, background)
    page = Page(
        title=material.title,
        lead=sections.lead(material, noun),
        noun=noun,
        warnings=sections.warnings(material),
        legend=_legend(DIVERGING),
        views=tuple(_frame(view) for view in views),
        blank=tuple(tuple(_is_blank(view, row) for view in views) for row in material.model.components_),
        summary=sections.summary(material, panels),
        components=panels,
        variance=sections.variance_section(material),
        stability=sections.stability_section(material),
        selection=selection_section(material),
        samples=sections.samples_section(material),
        run=sections.run_section(material),
    )
    return Report(render(page, payload(material, panels, views)))


def payload(material: Material, panels: Sequence[ComponentPanel], views: Sequence[View]) -> dict[str, Any]:
    """What the script draws from: views, maps, colours."""
    components = []
    for k, panel in enumerate(panels):
        maps = {"loading": packed_map(material.model.components_[k])}
        if material.stability is not None:
            maps["frequency"] = packed_map(material.stability.selection_frequency[k])
            maps["consistency"] = packed_map(material.stability.sign_consistency[k])
        components.append({"maps": maps, "peaks": list(panel.peaks)})
    return {
        "top": shared_top(material.model.components_),
        "views": [view.payload() for view in views],
        "components": components,
        "layers": LAYERS,
        "tables": {
            "diverging": packed(colour_table(DIVERGING)),
            "sequential": packed(colour_table(SEQUENTIAL)),
        },
        "legends": {"diverging": _legend(DIVERGING), "sequential": _legend(SEQUENTIAL)},
    }


def _legend(name: str) -> str:
    return png_uri(np.repeat(colour_table(name)[None], 2, axis=0))


def _frame(view: View) -> ViewFrame:
    if isinstance(view, VolumeView):
        names = ANATOMICAL if view.anatomical else ("Along i", "Along j", "Along k")
        sides = " Left is left (L)." if view.anatomical else ""
        behind = f"Behind the map: {view.background_name}." if view.background is not None else ""
        return ViewFrame(
            "volume", "Slices", f"{behind}{sides}".strip(), planes=tuple(Plane(name) for name in names)
        )
    if isinstance(view, SurfaceView):
        present = {side.name for side in view.hemispheres}
        presets = tuple(
            name for name in PRESETS if not name.startswith(("left", "right")) or name.split()[0] in present
        )
        return ViewFrame("surface", "Surface", "Dark grey: outside of the mask.", presets=presets)
    if isinstance(view, ImageView):
        return ViewFrame("image", "Image", "Dark grey: outside of the mask. Light grey: zero.")
    return ViewFrame("line", "Line", "")


def _is_blank(view: View, loading: FloatArray) -> bool:
    """Whether a component has no loading in what a view shows."""
    if isinstance(view, VolumeView):
        return not loading[view.start : view.stop].any()
    if isinstance(view, SurfaceView):
        return not any(loading[side.start : side.stop].any() for side in view.hemispheres)
    return not loading.any()


def render(page: Page, data: dict[str, Any]) -> str:
    """Put a page together; every text in it is escaped, and only its own script may run."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spcatv.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    folder = resources.files("spcatv.report") / "assets"
    style = (folder / "report.css").read_text(encoding="utf-8")
    code = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{code}}})();\n'
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("report.html.j2").render(
        page=page,
        policy=policy,
        version=__version__,
        # these three are the package's own or made safe: nothing of a user's is in style and script, and
        # the filter writes <, >, & and ' of the data as \u escapes, which end no element
        style=Markup(style),
        script=Markup(script),
        data=jinja2.utils.htmlsafe_json_dumps(data, ensure_ascii=True),
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
