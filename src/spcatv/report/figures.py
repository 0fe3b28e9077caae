"""Style of all figures, and figures of a fit: convergence, stability, variance, scores."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spcatv._util.tables import MISSING
from spcatv._util.types import FloatArray, IntArray
from spcatv.decomposition import ComponentDiagnostics
from spcatv.report.formatting import superscript

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spcatv.report.inputs import Variance

# blue to white to red keeps its order for every kind of colour blindness; cividis was designed for that
DIVERGING = "RdBu_r"
SEQUENTIAL = "cividis"
# Okabe and Ito's colours, dark enough for lines on white, each with a mark: colour is never the only cue
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#7A5C00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 120,
    "savefig.dpi": 200,
    "svg.fonttype": "path",  # the same picture on every machine, whatever fonts it has
    "svg.hashsalt": "spca-tv",  # and the same bytes
    "text.parse_math": False,  # dollar signs in a name are just characters
}
MOST_GROUPS = 7


@contextmanager
def figure_style() -> Iterator[None]:
    """Use the style while figures are drawn and written."""
    import matplotlib

    with matplotlib.rc_context(RC):  # type: ignore[arg-type]  # its keys are texts
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure in the common style, size in inches, without registering it with pyplot."""
    from matplotlib.figure import Figure

    with figure_style():
        yield Figure(figsize=(width, height), layout="constrained")


