"""`spca-tv transform`: scores of new images, or of a new array."""

from __future__ import annotations

import argparse

from spcatv._util.files import replacing
from spcatv.cli.arrays import score_array
from spcatv.cli.images import score_images
from spcatv.cli.inputs import sample_files
from spcatv.cli.kinds import InputError, check_output_file, input_errors
from spcatv.cli.progress import choose_display, set_up_log, show_warnings
from spcatv.cli.saying import say
from spcatv.model import ModelError
from spcatv.progress import listening
from spcatv.results import open_model
from spcatv.results.writing import write_mixing


def run(arguments: argparse.Namespace) -> None:
    """Read the model and the new samples, and write their scores."""
    set_up_log(arguments.verbose)
    check_output_file(arguments.output, overwrite=arguments.overwrite, example="scores.tsv")
    with input_errors(ModelError):
        saved = open_model(arguments.model)
    display = choose_display(quiet=arguments.quiet, verbose=arguments.verbose)
    with show_warnings(), display, listening(display):
        if saved.kind == "SPCATV":
            if arguments.array is None or arguments.images or arguments.confounds or arguments.exclude:
                raise InputError(
                    f"{arguments.model} was fitted to an array: give the new one with --array alone"
                )
            names, scores = score_array(saved, arguments.array)
            matched = ""
        else:
            if arguments.array is not None:
                raise InputError(f"{arguments.model} was fitted to images: name images, not --array")
            files = sample_files(arguments.images, path_column=arguments.path_column)
            names, scores, matched = score_images(
                saved,
                files,
                arguments.confounds,
                arguments.confounds_columns,
                arguments.path_column,
                arguments.exclude,
                cache=arguments.cache,
                memory=arguments.memory,
            )
    with replacing(arguments.output) as temporary:
        write_mixing(temporary, names, scores)
    if not arguments.quiet:
        if matched:
            say(f"Confounds: {matched}")
        samples = "1 sample" if len(names) == 1 else f"{len(names)} samples"
        components = "1 component" if scores.shape[1] == 1 else f"{scores.shape[1]} components"
        say(f"Scores of {samples} on {components}: {arguments.output}")
