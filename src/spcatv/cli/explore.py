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
    parameters, around, dim = model.get_params(), None, options.dim or ("time",)
    if options.array is not None:
        source = "X"
    elif isinstance(samples, FieldSamples):
        source, model = "X", model.estimator_
        parameters = model.get_params() | {"structure": None}
        around = [f"weights={options.weights!r}"] if options.weights else []
    else:
        first, *others = options.images
        is_pattern = not others and isinstance(first, str) and any(c in first for c in "*?[")
        source = repr(first) if is_pattern else "images"
    if samples.adjustment.confounds is not None:
        source += ", confounds=confounds"
    dims = dim[0] if len(dim) == 1 else dim
    page = explorer_page(
        exploration,
        model,
        {
            "Command line": _commands(options, exploration),
            "Python": python_lines(exploration, type(model), parameters, source, around, dims),
        },
        title=options.title,
    )
    page.save_as_html(folder / EXPLORER)
    write_readme(folder)


def _commands(options: Options, exploration: Exploration) -> list[str]:
    """Return the command that fits each setting."""
    table = build_parser().commands["fit"].options
    fixed: dict[str, Any] = {"n_components": exploration.components.shape[1]}
    fixed |= dict.fromkeys(("max_components", "n_splits"))
    if options.dtype == IMAGE_DTYPE and options.array is None:
        fixed["dtype"] = None
    output = "{output}-{sparsity:g}-{smoothness:g}"
    return [
        command_line(
            options, table, "fit", {**fixed, **row, "output": output.format(output=options.output, **row)}
        )
        for row in exploration.settings
    ]
