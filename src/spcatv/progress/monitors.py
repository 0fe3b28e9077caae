"""Watching a fit: lines on the terminal, and scikit-learn's callbacks where it has them (>= 1.9)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from spcatv._util.types import FloatArray
from spcatv.decomposition import ComponentDiagnostics, ProgressMonitor

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn < 1.9
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin where there is none."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the method as it is."""
        return method


__all__ = [
    "HAS_CALLBACKS",
    "CallbackMonitor",
    "CallbackSupportMixin",
    "MonitorGroup",
    "PrintingMonitor",
    "with_callbacks",
]


class PrintingMonitor:
    """Prints a line a component, and a line an alternation if `verbose` is above 1."""

    def __init__(self, verbose: int, n_components: int) -> None:
        self._verbose = verbose
        self._n_components = n_components
        self._current = 0
        self._started = 0.0

    def component_begins(self, number: int) -> None:
        """Start the clock."""
        self._current, self._started = number, time.perf_counter()

    def alternation_ended(self, number: int, objective: float, relative_gap: float) -> bool:
        """Print the alternation's figures."""
        if self._verbose > 1:
            print(
                f"[SPCATV] component {self._current + 1}/{self._n_components}, alternation {number}: "
                f"objective {objective:.8g}, relative gap {relative_gap:.2e}, "
                f"{time.perf_counter() - self._started:.2f} s"
            )
        return False

    def component_ended(self, number: int, diagnostics: ComponentDiagnostics, components: FloatArray) -> bool:
        """Print the component's figures."""
        state = "converged" if diagnostics.converged else "NOT converged"
        print(
            f"[SPCATV] component {number + 1}/{self._n_components} {state}: "
            f"objective {diagnostics.objective:.8g}, relative gap {diagnostics.relative_gap:.2e}, "
            f"{diagnostics.n_alternations} alternations, {100 * diagnostics.sparsity:.1f} % zeros, "
            f"{diagnostics.seconds:.2f} s"
        )
        return False


class CallbackMonitor:
    """Runs scikit-learn's callbacks: a task a component, and in it a task an alternation.

    Parameters
    ----------
    estimator : estimator
        The one being fitted.
    root : CallbackContext
        Its fit task.
    X : ndarray
        Training data, passed on to callbacks that ask for it.
    max_iter : int
        Most alternations a component.
    attributes : callable
        Makes the fitted attributes of an estimator that ends with the given components.
    """

    def __init__(
        self,
        estimator: Any,
        root: Any,
        X: FloatArray,
        max_iter: int,
        attributes: Callable[[FloatArray], dict[str, Any]],
    ) -> None:
        self._estimator, self._root, self._X = estimator, root, X
        self._max_iter = max_iter
        self._attributes = attributes
        self._component: Any = None

    def component_begins(self, number: int) -> None:
        """Open the component's task."""
        self._component = self._root.subcontext(task_name="component", max_subtasks=self._max_iter)
        self._component.call_on_fit_task_begin(estimator=self._estimator, X=self._X)

    def alternation_ended(self, number: int, objective: float, relative_gap: float) -> bool:
        """Run the alternation's task; a callback may end the component here."""
        task = self._component.subcontext(task_name="alternation")
        metadata = {"objective": objective, "relative_gap": relative_gap}
        task.call_on_fit_task_begin(estimator=self._estimator, X=self._X, metadata=metadata)
        return bool(task.call_on_fit_task_end(estimator=self._estimator, X=self._X, metadata=metadata))

    def component_ended(self, number: int, diagnostics: ComponentDiagnostics, components: FloatArray) -> bool:
        """Close the component's task; a callback may end the fit here."""
        return bool(
            self._component.call_on_fit_task_end(
                estimator=self._estimator,
                X=self._X,
                metadata={"diagnostics": diagnostics},
                reconstruction_attributes=lambda: self._attributes(components),
            )
        )


class MonitorGroup:
    """Several monitors as one: all are told, and any may stop."""

    def __init__(self, monitors: Sequence[ProgressMonitor]) -> None:
        self._monitors = tuple(monitors)

    def component_begins(self, number: int) -> None:
        """Tell all."""
        for monitor in self._monitors:
            monitor.component_begins(number)

    def alternation_ended(self, number: int, objective: float, relative_gap: float) -> bool:
        """Tell all, and stop if any says so."""
        votes = [monitor.alternation_ended(number, objective, relative_gap) for monitor in self._monitors]
        return any(votes)

    def component_ended(self, number: int, diagnostics: ComponentDiagnostics, components: FloatArray) -> bool:
        """Tell all, and stop if any says so."""
        votes = [monitor.component_ended(number, diagnostics, components) for monitor in self._monitors]
        return any(votes)
