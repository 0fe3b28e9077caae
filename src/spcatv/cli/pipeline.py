"""Steps that `fit` and `select` share, from the options to the verdicts on the components."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.matching import match_rows
from spcatv._util.parameters import FIT
from spcatv._util.tables import TABLE_SUFFIXES, Table, read_table
from spcatv.cli.app import ARRAY, FIELDS, IMAGES
from spcatv.cli.arrays import read_array
from spcatv.cli.config import Options, OptionTable, config_text, effective_options, refuse, replaced
from spcatv.cli.display import complain, safe_print, show_page, show_progress, show_warnings
from spcatv.cli.explore import write_explorer
from spcatv.cli.fields import read_fields
from spcatv.cli.images import IMAGE_DTYPE, read_images
from spcatv.cli.inputs import SampleFiles, find_bids_images, is_field, participants_of, sample_files
from spcatv.cli.parser import InputError, input_errors
from spcatv.cli.resume import is_finished, kept_work, remove_checkpoint, rerun_hint_on_interrupt
from spcatv.cli.summary import summary_text
from spcatv.estimator import SPCATV
from spcatv.estimator.verdicts import verdict_lines
from spcatv.results import SampleSet, claimed_folder, write_results, write_selection, writing_results
from spcatv.results.layout import CONFIG, EXPLORER
from spcatv.selection import SPCATVCV, ComponentCount, count_components
from spcatv.selection.cross_validation import Exploration
from spcatv.stability import Bootstrap, SplitHalves, split_halves

AUTO = "auto"
# Splits of `--n-splits auto`, and the smallest numbers of samples and of groups for them: fewer than six
# groups have no ten different halves.
AUTO_SPLITS, LEAST_SAMPLES, LEAST_GROUPS = 10, 10, 6
# Values of the data matrix up to which `fit` splits it unasked: each split takes about as long as the fit.
MOST_VALUES = 50_000_000
COLUMNS_OF_WHAT = "--confounds-columns names columns of a table: give the table with --confounds TSV"


@dataclass(frozen=True)
class Request:
    """Options of a command, checked as far as possible without reading data."""

    options: Options  # effective options
    files: tuple[SampleFiles, ...] | None  # the files of every sample; ``None`` for an array
    config: str  # the effective configuration


@dataclass(frozen=True)
class Groups:
    """Samples that stay together."""

    # one per sample, equal for samples that stay together; None if all are on their own
    labels: Any
    column: str | None = None  # the column of `--groups`
    remark: str = ""  # how its rows were found


@dataclass(frozen=True)
class Outcome:
    """Fitted model, and what is written and printed about it."""

    samples: SampleSet
    model: SPCATV
    groups: Groups
    count: ComponentCount | None  # by which the number of components was chosen
    halves: SplitHalves | None
    verdict: str  # on the halves, in lines
    search: SPCATVCV | None = None
    stability: Bootstrap | None = None
    exploration: Exploration | None = None


def run_command(
    arguments: argparse.Namespace, check: Callable[[Options], Options], work: Callable[[Request], Outcome]
) -> None:
    """Check the options, do the work, write the results folder, and print a summary.

    A checkpoint is kept until the results are complete. With `--resume`, complete results end the command.
    """
    request = make_request(arguments, check)
    options = request.options
    note: Callable[[str], None] = (lambda text: None) if options.quiet else partial(complain, "note")
    if is_finished(options, request.files, request.config):
        note(f"the results in {options.output} are complete; nothing is left to do")
        return
    claim = claimed_folder(options.output, overwrite=options.overwrite, note=note)
    kept = kept_work(options, request.config)
    with rerun_hint_on_interrupt(options.output, arguments.argv), claim as folder, kept:
        with show_progress(options.quiet, options.verbose):
            outcome = work(request)
        with show_warnings(), writing_results(options.output):
            metrics = write_results(
                folder,
                outcome.samples,
                outcome.model,
                config=request.config,
                halves=outcome.halves,
                count=outcome.count,
            )
            if outcome.search is not None:
                grouped_by, stability = outcome.groups.column, outcome.stability
                write_selection(folder, outcome.samples, outcome.search, stability, grouped_by=grouped_by)
            if outcome.exploration is not None:
                write_explorer(folder, options, outcome.samples, outcome.exploration)
    remove_checkpoint(options.output)  # the results are in place
    if not options.quiet:
        safe_print(summary_text(outcome, metrics, options.output))
    if getattr(options, "open", False):
        show_page(options.output / EXPLORER)


def read_samples(request: Request) -> SampleSet:
    """Read the images or the array."""
    if request.files is None:
        return read_array(request.options)
    if is_field(request.files):
        return read_fields(request.options, request.files)
    return read_images(request.options, request.files)


def announce(request: Request, samples: SampleSet) -> None:
    """Print what was read, and with which mask, before the work starts."""
    if not request.options.quiet:
        safe_print(samples.summary)


def make_request(arguments: argparse.Namespace, check: Callable[[Options], Options]) -> Request:
    """Collect the options, and check them and the existence of files.

    `check` gets the options, and returns the options to use; its ValueErrors and TypeErrors become an
    InputError.
    """
    options, found = effective_options(arguments), ""
    if options.bids is not None:
        options.images, found = find_bids_images(options)
        if options.confounds_columns is not None and options.confounds is None:
            options.confounds = participants_of(options.bids)
            if options.confounds is None:
                raise InputError(
                    f"{options.bids} has no participants.tsv: name the table of --confounds-columns with "
                    "--confounds"
                )
    if options.confounds_columns is not None and options.confounds is None:
        raise InputError(COLUMNS_OF_WHAT)
    if options.output is None:
        raise InputError("no output folder: name one with --output DIR")
    with input_errors(ValueError, TypeError):
        options = check(options)
    files = _files(options, arguments.options)
    if files is not None and options.dtype is None and not is_field(files):
        options.dtype = IMAGE_DTYPE  # the configuration records the effective value
    config = config_text(options, arguments.options, files, name=CONFIG)
    if found and not options.quiet:
        safe_print(found)
    return Request(options, files, config)


def _files(options: Options, table: OptionTable) -> tuple[SampleFiles, ...] | None:
    """Return the files of the samples, or None for an array; refuse options that do not go with them."""
    files = None
    if options.array is None:
        refuse(options, table, ARRAY, "--array")
        files = sample_files(options.images, path_column=options.path_column)
    if not is_field(files):
        refuse(options, table, FIELDS, "NetCDF (.nc) or Zarr (.zarr)")
    elif options.mask is not None:
        raise InputError("--mask does not go with NetCDF or Zarr: cells without data are left out")
    if files is None or is_field(files):
        refuse(options, table, IMAGES, "images")
    elif options.surface is not None and options.template is not None:
        raise InputError("give either --surface or --template, not both")
    return files


def model_parameters(options: Options) -> dict[str, Any]:
    """Return the parameters of `SPCATV` that have a value, without `dtype`."""
    values = {name: getattr(options, name, None) for name in vars(FIT) if name not in ("dtype", "verbose")}
    given = {name: value for name, value in values.items() if value is not None}
    if options.n_components == AUTO:
        del given["n_components"]
    if options.regress_global:
        given["global_signal"] = "regress"
    if options.memory is not None:
        given["memory_limit"] = options.memory
    return {**given, "device": options.device, "random_state": options.seed}


def check_number(options: Options) -> None:
    """Refuse options that do not go with the way in which the number of components is given."""
    if options.n_components != AUTO:
        if options.max_components is not None:
            raise InputError("--max-components goes with --n-components auto")
    elif options.command == "fit" and isinstance(options.sparsity, tuple):
        raise InputError("--n-components auto takes one --sparsity for all components")


def with_number(options: Options, samples: SampleSet) -> tuple[Options, ComponentCount | None]:
    """Return the options with a number instead of "auto", and the count of the components, if it was made."""
    if options.n_components != AUTO:
        return options, None
    names = ("center", "global_signal", "device")
    given = {name: value for name, value in model_parameters(options).items() if name in names}
    with input_errors(ValueError, prefix="--n-components auto: "):
        count = count_components(
            SPCATV(structure=samples.structure, dtype=samples.dtype, **given),
            samples.matrix,
            max_components=options.max_components,
            standardize=samples.adjustment.standardize,
            confounds=samples.adjustment.confounds,
        )
    return replaced(options, n_components=count.n_components), count


def parts_of(options: Options, samples: SampleSet, groups: Any) -> dict[str, Any]:
    """Return how folds, resamples and halves treat their samples, as arguments of the library."""
    return {
        "groups": groups,
        "standardize": samples.adjustment.standardize,
        "confounds": samples.adjustment.confounds,
        "n_jobs": options.n_jobs,
    }


def verdicts(
    options: Options, samples: SampleSet, model: SPCATV, groups: Any
) -> tuple[SplitHalves | None, str]:
    """Compare random halves of the samples `--n-splits` times; samples of a group stay together.

    Returns the halves, None if none were fitted; and the lines of the verdicts, or the reason why there are
    none.
    """
    if options.n_splits == 0:
        return None, ""
    reason = _objection(samples, groups) if options.n_splits == AUTO else ""
    if not reason:
        n_splits = AUTO_SPLITS if options.n_splits == AUTO else options.n_splits
        parts = parts_of(options, samples, groups)
        try:
            halves = split_halves(
                model, samples.matrix, n_splits=n_splits, random_state=options.seed, **parts
            )
            model.reproducibility_ = halves.reproducibility  # for its folder
            return halves, "\n".join(verdict_lines(halves.reproducibility))
        except ValueError as error:  # the fit of all samples is kept
            reason = str(error)
    return None, f"Not known which components are confirmed: {reason}."


def _objection(samples: SampleSet, groups: Any) -> str:
    """Say why no halves are compared unless a number of splits is given; empty if they are."""
    n_samples, n_features = samples.matrix.shape
    n_groups = n_samples if groups is None else len(set(groups))
    if n_samples < LEAST_SAMPLES or n_groups < LEAST_GROUPS:
        few = f"{n_samples} samples" if n_samples < LEAST_SAMPLES else f"{n_groups} groups of samples"
        return f"random halves of {few} are too small (--n-splits N compares them anyway)"
    if n_samples * n_features > MOST_VALUES:
        return (
            f"the data are large ({n_samples:,} x {n_features:,}), and every split into random halves takes "
            "about as long as the fit; ask for some with --n-splits N"
        )
    return ""


def find_groups(options: Options) -> Table | None:
    """Return the table of the column that `--groups` names; None without groups.

    If `--groups` names no table, it is the table of confounds, the only positional argument if that is a
    table, or the participants of a BIDS dataset. An InputError says that no table has the column.
    """
    if options.groups is None:
        return None
    file, column = options.groups
    files = _known_tables(options) if file is None else [file]
    if not files:
        raise InputError(
            f"--groups {column}: name the table as well, as in --groups participants.tsv:{column}; only a "
            "table of confounds, or one that names all images, is taken without being named"
        )
    tables = [read_table(file) for file in files]
    table = next((table for table in tables if column in table.columns), tables[0])
    table.column(column)  # an error lists the columns
    return table


def _known_tables(options: Options) -> list[Path]:
    tables = [] if options.confounds is None else [options.confounds]
    only = options.images[0] if len(options.images) == 1 else ""
    if isinstance(only, str) and only.lower().endswith(TABLE_SUFFIXES):
        tables.append(Path(only).expanduser())
    participants = participants_of(options.bids)
    return tables if participants is None else [*tables, participants]


def find_labels(options: Options, samples: SampleSet) -> Groups:
    """Return the groups of the column of `--groups`; without it, samples of one person, or of one file."""
    if options.groups is None:
        return Groups(None if samples.groups is None else np.array(samples.groups))
    table, column = options.groups_table, options.groups.name
    match = match_rows(table, samples.names, path_column=options.path_column, wanted=column)
    labels = np.array(table.complete_cells(column, match.rows))
    match.warn_if_guessed()
    return Groups(labels, column, match.remark)
