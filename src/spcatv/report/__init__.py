"""Report of a fitted model as one HTML page, and its figures (docs/report.md)."""

try:
    import jinja2  # noqa: F401
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"reports are made with Jinja2 and matplotlib ({error}); install them with: "
        'pip install "spca-tv[report]"'
    ) from error

from spcatv.report.explorer import explore
from spcatv.report.figures import (
    plot_convergence,
    plot_path,
    plot_scores,
    plot_stability,
    plot_trade,
    plot_variance,
)
from spcatv.report.inputs import Column, ReportError
from spcatv.report.maps import plot_components, thumbnails
from spcatv.report.page import Report, generate_report

__all__ = [
    "Column",
    "Report",
    "ReportError",
    "explore",
    "generate_report",
    "plot_components",
    "plot_convergence",
    "plot_path",
    "plot_scores",
    "plot_stability",
    "plot_trade",
    "plot_variance",
    "thumbnails",
]