def line_style(number: int) -> dict[str, Any]:
    """Return colour, mark and dashes of series `number`; neighbouring series differ in colour and mark."""
    return {
        "color": LINE_COLOURS[number % len(LINE_COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[(number // len(LINE_COLOURS)) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.4,
    }


def mark_chosen(axes: Axes, x: float, y: float) -> None:
    """Draw a star at the setting that was chosen."""
    star: dict[str, Any] = {"marker": "*", "markersize": 16, "color": "white", "markeredgecolor": "black"}
    axes.plot(x, y, **star, markeredgewidth=1.5, linestyle="none", label="chosen", zorder=5)


@cache
def colour_table(name: str) -> npt.NDArray[np.uint8]:
    """Return 256 colours of a colour map, shape (256, 3)."""
    import matplotlib

    colours = matplotlib.colormaps[name](np.linspace(0, 1, 256))[:, :3]
    return np.round(255 * colours).astype(np.uint8)


def colour_top(loading: npt.ArrayLike) -> float:
    """Return the end of the colour scale of a map: the 99 % quantile of its nonzero absolute values, or 0."""
    values = np.asarray(loading, dtype=np.float64)
    return float(np.quantile(np.abs(values[values != 0]), 0.99)) if values.any() else 0.0


def shared_top(components: npt.ArrayLike) -> float:
    """Return the end of the colour scale that all components share: the largest of their ends."""
    return max(map(colour_top, np.asarray(components)), default=0.0) or 1.0


def svg_uri(figure: Figure) -> str:
    """Convert a figure to a data URI (SVG) for an `img` element; its background becomes transparent."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    stream = io.BytesIO()
    with figure_style():
        figure.set_dpi(RC["savefig.dpi"])
        # savefig would draw the figure twice: the first time only to find its layout
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def png_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """Convert pixels of shape (height, width, 3) to a data URI (PNG)."""
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def plot_convergence(model: Any, *, components: Sequence[int] | None = None) -> Figure:
    """Draw the convergence of the objective and the bounds on the error of the loadings.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, or sequence of ComponentDiagnostics
        Fitted.
    components : sequence of int, default=None
        Which ones, from 0; all by default.

    Returns
    -------
    matplotlib Figure
        For every component the distance of the objective to its last value, and an upper bound on how far
        the loadings of every alternation are from the best ones for its scores (dotted). Both are relative
        to the last objective and on a logarithmic axis. A joint fit has one objective for all components, and
        no bounds before the end.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_convergence
    >>> model = SPCATV(2).fit(np.random.default_rng(0).standard_normal((20, 30)))
    >>> plot_convergence(model).savefig("convergence.svg")
    """
    from matplotlib.ticker import MaxNLocator

    records: Sequence[ComponentDiagnostics] = getattr(model, "diagnostics_", model)
    chosen = range(len(records)) if components is None else components
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        for k in chosen:
            record = records[k]
            # components that were fitted together share an objective
            alike = [other for other in chosen if records[other].objectives == record.objectives]
            if not record.objectives or alike[0] != k:
                continue
            label = component_name(*alike)
            scale = abs(record.objectives[-1]) or 1.0
            steps = np.arange(1, len(record.objectives) + 1)
            # with a wanted sparsity the weights change, and the objective may come from below
            excess = np.abs(np.asarray(record.objectives) - record.objectives[-1]) / scale
            style = line_style(k)
            # the last value has distance 0, which a logarithmic axis cannot show
            axes.plot(steps[:-1], np.where(excess[:-1] > 0, excess[:-1], np.nan), **style, label=label)
            slack = np.asarray(record.inexactness) / scale
            if len(slack):  # a joint fit records the objective only
                dotted = {**style, "linestyle": ":", "linewidth": 1}
                axes.plot(steps, np.where(slack > 0, slack, np.nan), **dotted)
        log_axis(axes.yaxis)
        axes.set_xlabel("alternation of scores and loadings")
        axes.set_ylabel("distance, relative to the objective")
        title = "Objective: distance to its last value"
        if any(records[k].inexactness for k in chosen):
            title += " (lines)\nlargest possible error of the map (dotted)"
        axes.set_title(title)
        axes.set_xlim(left=0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if axes.get_legend_handles_labels()[0] and len(chosen) > 1:
            axes.legend()
    return figure


def component_name(*numbers: int) -> str:
    """Return the name of components by their numbers from 0, such as "components 1, 3"."""
    return f"component{'s' if len(numbers) > 1 else ''} {', '.join(str(k + 1) for k in numbers)}"


def log_axis(axis: Any) -> None:
    """Make an axis logarithmic, with plain labels, since `text.parse_math` is off."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    low, high = sorted(axis.get_view_interval())
    if high < 30 * low:  # too few powers of ten to read the axis
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:  # marks between the powers of ten would have no labels, and take half the time of a report
        axis.set_minor_locator(NullLocator())


def _power(value: float) -> str:
    exponent = round(np.log10(value))
    return f"{value:g}" if -3 < exponent < 4 else f"10{superscript(exponent)}"


def plot_variance(variance: Variance) -> Figure:
    """Draw the cumulative explained variance, with that of PCA as the upper bound if it is known.

    Parameters
    ----------
    variance : Variance
        From `spcatv.report.inputs.variance_of`.

    Returns
    -------
    matplotlib Figure
        One point per number of components.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_variance
    >>> from spcatv.report.inputs import variance_of
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> model = SPCATV(2).fit(X)
    >>> plot_variance(variance_of(model, model.transform(X), None)).savefig("variance.svg")
    """
    numbers = np.arange(1, len(variance.own) + 1)
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        axes.plot(numbers, 100 * variance.together, **line_style(0), label="these components")
        if variance.ceiling is not None:
            style = {**line_style(1), "linestyle": "--"}
            axes.plot(numbers, 100 * variance.ceiling, **style, label="PCA, the upper bound")
        axes.set_ylim(bottom=0)
        axes.set_xticks(numbers if len(numbers) <= 12 else numbers[:: len(numbers) // 8])
        axes.set_xlim(0.7, len(numbers) + 0.3)
        axes.set_xlabel("number of components")
        axes.set_ylabel("explained variance (%)")
        axes.legend(loc="lower right")
    return figure


def plot_scores(
    scores: npt.ArrayLike,
    component: int = 0,
    *,
    groups: Sequence[Any] | None = None,
    variable: npt.ArrayLike | None = None,
    group_name: str = "group",
    variable_name: str = "variable",
) -> Figure:
    """Draw the scores of the samples on one component.

    Parameters
    ----------
    scores : array-like of shape (n_samples, K)
        From `transform`.
    component : int, default=0
        Which component.
    groups : sequence of n_samples labels, default=None
        One strip per group, each with its own colour and mark.
    variable : array-like of shape (n_samples,), default=None
        If given, the scores are drawn against it.
    group_name, variable_name : str
        For the axes.

    Returns
    -------
    matplotlib Figure
        One strip per group, or a scatter plot against the variable.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.report import plot_scores
    >>> scores = np.random.default_rng(0).standard_normal((20, 2))
    >>> age = np.arange(20, 40)
    >>> figure = plot_scores(scores, component=1, variable=age, variable_name="age in years")
    >>> figure.axes[0].get_xlabel()
    'age in years'
    """
    values = np.asarray(scores, dtype=np.float64)[:, component]
    members = group_members(groups, len(values))
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        if variable is None:
            _strips(axes, [(label, values[rows]) for label, rows in members])
            if groups is not None:
                axes.set_xlabel(shortened(group_name, 40))
        else:
            across = np.asarray(variable, dtype=np.float64)
            for number, (label, rows) in enumerate(members):
                style = {**line_style(number), "linestyle": "none", "alpha": 0.75}
                axes.plot(across[rows], values[rows], **style, label=label)
            axes.set_xlabel(shortened(variable_name, 40))
            if groups is not None:
                axes.legend(title=shortened(group_name, 24), loc="best")
        axes.set_ylabel(f"score on component {component + 1}")
    return figure


def group_members(groups: Sequence[Any] | None, n_samples: int) -> list[tuple[str, IntArray]]:
    """Return the samples of every group; the smallest of many groups are joined as "other"."""
    if groups is None:
        return [("all samples", np.arange(n_samples))]
    texts = [str(label) for label in groups]
    labels = np.array(
        ["missing" if text.strip().lower() in MISSING else text for text in texts], dtype=object
    )
    names, counts = np.unique(labels, return_counts=True)
    kept = list(names)
    if len(names) > MOST_GROUPS:
        largest = np.argsort(-counts, kind="stable")[: MOST_GROUPS - 1]
        kept = [names[k] for k in sorted(largest)]
    members: list[tuple[str, IntArray]] = [
        (shortened(str(name), 18), np.flatnonzero(labels == name)) for name in kept
    ]
    rest = np.flatnonzero(~np.isin(labels, kept))
    return [*members, ("other", rest)] if len(rest) else members


def shortened(text: str, length: int) -> str:
    """Put a text on one line, and shorten it in the middle to `length` characters."""
    line = " ".join(text.split())
    half = (length - 1) // 2
    return line if len(line) <= length else f"{line[:half]}…{line[-half:]}"


def _strips(axes: Axes, strips: Sequence[tuple[str, FloatArray]]) -> None:
    """Draw one strip of points per group, and its median."""
    for number, (_, values) in enumerate(strips):
        # a fixed spread rather than a random one, so that the same data give the same picture
        spread = 0.32 * (2 * ((np.arange(len(values)) * 0.618034) % 1) - 1)
        style = {**line_style(number), "linestyle": "none", "alpha": 0.7}
        axes.plot(number + spread, np.sort(values), **style)
        if len(values):
            axes.hlines(np.median(values), number - 0.4, number + 0.4, color="black", linewidth=2)
    axes.set_xticks(range(len(strips)), [f"{label}\n(n = {len(values)})" for label, values in strips])
    if len(strips) > 3:
        axes.tick_params(axis="x", rotation=90)
    axes.set_xlim(-0.6, len(strips) - 0.4)
    axes.grid(visible=False, axis="x")


def plot_stability(stability: Any) -> Figure:
    """Draw how well resampled fits agree with the components.

    Parameters
    ----------
    stability : Bootstrap, or any object with `dice` (n_resamples, K) and `selection_frequency` (K, P)
        From `spcatv.stability.bootstrap_components`.

    Returns
    -------
    matplotlib Figure
        Dice index of every resample with the reference, by component; and how many features are selected
        in at least a given share of the resamples.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_stability
    >>> from spcatv.stability import bootstrap_components
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> plot_stability(bootstrap_components(SPCATV(1), X, n_resamples=2)).savefig("stability.svg")
    """
    dice = np.asarray(stability.dice, dtype=np.float64)
    frequency = np.asarray(stability.selection_frequency, dtype=np.float64)
    shares = np.linspace(0.01, 1, 100)
    with new_figure(4.6, 5.6) as figure:
        upper, lower = figure.subplots(2, 1)
        _strips(upper, [(str(k + 1), column) for k, column in enumerate(dice.T)])
        upper.set_ylim(-0.03, 1.03)
        upper.set_ylabel("Dice index with all samples")
        upper.set_title("Agreement of resampled fits")
        for k, row in enumerate(frequency):
            style = {**line_style(k), "marker": None}
            kept = [100 * np.mean(row >= share) for share in shares]
            lower.plot(100 * shares, kept, **style, label=component_name(k))
            lower.plot(100 * shares[9::20], kept[9::20], **{**line_style(k), "linestyle": "none"})
        lower.set_xlabel("selected in at least this share of resamples (%)")
        lower.set_ylabel("features (%)")
        lower.set_ylim(bottom=0)
        lower.set_title("How often features are selected")
        lower.legend()
    return figure
