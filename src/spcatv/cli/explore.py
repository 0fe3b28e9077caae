"""`spca-tv explore` and `select --explore`: a page with sliders that shows every setting of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spcatv.cli.app import build_parser
from spcatv.cli.config import Options, command_line
from spcatv.cli.fields import FieldSamples
from spcatv.cli.images import IMAGE_DTYPE
from spcatv.model import read_model
from spcatv.results import SampleSet
from spcatv.results.layout import EXPLORER, MODEL
from spcatv.results.read import restore_model
from spcatv.results.write import write_readme
from spcatv.selection.cross_validation import Exploration


def write_explorer(folder: Path, options: Options, samples: SampleSet, exploration: Exploration) -> None:
    """Write the page into a results folder that holds the model of the recommended setting."""
    # imported here: pages need an extra
    from spcatv.report.explorer import explorer_page, python_lines

    model: Any = restore_model(read_model(folder / MODEL))
    fields = isinstance(samples, FieldSamples)
    if fields:
        model = model.estimator_
    fit_options = build_parser().commands["fit"].options
    fixed: dict[str, Any] = {"n_components": exploration.components.shape[1]}
    fixed |= dict.fromkeys(("max_components", "n_splits"))
    if options.dtype == IMAGE_DTYPE and options.array is None:
        fixed["dtype"] = None
    commands = [
        command_line(
            options,
            fit_options,
            "fit",
            {
                **fixed,
                **setting,
                "output": f"{options.output}-{setting['sparsity']:g}-{setting['smoothness']:g}",
            },
        )
        for setting in exploration.settings
    ]
    images = options.images if options.array is None else ["X"]
    is_pattern = len(images) == 1 and isinstance(images[0], str) and any(c in images[0] for c in "*?[")
    source = "X" if options.array is not None else repr(images[0]) if is_pattern else "images"
    source = "X" if fields else source
    if samples.adjustment.confounds is not None:
        source += ", confounds=confounds"
    parameters = model.get_params() | ({"structure": None} if fields else {})
    weights = [f"weights={options.weights!r}"] if options.weights else []
    dim = options.dim or ("time",)
    lines = python_lines(
        exploration,
        type(model),
        parameters,
        source,
        weights if fields else None,
        dim[0] if len(dim) == 1 else dim,
    )
    page = explorer_page(exploration, model, {"Command line": commands, "Python": lines}, title=options.title)
    page.save_as_html(folder / EXPLORER)
    write_readme(folder)
