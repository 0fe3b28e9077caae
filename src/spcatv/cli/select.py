"""`spca-tv select`: the penalty is chosen by cross-validation, and the stability of components measured."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.devices import check_device
from spcatv._util.tables import Table
from spcatv.cli.config import Options, replaced
from spcatv.cli.display import safe_print
from spcatv.cli.fit import summary_text
from spcatv.cli.parser import InputError
from spcatv.cli.pipeline import (
    Groups,
    Request,
    check_number,
    find_groups,
    find_labels,
    groups_text,
    make_request,
    model_parameters,
    n_workers,
    number_text,
    parts_of,
    verdicts,
    with_number,
)
from spcatv.estimator import SPCATV
from spcatv.results import SampleSet, write_results, write_selection
from spcatv.selection import SPCATVCV, ComponentCount, dask_backend
from spcatv.selection.folds import make_folds
from spcatv.selection.path import setting_text
from spcatv.stability import Bootstrap, SplitHalves, bootstrap_components

# [protocol://]host:port, and what may follow it
ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+(/\S*)?")
Tables = dict[Path, Table]


def run(arguments: argparse.Namespace) -> None:
    """Choose, fit, resample, and write the results."""
    tables: Tables = {}  # as they were read while the options were checked
    request = make_request(arguments, partial(_checked, tables))
    if request.is_finished():
        return
    with request.claimed() as folder:
        with request.working():
            samples, groups, count, search, stability, (halves, verdict) = _select(request, tables)
        model = search.best_estimator_
        with request.writing():
            metrics = write_results(folder, samples, model, config=request.config, halves=halves, count=count)
            write_selection(folder, samples, search, stability, grouped_by=groups.column)
    if not request.options.quiet:
        lines = [*groups_text(samples, groups), *number_text(count), _choice_text(search)]
        if stability is not None:
            lines.append(_stability_text(stability))
        safe_print(summary_text(lines, metrics, request.options.output, model, verdict))


def search_parameters(options: Options) -> dict[str, Any]:
    """Return the parameters of `SPCATVCV` that have a value, without `dtype` and `n_jobs`."""
    own = {name: getattr(options, name) for name in ("n_alphas", "min_sparsity", "cv", "rule")}
    return {**model_parameters(options), **{name: value for name, value in own.items() if value is not None}}


def _checked(tables: Tables, options: Options) -> Options:
    """Refuse options that no selection could use, and find the table of the groups."""
    SPCATVCV(**search_parameters(options), dtype=options.dtype).check()
    check_number(options)
    if options.scheduler is None:
        check_device(options.device)
    if options.alpha == "grid" and options.l1_ratio is not None and min(options.l1_ratio) <= 0:
        raise InputError(
            "--l1-ratio holds 0: without an l1 penalty there is no alpha that makes every loading zero to "
            "start from; name the values with --alpha"
        )
    if options.scheduler is not None and not ADDRESS.fullmatch(options.scheduler):
        raise InputError(
            f"--scheduler {options.scheduler} is not an address with a port, such as tcp://host:8786"
        )
    return replaced(options, groups=find_groups(options, tables))


def _select(
    request: Request, tables: Tables
) -> tuple[
    SampleSet, Groups, ComponentCount | None, SPCATVCV, Bootstrap | None, tuple[SplitHalves | None, str]
]:
    """Read the samples, compare the settings, and resample and split with the chosen one."""
    options = request.options
    with _cluster(options.scheduler) as client:
        samples = request.read()
        groups = find_labels(options, samples, tables)
        labels = groups.labels
        if options.groups is None and labels is not None:  # not more folds than there are people or files
            options = replaced(options, cv=min(options.cv, len(set(labels))))
        _check_folds(options, samples, labels)
        request.announce(samples)
        # every worker of a cluster gets the data once
        with nullcontext() if client is None else dask_backend(client, samples.matrix, samples.structure):
            options, count = with_number(options, samples)
            search = _compared(options, samples, labels)
            stability = _resampled(options, samples, labels, search.best_estimator_)
            halves = verdicts(options, samples, search.best_estimator_, labels)
    return samples, groups, count, search, stability, halves


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Give a client of the Dask cluster, connected before any data are read; None without an address."""
    with ExitStack() as stack:
        client = None
        if address is not None:
            try:
                client = stack.enter_context(dask_backend(address))
            except ConnectionError as error:
                raise InputError(f"--scheduler: {error}") from error
        yield client


def _check_folds(options: Options, samples: SampleSet, labels: Any) -> None:
    try:
        make_folds(options.cv, samples.matrix, groups=labels)
    except ValueError as error:
        raise InputError(
            f"--cv {options.cv} does not go with {len(samples.names)} samples: {error}"
        ) from error


def _compared(options: Options, samples: SampleSet, labels: Any) -> SPCATVCV:
    """Fit every setting on every fold, and all samples with the one that the rule chooses."""
    search = SPCATVCV(
        structure=samples.structure,
        dtype=samples.dtype,
        standardize=samples.adjustment.standardize,
        n_jobs=n_workers(options),
        **{**search_parameters(options), "cv": _splitter(options, labels)},
    )
    return search.fit(samples.matrix, groups=labels, confounds=samples.adjustment.confounds)


def _splitter(options: Options, labels: Any) -> Any:
    """Return the number of folds, or a splitter if `--shuffle` or `--no-shuffle` is given."""
    if options.shuffle is None:
        return options.cv
    from sklearn.model_selection import GroupKFold, KFold

    kind = KFold if labels is None else GroupKFold
    return kind(options.cv, shuffle=options.shuffle, random_state=options.seed if options.shuffle else None)


def _resampled(options: Options, samples: SampleSet, labels: Any, model: SPCATV) -> Bootstrap | None:
    """Fit resamples of the samples; None with `--n-bootstraps 0`."""
    if options.n_bootstraps == 0:
        return None
    return bootstrap_components(
        model,
        samples.matrix,
        n_resamples=options.n_bootstraps,
        random_state=options.seed,
        **parts_of(options, samples, labels),
    )


def _choice_text(search: SPCATVCV) -> str:
    """Return the chosen setting and the reason, in two lines."""
    best, results = search.best_index_, search.cv_results_
    explained = 100 * results["mean_test_explained"][best]
    above = 100 * (results["mean_test_error"][best] / np.nanmin(results["mean_test_error"]) - 1)
    n_settings, chosen = len(results["params"]), setting_text(search.best_params_)
    compared = f"Compared {n_settings} settings on {search.n_splits_} folds, chosen: {chosen}"
    if n_settings == 1:
        compared = f"One setting, {chosen}, on {search.n_splits_} folds: there was nothing to choose from"
    return (
        f"{compared}\n"
        f"Why (rule {search.rule}): {search.choice_reason_}; held-out error {above:.1f} % above the lowest, "
        f"{explained:.1f} % of the held-out variance explained"
    )


def _stability_text(stability: Bootstrap) -> str:
    """Return a line about the similarity of the resampled fits."""
    by_component = ", ".join(f"{value:.2f}" for value in stability.dice.mean(axis=0))
    return f"Resampled {len(stability.dice)} times: mean Dice index by component {by_component}"
