"""`spca-tv select`: the penalty is chosen by cross-validation, and the stability of components measured.

`spca-tv explore` is the same with a page of all settings, and without resamples.
"""

from __future__ import annotations

import argparse
import re
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from spcatv._util.devices import check_device
from spcatv._util.parameters import EXPLORE
from spcatv.cli.config import Options, replaced
from spcatv.cli.parser import InputError, TableColumn, input_errors
from spcatv.cli.pipeline import (
    Outcome,
    Request,
    announce,
    check_number,
    find_groups,
    find_labels,
    model_parameters,
    parts_of,
    read_samples,
    run_command,
    verdicts,
    with_number,
)
from spcatv.estimator import SPCATV
from spcatv.results import SampleSet
from spcatv.selection import SPCATVCV, dask_backend
from spcatv.selection.cross_validation import Exploration, explore_settings, make_folds
from spcatv.stability import Bootstrap, bootstrap_components

# Values of the options that `explore` lacks.
NOT_OF_EXPLORE: dict[str, Any] = {
    **dict.fromkeys(("alpha", "l1_ratio", "n_alphas", "min_sparsity", "scheduler", "title")),
    "n_bootstraps": 0,
    "explore": True,
}
# [protocol://]host:port, and what may follow it
ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+(/\S*)?")


def run(arguments: argparse.Namespace) -> None:
    """Choose, fit, resample, and write the results."""
    run_command(arguments, _checked, _select)


def search_parameters(options: Options) -> dict[str, Any]:
    """Return the parameters of `SPCATVCV` that have a value, without `dtype` and `n_jobs`."""
    own = {name: getattr(options, name) for name in ("n_alphas", "min_sparsity", "cv", "rule")}
    return {**model_parameters(options), **{name: value for name, value in own.items() if value is not None}}


def _checked(options: Options) -> Options:
    """Refuse options that no selection could use, and find the table of the groups."""
    options = Options(**{**NOT_OF_EXPLORE, **vars(options)})
    if options.explore:
        import_module("spcatv.report")  # a missing extra is reported before the work
        if options.alpha is not None:
            raise InputError("--explore compares --sparsity and --smoothness: leave out --alpha")
    SPCATVCV(**search_parameters(options), dtype=options.dtype).check()
    check_number(options)
    if options.scheduler is None:
        check_device(options.device)
    elif not ADDRESS.fullmatch(options.scheduler):
        raise InputError(
            f"--scheduler {options.scheduler} is not an address with a port, such as tcp://host:8786"
        )
    else:
        options.n_jobs = None  # all workers of the cluster
    options.groups_table = find_groups(options)
    if options.groups_table is not None:
        options.groups = TableColumn(options.groups_table.file, options.groups.name)
    return options


def _select(request: Request) -> Outcome:
    """Read the samples, compare the settings, and resample and split with the chosen one."""
    options = request.options
    with ExitStack() as stack:
        client = None
        if options.scheduler is not None:  # connected before any data are read
            with input_errors(ConnectionError, prefix="--scheduler: "):
                client = stack.enter_context(dask_backend(options.scheduler))
        samples = read_samples(request)
        groups = find_labels(options, samples)
        labels = groups.labels
        if options.groups is None and labels is not None:  # not more folds than there are people or files
            options = replaced(options, cv=min(options.cv, len(set(labels))))
        unusable = f"--cv {options.cv} does not go with {len(samples.names)} samples: "
        with input_errors(ValueError, prefix=unusable):
            make_folds(options.cv, samples.matrix, groups=labels)
        announce(request, samples)
        if client is not None:  # every worker of a cluster gets the data once
            stack.enter_context(dask_backend(client, samples.matrix, samples.structure))
        options, count = with_number(options, samples)
        search = _compared(options, samples, labels)
        model = search.best_estimator_
        stability = _resampled(options, samples, labels, model)
        n_splits = options.n_splits if options.command == "select" else 0
        halves, verdict = verdicts(replaced(options, n_splits=n_splits), samples, model, labels)
        exploration = _explored(options, samples, search) if options.explore else None
    return Outcome(samples, model, groups, count, halves, verdict, search, stability, exploration)


def _compared(options: Options, samples: SampleSet, labels: Any) -> SPCATVCV:
    """Fit every setting on every fold, and all samples with the one that the rule chooses."""
    search = SPCATVCV(
        structure=samples.structure,
        dtype=samples.dtype,
        standardize=samples.adjustment.standardize,
        n_jobs=options.n_jobs,
        **{**search_parameters(options), "cv": _splitter(options, labels)},
    )
    return search.fit(samples.matrix, groups=labels, confounds=samples.adjustment.confounds)


def _explored(options: Options, samples: SampleSet, search: SPCATVCV) -> Exploration:
    """Fit every setting to all samples and to random halves."""
    return explore_settings(
        search,
        samples.matrix,
        confounds=samples.adjustment.confounds,
        n_splits=options.n_splits if options.command == "explore" else EXPLORE.n_splits,
        random_state=options.seed,
    )


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
