"""`spca-tv select`: the penalty chosen by cross-validation, and how far the components can be trusted."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spcatv.cli.errors import InputError
from spcatv.cli.folder import claimed_folder
from spcatv.cli.groups import Labels, find_groups, group_labels
from spcatv.cli.inputs import Source
from spcatv.cli.interruption import rerun_hint_on_interrupt
from spcatv.cli.options import SelectOptions
from spcatv.cli.outputs import Data, Outcome, summary_text, write_outcome
from spcatv.cli.progress import show_warnings
from spcatv.cli.request import Request, add_command, checked_request
from spcatv.cli.selection_files import Selected, choice_text, stability_text, write_selection
from spcatv.cli.sparsity import check_sparsity
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters
from spcatv.progress import StageStarted, listening, tell
from spcatv.selection import SPCATVCV, dask_backend
from spcatv.selection.folds import make_folds
from spcatv.selection.search import ratio_pairs
from spcatv.stability import Bootstrap, bootstrap_components

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DESCRIPTION = """\
Choose alpha, l1_ratio and tv_ratio by cross-validation, fit all samples with them, and
resample to see which voxels would be found again. Writes what `fit` writes for the
chosen model, the table of settings, and stability maps."""
EXAMPLES = """\
examples:
  spca-tv select 'maps/*.nii.gz' --output results --n-jobs -1
  spca-tv select 'maps/*.nii.gz' --sparsity 0.9 --rule stability --output results
  spca-tv select participants.tsv --mask gm.nii.gz --groups subject --output results
  spca-tv select --array X.npy --shape 100,100 --alphas 0.05,0.1,0.2 --output results
  spca-tv select 'maps/*.nii.gz' --scheduler tcp://host:8786 --output results
"""
# [protocol://]host:port, and what may follow it
ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+(/\S*)?")


def add_parser(commands: Subparsers) -> argparse.ArgumentParser:
    """Declare the command and its options."""
    return add_command(
        commands,
        SelectOptions,
        help="choose the penalty by cross-validation, and measure stability",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )


def run(arguments: argparse.Namespace) -> None:
    """Choose, fit, resample, and write the results."""
    request = checked_request(arguments, SelectOptions, _checked)
    display = request.display()
    with (
        rerun_hint_on_interrupt(request.output, arguments.argv),
        claimed_folder(request.output, overwrite=request.options.overwrite) as folder,
    ):
        with show_warnings(), display, listening(display):
            selected = _select(request)
        write_outcome(selected.outcome, folder, config=request.config)
        write_selection(selected, folder)
    if not request.quiet:
        print(summary_text(selected.outcome, request.output))


def _checked(options: SelectOptions, sources: Sequence[Source]) -> SelectOptions:
    """Refuse what no selection could use; the table of the groups is found."""
    template = SPCATV(**options.model_parameters(), dtype=options.dtype)
    check_parameters(template)
    ratio_pairs(template, options.l1_ratios, options.tv_ratios)
    check_sparsity(options, options.l1_ratios)
    if isinstance(options.alphas, tuple):
        for alpha in options.alphas:
            check_parameters(SPCATV(alpha=alpha))
    elif options.alphas is not None and min(options.l1_ratios) <= 0:
        raise InputError(
            "--l1-ratios holds 0: without an l1 penalty there is no alpha that kills everything to start "
            "from; name the values with --alphas"
        )
    if not 0 <= options.min_sparsity <= 1:
        raise InputError(f"--min-sparsity is a share of zeros, from 0 to 1; got {options.min_sparsity:g}")
    if options.scheduler is not None and not ADDRESS.fullmatch(options.scheduler):
        raise InputError(
            f"--scheduler {options.scheduler} is no address with a port, such as tcp://host:8786"
        )
    return replace(options, groups=find_groups(options, sources))


def _select(request: Request[SelectOptions]) -> Selected:
    """Read the samples, compare the settings, and resample with the chosen one."""
    options = request.options
    with _cluster(options.scheduler) as client:
        data = request.read()
        labels = group_labels(options.groups, len(data.names), request.rows)
        _check_folds(options, data, labels)
        with _workers(client, data):
            search = _compared(options, data, labels)
            stability = _resampled(options, data, labels, search.best_estimator_)
    summary = [data.report, choice_text(search)]
    if stability is not None:
        summary.append(stability_text(stability))
    return Selected(Outcome(data, search.best_estimator_, tuple(summary)), search, stability)


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """A client of the Dask cluster, there before any data are read; None without an address."""
    with ExitStack() as stack:
        client = None
        if address is not None:
            try:
                client = stack.enter_context(dask_backend(address))
            except ConnectionError as error:
                raise InputError(f"--scheduler: {error}") from error
        yield client


@contextmanager
def _workers(client: Any, data: Data) -> Iterator[None]:
    """Let the fits run on the cluster, every worker of which gets the data once; else on this machine."""
    if client is None:
        yield
        return
    with dask_backend(client, data.matrix, data.structure):
        yield


def _check_folds(options: SelectOptions, data: Data, labels: Labels | None) -> None:
    try:
        make_folds(options.cv, data.matrix, groups=labels)
    except ValueError as error:
        raise InputError(f"--cv {options.cv} does not go with {len(data.names)} samples: {error}") from error


def _compared(options: SelectOptions, data: Data, labels: Labels | None) -> SPCATVCV:
    """Fit every setting on every fold, and all samples with the one that the rule chooses."""
    # a number of values, or the values, or neither where a share of zeros is wanted
    alphas: dict[str, Any] = (
        {"n_alphas": options.alphas} if isinstance(options.alphas, int) else {"alpha": options.alphas}
    )
    search = SPCATVCV(
        structure=data.structure,
        dtype=data.dtype,
        **alphas,
        l1_ratio=options.l1_ratios,
        tv_ratio=options.tv_ratios,
        sparsity=options.sparsity,
        cv=options.cv,
        rule=options.rule,
        min_sparsity=options.min_sparsity,
        n_jobs=_n_jobs(options),
        **options.model_parameters(),
    )
    return search.fit(data.matrix, groups=labels)


def _resampled(options: SelectOptions, data: Data, labels: Labels | None, model: SPCATV) -> Bootstrap | None:
    """Fit resamples of the samples; None if none are wanted."""
    if options.n_bootstraps == 0:
        return None
    tell(StageStarted(f"Resampling {options.n_bootstraps} times"))
    return bootstrap_components(
        model,
        data.matrix,
        n_resamples=options.n_bootstraps,
        groups=labels,
        random_state=options.seed,
        n_jobs=_n_jobs(options),
    )


def _n_jobs(options: SelectOptions) -> int | None:
    """Workers on this machine; those of a cluster are all used."""
    return None if options.scheduler is not None else options.n_jobs
