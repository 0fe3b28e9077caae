"""scikit-learn's callbacks as a listener, where scikit-learn has them (>= 1.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from spcatv._util.types import FloatArray
from spcatv.progress.events import AlternationEnded, ComponentEnded, ComponentStarted, Event
from spcatv.progress.listeners import listening

Method = TypeVar("Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn has no types
    HAS_CALLBACKS: bool

    class CallbackSupportMixin:
        """Base class of estimators with callbacks."""

    def with_callbacks(method: Method) -> Method:
        """Run the callbacks of an estimator in a method."""

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks

        HAS_CALLBACKS = True
    except ImportError:  # scikit-learn < 1.9
        HAS_CALLBACKS = False

        class CallbackSupportMixin:
            """Stands in for scikit-learn's mixin where there is none."""

        def with_callbacks(method):
            """Leave the method as it is."""
            return method


__all__ = ["HAS_CALLBACKS", "CallbackSupportMixin", "fit_task", "forwarded_callbacks", "with_callbacks"]

# fitted attributes of an estimator that ends with the given components and the matrix that mixes their scores
Attributes = Callable[[FloatArray, FloatArray | None], dict[str, Any]]


class _CallbackListener:
    """Runs callbacks: one task per component, with one subtask per alternation."""

    def __init__(self, estimator: Any, root: Any, X: FloatArray, attributes: Attributes) -> None:
        self._of_fit = {"estimator": estimator, "X": X}
        self._root, self._attributes = root, attributes
        self._component: Any = None

    def hear(self, event: Event, /) -> bool:
        """Run the task of an alternation or a component; a callback may stop either."""
        match event:
            case ComponentStarted():
                self._component = self._root.subcontext(task_name="component", max_subtasks=None)
                self._component.call_on_fit_task_begin(**self._of_fit)
            case AlternationEnded():
                figures = {"objective": event.objective, "relative_gap": event.relative_gap}
                task = self._component.subcontext(task_name="alternation")
                task.call_on_fit_task_begin(**self._of_fit, metadata=figures)
                return bool(task.call_on_fit_task_end(**self._of_fit, metadata=figures))
            case ComponentEnded():
                stop = self._component.call_on_fit_task_end(
                    **self._of_fit,
                    metadata={"diagnostics": event.diagnostics},
                    reconstruction_attributes=lambda: self._attributes(event.components, event.mixing),
                )
                return bool(stop)
        return False


@contextmanager
def fit_task(estimator: Any, X: FloatArray, attributes: Attributes) -> Iterator[None]:
    """Run the callbacks of an estimator for the fit inside a ``with`` block.

    The `fit` of the estimator is decorated with `with_callbacks`; when the block ends it has its
    ``components_``. X is passed on to callbacks that ask for it. `attributes` makes the fitted attributes of
    an estimator that ends with the given components and mixing.
    """
    if not hasattr(estimator, "_skl_callbacks") and not hasattr(estimator, "_parent_callback_ctx"):
        yield
        return
    root = estimator._init_callback_context(max_subtasks=int(estimator.n_components))
    root.call_on_fit_task_begin(estimator=estimator, X=X)
    with listening(_CallbackListener(estimator, root, X, attributes)):
        yield
    root.call_on_fit_task_end(
        estimator=estimator,
        X=X,
        reconstruction_attributes=lambda: attributes(estimator.components_, estimator.mixing_),
    )


@contextmanager
def forwarded_callbacks(outer: Any, inner: Any) -> Iterator[None]:
    """Let `inner`, which does the work of `outer`, run the callbacks of `outer` inside a ``with`` block.

    The fit of `inner` takes the place of that of `outer` in the tree of tasks, also below a
    meta-estimator; the callbacks see `inner` and its data.
    """
    forwarded = {
        name: getattr(outer, name)
        for name in ("_skl_callbacks", "_parent_callback_ctx")
        if hasattr(outer, name)
    }
    for name, value in forwarded.items():
        setattr(inner, name, value)
    try:
        yield
    finally:
        for name in forwarded:
            delattr(inner, name)
