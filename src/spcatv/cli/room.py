"""Free space on the disk, checked before the work starts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from spcatv.cli.kinds import InputError
from spcatv.cli.options import CommonOptions, SelectOptions
from spcatv.data.memory import bytes_text
from spcatv.results import SampleSet
from spcatv.selection.components import MOST_COMPONENTS

# Bytes of a number.
DOUBLE = 8
# Maps of a component among the results: loadings in the model and beside it, what `select` adds, some spare.
MAPS, SELECTION_MAPS = 4, 10
# Room that is left on the disk for other files.
SPARE_BYTES = 32 << 20


def check_room(output: Path, options: CommonOptions, samples: SampleSet) -> None:
    """Refuse to start if the disk has no room for the results, and for what is kept until they are there."""
    needed = needed_bytes(options, samples)
    place = Path(os.path.realpath(output.expanduser())).parent
    free = shutil.disk_usage(place).free
    if needed + SPARE_BYTES > free:
        raise InputError(
            f"the results, and what is kept of the work until they are there, need about "
            f"{bytes_text(needed)} in {place}, but the disk has only {bytes_text(free)} free; name a folder "
            "on another disk with --output, or make room"
        )


def needed_bytes(options: CommonOptions, samples: SampleSet) -> int:
    """An upper bound on the bytes of the results and of the checkpoint, where maps take most of them."""
    n_samples, n_features = samples.matrix.shape
    n_rows = 0 if samples.structure is None else samples.structure.n_rows
    asked = options.n_components
    n_components = asked if isinstance(asked, int) else options.max_components or MOST_COMPONENTS
    a_map = n_components * n_features * DOUBLE
    # a component: loading, covariance with the scores, dual variable, scores; the starts of one of them
    records = (n_components + options.n_init) * (2 * n_features + n_rows + n_samples) * DOUBLE
    if not isinstance(options, SelectOptions):
        return MAPS * a_map + records
    if options.alpha is None:
        n_settings = len(options.sparsity or ()) * len(options.smoothness or ())
    else:
        n_alphas = (options.n_alphas or 1) if options.alpha == "grid" else len(options.alpha)
        n_settings = n_alphas * len(options.l1_ratio or ()) * len(options.tv_ratio or ())
    itemsize = samples.matrix.dtype.itemsize
    records += n_settings * options.cv * n_components * n_features * itemsize
    return SELECTION_MAPS * a_map + records + options.n_bootstraps * n_components * n_features
