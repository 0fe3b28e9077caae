"""Component maps of a model: its views, figures of them, and thumbnails."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from sklearn.utils.validation import check_is_fitted

from spcatv.report.brain_views import Shape, field_view, mean_image, mesh_view, surface_view, volume_view
from spcatv.report.drawing import data_uri, figure_style
from spcatv.report.regions import axes_of
from spcatv.report.views import ImageView, View, flat_view


def plot_components(
    model: Any,
    *,
    components: Sequence[int] | None = None,
    background: str | os.PathLike[str] | None = None,
    surface: Shape = "inflated",
    mesh: Any = None,
) -> Figure:
    """Draw the maps of the components, all with the same colour scale.

    Volumes are shown as three slices through the largest loading, surfaces from outside and inside,
    two-dimensional fields as images and one-dimensional ones as lines.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, XarraySPCATV or a search of them
        Fitted.
    components : sequence of int, default=None
        Which ones, from 0; all by default.
    background : path, "template", "mean" or None
        Picture behind volumes: by default the MNI152 template if the mask lies in its brain, otherwise the
        mean image.
    surface : {"inflated", "folded"}, default="inflated"
        Shape of surfaces with the mesh of fsaverage5; others are drawn as they were given to the fit.
    mesh : (coords, triangles), default=None
        For a model of an array whose `structure` is a mesh: positions (n_features, 3) and corners.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.datasets import make_dots
    >>> from spcatv.report import plot_components
    >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
    >>> model = SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)
    >>> plot_components(model).savefig("components.png")
    """
    model = estimator_of(model)
    loadings = np.asarray(model.components_, dtype=np.float64)
    numbers = range(len(loadings)) if components is None else [int(k) for k in components]
    views: tuple[View, ...] = views_of(model, background, surface)
    if mesh is not None:
        views = (mesh_view(mesh, loadings.shape[1]),)
    return views[0].figure(views, loadings, numbers)


def thumbnails(model: Any) -> list[str]:
    """Draw a picture of every component, 320 pixels wide, as the data URI of a PNG file.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, XarraySPCATV or a search of them
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import thumbnails
    >>> model = SPCATV(2, structure=(30,)).fit(np.random.default_rng(0).standard_normal((20, 30)))
    >>> [picture[:21] for picture in thumbnails(model)]
    ['data:image/png;base64', 'data:image/png;base64']
    """
    model = estimator_of(model)
    views = views_of(model)
    pictures = []
    for loading in np.asarray(model.components_, dtype=np.float64):
        # the view that shows most of the loading
        view = max(views, key=lambda view: float(np.square(view.shown(loading)).sum()))
        if isinstance(view, ImageView):
            view.is_geographic = False  # coastlines may have to be downloaded
        top = view.top(loading[None])
        with figure_style():
            figure = Figure(figsize=(3.2, 3.2 / (view.n_panels * view.aspect)), dpi=100)
            places = {"left": 0.0, "right": 1.0, "bottom": 0.0, "top": 1.0, "wspace": 0.03}
            panels = figure.subplots(1, view.n_panels, squeeze=False, gridspec_kw=places)[0]
            view.draw(panels, loading, Normalize(-top, top))
            for axes in panels:
                axes.set_axis_off()
                axes.set_title("")
            stream = io.BytesIO()
            figure.savefig(stream, format="png", dpi=100)
        pictures.append(data_uri("png", stream))
    return pictures


def estimator_of(model: Any) -> Any:
    """Return the estimator with the loadings: the best one of a search, the inner one of an XarraySPCATV."""
    check_is_fitted(model, "components_")
    if hasattr(model, "sample_dims_"):  # XarraySPCATV
        model = model.estimator_
    return getattr(model, "best_estimator_", model)


def views_of(
    model: Any, background: str | os.PathLike[str] | None = None, surface: Shape = "inflated"
) -> tuple[View, ...]:
    """Return the views of a fitted model: one, or two if it has both surfaces and voxels."""
    mean = mean_image(model)
    space = getattr(model, "space_", None)
    if space is None or not (space.vertex_sets or space.voxel_set):
        structure = model.structure_
        if np.ndim(getattr(structure, "labels", 0)) == 3:
            return (field_view(structure, mean),)
        names = tuple(map(str, getattr(model, "feature_names_in_", ())))
        return (flat_view(structure, names, axes_of(model)),)
    views: list[View] = []
    if sets := space.vertex_sets:
        views.append(surface_view(sets, surface))
    if voxels := space.voxel_set:
        inside = mean[voxels.start : voxels.start + len(voxels.indices)]
        header = getattr(space, "header", None)
        # a NIfTI header may leave the axes without directions; spaces without a header have them
        sides_known = header is None or bool(header["sform_code"] or header["qform_code"])
        views.append(volume_view(voxels, inside, background, sides_known=sides_known))
    return tuple(views)
