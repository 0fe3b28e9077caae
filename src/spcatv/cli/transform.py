"""`spca-tv transform`: scores of new images, or of a new array."""

from __future__ import annotations

import argparse
from dataclasses import fields

from spcatv._util.files import replacing
from spcatv.cli.arrays import score_array
from spcatv.cli.bids import found_images, participants_of
from spcatv.cli.images import score_images
from spcatv.cli.inputs import sample_files
from spcatv.cli.interruption import rerun_hint_on_interrupt
from spcatv.cli.kinds import COLUMNS_OF_WHAT, InputError, check_output_file, input_errors
from spcatv.cli.options import BidsOptions, flag
from spcatv.cli.progress import choose_display, show_warnings
from spcatv.cli.saying import say
from spcatv.model import ModelError
from spcatv.progress import listening
from spcatv.results import open_model
from spcatv.results.write import write_mixing


def run(arguments: argparse.Namespace) -> None:
    """Read the model and the new samples, and write their scores."""
    check_output_file(arguments.output, overwrite=arguments.overwrite, example="scores.tsv")
    with input_errors(ModelError):
        saved = open_model(arguments.model)
    display = choose_display(quiet=arguments.quiet, verbose=arguments.verbose)
    hint = rerun_hint_on_interrupt(arguments.output, arguments.argv)
    with hint, show_warnings(), display, listening(display):
        if saved.kind == "SPCATV":
            given = arguments.images or arguments.bids or arguments.confounds or arguments.exclude
            if arguments.array is None or given:
                raise InputError(
                    f"{arguments.model} was fitted to an array: give the new one with --array alone"
                )
            names, scores = score_array(saved, arguments.array)
            matched = ""
        else:
            if arguments.array is not None:
                raise InputError(f"{arguments.model} was fitted to images: name images, not --array")
            if arguments.confounds_columns and not (arguments.confounds or arguments.bids):
                raise InputError(COLUMNS_OF_WHAT)
            files = sample_files(_sources(arguments), path_column=arguments.path_column)
            names, scores, matched = score_images(
                saved,
                files,
                arguments.confounds,
                arguments.confounds_columns,
                arguments.path_column,
                arguments.exclude,
                cache=arguments.cache,
                memory=arguments.memory,
                participants=participants_of(arguments.bids),
            )
        with replacing(arguments.output) as temporary:
            write_mixing(temporary, names, scores)
    if not arguments.quiet:
        if matched:
            say(f"Confounds: {matched}")
        samples = "1 sample" if len(names) == 1 else f"{len(names)} samples"
        components = "1 component" if scores.shape[1] == 1 else f"{scores.shape[1]} components"
        say(f"Scores of {samples} on {components}: {arguments.output}")


def _sources(arguments: argparse.Namespace) -> list[str]:
    """The images that are named, or those of a BIDS dataset."""
    given = {item.name: getattr(arguments, item.name, None) for item in fields(BidsOptions)}
    options = BidsOptions(**given)
    if options.bids is None:
        filters = [flag(name) for name, labels in given.items() if labels is not None]
        if filters:
            raise InputError(f"{filters[0]} can only be used with --bids")
        return list(arguments.images)
    if arguments.images:
        raise InputError("give either images or --bids, not both")
    files, found = found_images(options)
    if not arguments.quiet:
        say(found)
    return files
