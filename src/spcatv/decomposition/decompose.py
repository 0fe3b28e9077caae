"""K components: all at once, or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spcatv._util.devices import to_host
from spcatv.data import CentredData
from spcatv.data.leading import singular_scores
from spcatv.decomposition.alternation import Limits
from spcatv.decomposition.component import diagnose, unit_loading
from spcatv.decomposition.deflation import deflate
from spcatv.decomposition.joint import JointFit, JointFitter
from spcatv.decomposition.plan import Decomposition, Journal, Plan
from spcatv.decomposition.starts import JointStart, given_start, random_scores, varimax
from spcatv.decomposition.warm_start import WarmStart
from spcatv.decomposition.weights import ROUNDING, LoadingPenalty, Request, SparsityTarget
from spcatv.progress import SILENT, ComponentEnded, ComponentStarted, Listener
from spcatv.progress.compilation import working_seconds


def prepare(data: CentredData, plan: Plan, n_components: int) -> None:
    """Compress large data, once for all components."""
    if not data.gram_pays:
        data.compressed(plan.n_directions + n_components)


def decompose(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    *,
    rng: np.random.RandomState,
    warm_start: WarmStart | None = None,
    listener: Listener = SILENT,
    journal: Journal | None = None,
) -> Decomposition:
    """Fit K components, all at once or by deflation.

    A request holds the weights of a component, or its wanted share of zeros. Random starts come from `rng`;
    a warm start goes ahead of the plan's `init`. The listener receives components and alternations, and may
    stop the fit early: only then are there fewer than K. The journal stores components as soon as they are
    done.
    """
    prepare(data, plan, len(requests))
    fit = _fit_jointly if plan.joint else deflate
    return fit(data, requests, plan, rng, warm_start, listener, journal)


def _fit_jointly(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    rng: np.random.RandomState,
    warm_start: WarmStart | None,
    listener: Listener,
    journal: Journal | None,
) -> Decomposition:
    listener.hear(ComponentStarted(1, len(requests), plan.tol))

    def fit() -> tuple[JointFit, float, Any]:
        started = working_seconds()
        limits = Limits(plan.tol, plan.max_iter, plan.keep_warm_start, listener)
        n_directions = plan.n_directions + len(requests)
        fitter = JointFitter(data, limits, lambda r: r.solver(plan.method, plan.dtype), n_directions)
        start = _joint_start(data, plan, requests, rng, warm_start)
        result = fitter.fit(requests, start, () if warm_start is None else warm_start.last)
        return result, (working_seconds() - started) / len(requests), rng.get_state()

    result, seconds, state = fit() if journal is None else journal.recall("components", fit)
    rng.set_state(state)
    return _joint_decomposition(data, requests, plan, result, seconds, listener)


def _joint_start(
    data: CentredData,
    plan: Plan,
    requests: Sequence[Request],
    rng: np.random.RandomState,
    warm_start: WarmStart | None,
) -> JointStart | None:
    """Return what to start from, or None for the default.

    A fit with given weights goes on from the scores of the last one. A wanted sparsity always starts from the
    same scores, so that its result does not depend on other settings.
    """
    n_components, structure = len(requests), requests[0].structure
    if warm_start is not None and isinstance(requests[0], SparsityTarget):
        return warm_start.start
    last = () if warm_start is None else warm_start.last
    if len(last) == n_components and not any(component.is_empty for component in last):
        return given_start(data, np.column_stack([component.u for component in last]), structure)
    if isinstance(plan.init, np.ndarray):
        given = data.dot_many(plan.init) if plan.gives_loadings(data.shape) else plan.init.T
    elif plan.init == "svd":
        leading = singular_scores(data, n_components).T
        given = leading @ varimax(to_host(data.maps(leading)))
    elif plan.init == "random":
        given = random_scores(data.shape[0], n_components, rng).T
    else:
        return None
    left, lengths, right = np.linalg.svd(given, full_matrices=False)
    rank = np.count_nonzero(lengths > ROUNDING * lengths[0])
    return given_start(data, (left @ right)[:, :rank], structure)


def _joint_decomposition(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    result: JointFit,
    seconds: float,
    listener: Listener,
) -> Decomposition:
    """Order components by explained variance, give them unit loadings, and describe them."""
    found, raw = list(result.components), result.raw_scores
    lengths = np.array([float(np.linalg.norm(to_host(c.back))) for c in found])
    order = np.arange(len(found))
    if len({r.weights if isinstance(r, LoadingPenalty) else r.sparsity for r in requests}) == 1:
        order = np.argsort(-lengths, kind="stable")
    found, raw, lengths = [found[k] for k in order], raw[:, order], lengths[order]
    loadings = np.stack([unit_loading(to_host(component.v)) for component in found])
    # the length of every loading, negative if its sign was turned
    factors = np.array([float(to_host(c.v) @ unit) for c, unit in zip(found, loadings, strict=True)])
    signs = np.where(factors < 0, -1.0, 1.0)
    scores = np.column_stack([c.u for c in found]) * signs * lengths
    of_units = raw / np.where(factors == 0, 1.0, factors)
    mixing = np.linalg.lstsq(of_units, scores, rcond=None)[0]
    # an empty component has an empty map
    patterns = np.stack([np.resize(to_host(c.back), data.shape[1]) for c in found]) * signs[:, None]
    records = []
    for k, component in enumerate(found):
        records.append(diagnose(component, seconds, data, loadings[k], scores[:, k], patterns[k]))
        if k > 0:
            listener.hear(ComponentStarted(k + 1, len(found), plan.tol))
        listener.hear(ComponentEnded(k + 1, len(found), records[-1], loadings, mixing))
    return Decomposition(
        components=loadings,
        singular_values=lengths,
        patterns=patterns,
        mixing=mixing,
        diagnostics=tuple(records),
        weights=tuple(component.weights for component in found),
        fitted=tuple(found) if plan.keep_warm_start else (),
        start=result.start if plan.keep_warm_start else None,
    )
