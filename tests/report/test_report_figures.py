"""Figures: one scale, one colour map centred at zero, texts that do not overlap, SVG and PNG."""

import base64
import io
from itertools import combinations

import numpy as np
import pytest
from report_files import blobs

from spcatv import SPCATV
from spcatv.report import (
    plot_components,
    plot_convergence,
    plot_path,
    plot_scores,
    plot_stability,
    plot_variance,
    thumbnails,
)
from spcatv.report.drawing import DIVERGING, SEQUENTIAL, colour_table, shared_top
from spcatv.report.figures import group_members
from spcatv.report.inputs import Variance
from spcatv.selection import SPCATVCV, path
from spcatv.stability import bootstrap_components
from spcatv.structure import icosphere, mesh


def as_png(figure):
    """The canvas that a figure was drawn on, once, and its PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas, stream = FigureCanvasAgg(figure), io.BytesIO()
    canvas.print_png(stream)
    return canvas, stream.getvalue()


def texts(figure, canvas):
    """The texts of a figure that was drawn on a canvas, with their positions."""
    found = list(figure.texts)
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    for legend in filter(None, legends):
        found += [*legend.get_texts(), legend.get_title()]
    for axes in figure.axes:
        found += [*axes.texts, axes.title, axes._left_title]
        if axes.axison:
            for axis in (axes.xaxis, axes.yaxis):
                # an axis has more ticks than it shows
                found += [
                    axis.label,
                    *(tick.label1 for tick in axis._update_ticks() if tick.label1.get_visible()),
                ]
    renderer = canvas.get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in found if text.get_text().strip()]


def assert_readable(figure):
    """No text overlaps another, or leaves the figure."""
    frame = figure.bbox
    canvas, png = as_png(figure)
    assert png.startswith(b"\x89PNG")
    shown = [(text, box) for text, box in texts(figure, canvas) if box.width > 0]
    for text, box in shown:
        assert box.x0 >= frame.x0 - 1, text
        assert box.x1 <= frame.x1 + 1, text
        assert box.y0 >= frame.y0 - 1, text
        assert box.y1 <= frame.y1 + 1, text
    for (one, first), (other, second) in combinations(shown, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        up = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= 1 or up <= 1, f"{one!r} overlaps {other!r}"
    stream = io.BytesIO()
    figure.savefig(stream, format="svg")
    assert stream.getvalue().startswith(b"<?xml")


@pytest.mark.parametrize(
    "kind", [pytest.param("volume", marks=pytest.mark.no_cover), "cifti", "image", "line"]
)
def test_components_of_every_kind(request, kind):
    figure = plot_components(request.getfixturevalue(kind).model)
    assert_readable(figure)
    assert figure._repr_png_().startswith(b"\x89PNG")  # a notebook shows it at the end of a cell


@pytest.mark.no_cover
def test_components_of_surfaces(surface):
    figure = plot_components(surface.model, components=[1])
    assert len([axes for axes in figure.axes if axes.collections]) >= 4
    assert_readable(figure)


@pytest.mark.parametrize(
    "kind", [pytest.param("volume", marks=pytest.mark.no_cover), "cifti", "image", "line"]
)
def test_thumbnails_show_every_component(request, kind):
    from matplotlib.image import imread

    model = request.getfixturevalue(kind).model
    pictures = [
        imread(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
        for uri in thumbnails(model)
    ]
    assert len(pictures) == len(model.components_)
    for picture, loading in zip(pictures, model.components_, strict=True):
        assert picture.shape[1] == 320
        assert (np.ptp(picture[..., :3], axis=2).max() > 0.2) == loading.any(), "loadings are coloured"


def test_a_mesh_is_drawn_with_its_positions():
    coords, triangles = icosphere(2)
    X = blobs(coords)
    model = SPCATV(1, structure=mesh(coords, triangles)).fit(X)
    figure = plot_components(model, mesh=(coords, triangles))
    panels = [axes for axes in figure.axes if axes.collections]
    assert [axes.get_title() for axes in panels[:2]] == ["seen from −x", "seen from +x"]
    drawn = panels[0].collections[0].get_facecolor()
    assert 0.4 < len(drawn) / len(triangles) <= 0.5, "those that face the eye"
    with pytest.raises(ValueError, match="give one position"):
        plot_components(model, mesh=(coords[:, :2], triangles))


def test_one_scale_centred_at_zero(image):
    figure = plot_components(image.model)
    limits = {
        picture.get_clim()
        for axes in figure.axes
        for picture in axes.images
        if picture.get_cmap().name == DIVERGING
    }
    assert len(limits) == 1
    ((low, high),) = limits
    assert low == -high == -shared_top(image.model.components_)


def test_colours_are_safe_for_colour_blindness():
    """Lightness alone orders the sequential map, and blueness alone the two ends of the diverging one."""
    lightness = colour_table(SEQUENTIAL).astype(float) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) >= -0.5).all()
    diverging = colour_table(DIVERGING).astype(float)
    blueness = diverging[:, 2] - diverging[:, 0]
    assert (blueness[:100] > 0).all()
    assert (blueness[156:] < 0).all()
    light = diverging @ [0.2126, 0.7152, 0.0722]
    assert light[:120].max() < light[127]
    assert light[136:].max() < light[127]
    assert abs(diverging[127] - diverging[128]).max() < 12, "the middle has no edge"


def test_convergence_shows_every_alternation(line):
    model = SPCATV(2, structure=(60,), method="deflation").fit(line.X)
    figure = plot_convergence(model)
    lines = figure.axes[0].lines
    record = model.diagnostics_[0]
    assert len(lines[1].get_xdata()) == len(record.objectives)
    expected = np.asarray(record.inexactness) / abs(record.objectives[-1])
    drawn = lines[1].get_ydata()
    assert drawn[np.isfinite(drawn)] == pytest.approx(expected[expected > 0])
    assert_readable(figure)
    assert_readable(plot_convergence(model.diagnostics_, components=[1]))


def test_convergence_of_a_joint_fit_is_one_line(line):
    figure = plot_convergence(line.model)
    (drawn,) = figure.axes[0].lines
    assert len(drawn.get_xdata()) == len(line.model.diagnostics_[0].objectives) - 1
    assert_readable(figure)
    assert_readable(plot_convergence(line.model.diagnostics_, components=[1]))


def test_search_and_path(line):
    search = SPCATVCV(2, structure=(60,), alpha=[0.05, 0.1, 0.3], l1_ratio=0.2, tv_ratio=[0.2, 0.5], cv=3)
    search.fit(line.X)
    figure = plot_path(search)
    star = [mark for mark in figure.axes[0].lines if mark.get_marker() == "*"]
    assert [float(mark.get_xdata()[0]) for mark in star] == [search.best_params_["alpha"]]
    assert [float(mark.get_ydata()[0]) for mark in star] == [-search.best_score_]
    assert_readable(figure)
    assert_readable(plot_path(search.cv_results_, best_index=2))
    assert_readable(plot_path(path(SPCATV(2, structure=(60,), alpha=0.1), line.X, [0.05, 0.1, 0.3])))
    assert_readable(plot_path(path(SPCATV(2, structure=(60,)), line.X, [0.5, 0.7])))


def test_settings_with_an_alpha_a_component():
    columns = {
        "param_alpha": [(0.1, 0.2), (0.2, 0.3)],
        "param_l1_ratio": [0.1, 0.1],
        "param_tv_ratio": [0.5, 0.5],
        "mean_test_error": [3, 2],
        "mean_dice": [0.5, np.nan],
    }
    figure = plot_path(columns, best_index=1)
    assert figure.axes[-1].get_xlabel() == "setting"
    assert_readable(figure)


def test_stability(line):
    result = bootstrap_components(line.model, line.X, n_resamples=6, random_state=0)
    figure = plot_stability(result)
    drawn = np.concatenate([mark.get_ydata() for mark in figure.axes[0].lines])
    assert sorted(drawn) == pytest.approx(sorted(result.dice.ravel()))
    assert_readable(figure)


@pytest.mark.parametrize("n_groups", [1, 3, 12])
@pytest.mark.parametrize("with_variable", [False, True])
def test_scores_by_group(line, n_groups, with_variable):
    scores = line.model.transform(line.X)
    groups = None if n_groups == 1 else [f"a rather long name of group {k % n_groups}" for k in range(24)]
    figure = plot_scores(
        scores,
        1,
        groups=groups,
        variable=np.arange(24.0) if with_variable else None,
        variable_name="$age$ " * 20,
    )
    drawn = np.concatenate([mark.get_ydata() for mark in figure.axes[0].lines])
    assert sorted(drawn) == pytest.approx(sorted(scores[:, 1]))
    if not with_variable:
        assert_readable(figure)


def test_variance_with_its_ceiling():
    figure = plot_variance(Variance(np.array([0.3, 0.1]), ceiling=np.array([0.35, 0.5])))
    assert [list(mark.get_ydata()) for mark in figure.axes[0].lines] == [
        pytest.approx([30, 40]),
        pytest.approx([35, 50]),
    ]
    assert_readable(figure)


def test_many_images_make_a_grid(image):
    model = SPCATV(9, structure=image.inside, alpha=1e-3).fit(image.X)
    figure = plot_components(model)
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 9
    spec = panels[0].get_subplotspec().get_gridspec()
    assert (spec.nrows, spec.ncols) == (3, 3)
    width, height = figure.get_size_inches()
    assert height < 1.2 * width
    some = plot_components(model, components=range(8))
    assert len([axes for axes in some.axes if axes.images]) == 8
    assert_readable(figure)
    assert_readable(some)


def test_only_fitted_models_are_drawn():
    from sklearn.exceptions import NotFittedError

    for unfitted in (SPCATV(2), SPCATVCV(2)):
        with pytest.raises(NotFittedError):
            plot_components(unfitted)


def test_voxels_without_a_loading_report_it(cifti):
    rows = cifti.model.components_
    start = len(rows[0]) - 125  # the block of voxels comes last
    empty = [k for k, row in enumerate(rows) if not row[start:].any()]
    assert empty, "some component lies on the surface alone"
    figure = plot_components(cifti.model)
    said = [text for text, _ in texts(figure, as_png(figure)[0]) if text.startswith("no loading")]
    assert len(said) == len(empty)


def test_samples_without_a_group_are_missing():
    members = dict(group_members(["A", "", "n/a", "A"], 4))
    assert {name: numbers.tolist() for name, numbers in members.items()} == {"A": [0, 3], "missing": [1, 2]}
