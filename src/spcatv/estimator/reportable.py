"""Estimators that can tell about themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spcatv.report import Report


class ReportMixin:
    """Gives an estimator the method `generate_report`."""

    def generate_report(self, **options: Any) -> Report:
        """Make a page about the fitted model that a browser shows without any network.

        Needs the extra "report".

        Parameters
        ----------
        **options
            As for `spcatv.report.generate_report`, such as ``title`` or ``data``.

        Returns
        -------
        Report
            With ``save_as_html(path)`` and ``open_in_browser()``.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.datasets import make_dots
        >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
        >>> model = SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)
        >>> report = model.generate_report(title="Dots", data=dots.X)
        >>> report.save_as_html("dots.html").name
        'dots.html'
        """
        # imported when it is asked for: nobody else needs what it brings along
        from spcatv.report import generate_report

        return generate_report(self, **options)
