"""What a command is asked to do: options are collected and checked before any data are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

from spcatv.cli.arrays import read_array
from spcatv.cli.bids import found_images, with_participants
from spcatv.cli.config import config_text, read_config
from spcatv.cli.images import IMAGE_DTYPE, read_images
from spcatv.cli.inputs import SampleFiles, Source, sample_files
from spcatv.cli.kinds import COLUMNS_OF_WHAT, InputError, input_errors
from spcatv.cli.option_table import BIDS_FILTERS
from spcatv.cli.options import CommonOptions, OptionsKind, effective_options, flag
from spcatv.cli.progress import Display, choose_display
from spcatv.cli.resuming import KeptWork, is_finished
from spcatv.cli.room import check_room
from spcatv.cli.saying import complain, say
from spcatv.progress import StageStarted, tell
from spcatv.results import SampleSet, claimed_folder
from spcatv.results.layout import CONFIG

# where samples may come from; one of them is given
INPUTS = ("images", "array", "bids")
# options, besides --standardize, that an array does not go with
OF_IMAGES = (
    *("surface", "template", "confounds", "path_column", "exclude", "cache", "smoothing_fwhm", "resample"),
    *("target_affine", "standardize_runs", "detrend", "high_pass", "low_pass", "t_r", "run_confounds"),
)


@dataclass(frozen=True)
class Request(Generic[OptionsKind]):
    """What to do, checked as far as possible without reading data."""

    options: OptionsKind  # effective options
    files: tuple[SampleFiles, ...] | None  # the files of every sample; ``None`` for an array
    output: Path  # the results folder
    quiet: bool  # whether to print nothing on success
    verbose: int  # how much to log
    config: str  # the effective configuration
    found: str = ""  # which files were found in a BIDS dataset, in one line

    def display(self) -> Display:
        """The listener that shows the progress."""
        return choose_display(quiet=self.quiet, verbose=self.verbose)

    def finished(self) -> bool:
        """Return whether `--resume` is given and the results of this run are there already."""
        if not is_finished(self.output, self.options, self.files, self.config):
            return False
        if not self.quiet:
            complain("note", f"the results in {self.output} are complete; nothing is left to do")
        return True

    @contextmanager
    def claimed(self) -> Iterator[Path]:
        """Give an empty folder that becomes the results folder in the end; until then, keep what is done."""
        note: Callable[[str], None] = (lambda text: None) if self.quiet else partial(complain, "note")
        work = KeptWork(self.output, self.options, self.files, note)
        claim = claimed_folder(self.output, overwrite=self.options.overwrite, note=note, beside=work)
        with claim as folder, work.active():
            yield folder

    def read(self) -> SampleSet:
        """Read the samples."""
        if self.files is None:
            return read_array(self.options)
        if self.found and not self.quiet:
            say(self.found)
        tell(StageStarted("Reading", len(self.files), "inputs"))
        return read_images(self.options, self.files)

    def announce(self, samples: SampleSet) -> None:
        """Look for room on the disk, and say what was read, and with which mask, before the work starts."""
        check_room(self.output, self.options, samples)
        if not self.quiet:
            say(samples.summary)


def checked_request(
    arguments: argparse.Namespace,
    kind: type[OptionsKind],
    check: Callable[[OptionsKind, Sequence[Source]], OptionsKind],
) -> Request[OptionsKind]:
    """Collect the options, and check them and the existence of files.

    `check` gets the options of the command and the positional arguments. It returns the options to use, or
    raises InputError, ValueError or TypeError; all of them become an InputError.
    """
    given = vars(arguments)
    given["images"] = [*arguments.images, *given.pop("more_images", ())]
    configured = read_config(arguments.config, kind) if arguments.config is not None else {}
    verbose = int(arguments.verbose or configured.get("verbose", 0))
    options, sources = _options_and_sources(given, configured, kind)
    found = ""
    if options.bids is not None:
        sources, found = found_images(options)
        options = with_participants(options)
    if options.confounds_columns is not None and options.confounds is None:
        raise InputError(COLUMNS_OF_WHAT)
    output = options.output
    if output is None:
        raise InputError("no output folder: name one with --output DIR")
    with input_errors(ValueError, TypeError):
        options = check(options, sources)
    files = _checked_input(options, sources)
    if files is not None and options.dtype is None:
        options = replace(options, dtype=IMAGE_DTYPE)  # the configuration records the effective value
    return Request(
        options=options,
        files=files,
        output=output,
        quiet=bool(arguments.quiet or configured.get("quiet", False)),
        verbose=verbose,
        config=config_text(options, files, name=CONFIG),
        found=found,
    )


def _options_and_sources(
    given: dict[str, Any], configured: dict[str, Any], kind: type[OptionsKind]
) -> tuple[OptionsKind, Sequence[Source]]:
    """The command line overrides the configuration file, whatever the kind of input."""
    here = [name for name in INPUTS if given.get(name)]
    there = [name for name in INPUTS if configured.get(name)]
    if here:
        dropped = INPUTS if "bids" in here else (*INPUTS, *BIDS_FILTERS)
        configured = {name: value for name, value in configured.items() if name not in dropped}
    both = ["images" if name == "images" else flag(name) for name in here or there]
    if len(both) > 1:
        raise InputError(f"give either {both[0]} or {both[1]}, not both")
    options = effective_options(given, configured, kind)
    if options.bids is None:
        _refuse(options, tuple(BIDS_FILTERS), "--bids")
    return options, given["images"] or configured.get("images", [])


def _checked_input(options: CommonOptions, sources: Sequence[Source]) -> tuple[SampleFiles, ...] | None:
    if options.array is None:
        _refuse(options, ("shape", "voxel_size", "periodic"), "--array")
        files = sample_files(sources, path_column=options.path_column)
        if options.surface is not None and options.template is not None:
            raise InputError("give either --surface or --template, not both")
        return files
    if options.standardize:
        raise InputError("--standardize can only be used with images; standardise the array yourself")
    _refuse(options, OF_IMAGES, "images")
    return None


def _refuse(options: CommonOptions, names: Sequence[str], needed: str) -> None:
    defaults = type(options)
    for name in names:
        if getattr(options, name) != getattr(defaults, name):
            raise InputError(f"{flag(name)} can only be used with {needed}")
