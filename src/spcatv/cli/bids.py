"""Images of a BIDS dataset on the command line: ``--bids DIR --space MNI152NLin2009cAsym``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from spcatv.cli.kinds import InputError, input_errors
from spcatv.cli.options import BidsOptions, OptionsKind


def found_images(options: BidsOptions) -> tuple[list[str], str]:
    """The images that the options ask for, in the order of their names, and which they are in one line."""
    # imported here: images need an extra
    from spcatv.images.bids import bids_images, describe_images
    from spcatv.images.files import ImageError

    assert options.bids is not None
    names = [item.name for item in fields(BidsOptions) if item.name != "bids"]
    wanted = {name: _several(getattr(options, name)) for name in names}
    for pair in wanted.pop("entity"):
        key, _, label = pair.partition("-")
        if not key or not label:
            raise InputError(f"--entity {pair}: write the name and the label of the entity, as in acq-mprage")
        wanted[key] = (*wanted.get(key, ()), label)
    with input_errors(ImageError):
        files = bids_images(options.bids, **{key: labels for key, labels in wanted.items() if labels})
    return [str(file) for file in files], f"{options.bids}: {describe_images(files)}"


def _several(labels: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if labels is None else (labels,) if isinstance(labels, str) else tuple(labels)


def participants_of(folder: Path | None) -> Path | None:
    """The table of participants of a dataset, if there is a dataset and it has one."""
    if folder is None:
        return None
    from spcatv.images.bids import participants_table

    return participants_table(folder)


def with_participants(options: OptionsKind) -> OptionsKind:
    """The options with the participants of the dataset as the table of confounds that were asked for."""
    if options.confounds is not None or options.confounds_columns is None:
        return options
    table = participants_of(options.bids)
    if table is None:
        raise InputError(
            f"{options.bids} has no participants.tsv: name the table of --confounds-columns with --confounds"
        )
    return replace(options, confounds=table)
