"""`spca-tv transform`: scores of new images, or of a new array."""

from __future__ import annotations

import argparse

from spcatv._util.atomic_files import replacing
from spcatv.cli.arrays import score_array
from spcatv.cli.config import effective_options
from spcatv.cli.display import safe_print, show_progress
from spcatv.cli.fields import score_fields
from spcatv.cli.images import score_images
from spcatv.cli.inputs import find_bids_images, is_field, sample_files
from spcatv.cli.parser import InputError, check_output_file
from spcatv.cli.pipeline import COLUMNS_OF_WHAT
from spcatv.cli.resume import rerun_hint_on_interrupt
from spcatv.results import open_model
from spcatv.results.write import mixing_table, table_text, write_text


def run(arguments: argparse.Namespace) -> None:
    """Read the model and the new samples, and write their scores."""
    options = effective_options(arguments)
    output = check_output_file(options.output, overwrite=options.overwrite, example="scores.tsv")
    saved = open_model(arguments.model)
    hint = rerun_hint_on_interrupt(output, arguments.argv)
    matched = ""
    coordinates: dict[str, list[str]] = {}
    with hint, show_progress(options.quiet, options.verbose):
        if saved.kind == "SPCATV":
            if options.array is None or options.confounds or options.exclude:
                raise InputError(
                    f"{arguments.model} was fitted to an array: give the new one with --array alone"
                )
            names, scores = score_array(saved, options.array)
        elif saved.kind == "XarraySPCATV":
            files = sample_files(options.images, path_column=options.path_column)
            if not is_field(files):
                raise InputError(f"{arguments.model} was fitted to a field: give NetCDF or Zarr")
            names, scores, coordinates = score_fields(saved, files, options)
        else:
            if options.array is not None:
                raise InputError(f"{arguments.model} was fitted to images: name images, not --array")
            if options.confounds_columns and not (options.confounds or options.bids):
                raise InputError(COLUMNS_OF_WHAT)
            sources = options.images
            if options.bids is not None:
                sources, found = find_bids_images(options)
                if not options.quiet:
                    safe_print(found)
            files = sample_files(sources, path_column=options.path_column)
            names, scores, matched = score_images(saved, files, options)
        with replacing(output) as temporary:
            write_text(temporary, table_text(mixing_table(names, scores, coordinates)))
    if not options.quiet:
        if matched:
            safe_print(f"Confounds: {matched}")
        samples = "1 sample" if len(names) == 1 else f"{len(names)} samples"
        components = "1 component" if scores.shape[1] == 1 else f"{scores.shape[1]} components"
        safe_print(f"Scores of {samples} on {components}: {output}")
