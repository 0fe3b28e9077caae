"""alpha by the share of zeros that is wanted (`--sparsity`): checked early, and told at the end."""

from __future__ import annotations

from collections.abc import Sequence

from spcatv._util.warn import warn_user
from spcatv.cli.errors import InputError
from spcatv.cli.options import CommonOptions
from spcatv.selection import SelectionWarning, SparsityChoice
from spcatv.selection.sparsity import checked_targets


def check_sparsity(options: CommonOptions, l1_ratios: Sequence[float]) -> None:
    """Refuse shares of zeros that no search could find, before any data are read.

    Parameters
    ----------
    options : FitOptions or SelectOptions
        With or without `sparsity`.
    l1_ratios : sequence of float
        Values that will be used.
    """
    if options.sparsity is None:
        return
    checked_targets(options.sparsity, options.n_components)
    if min(l1_ratios) <= 0:
        raise InputError("--sparsity needs l1_ratio above 0: without an l1 penalty no loading becomes zero")
    if options.refine and isinstance(options.sparsity, tuple):
        raise InputError(
            "--refine refines all components under one alpha, but --sparsity with a share for each component "
            "gives every component its own; give one share, or leave --refine out"
        )


def warn_if_missed(choice: SparsityChoice) -> None:
    """Warn where the share of zeros jumps past what was wanted."""
    for number, search in enumerate(choice.searches, start=1):
        if not search.reached:
            where = f" of component {number}" if len(choice.searches) > 1 else ""
            warn_user(
                f"no alpha gives the share of zeros {search.target:g}{where}; closest is "
                f"{search.chosen.sparsity:.3f} at alpha {search.chosen.alpha:.4g}",
                SelectionWarning,
            )


def found_text(choice: SparsityChoice) -> str:
    """What was found, in a line."""
    wanted = ", ".join(f"{100 * search.target:g} %" for search in choice.searches)
    alphas = ", ".join(f"{alpha:.4g}" for alpha in choice.alphas)
    n_fits = sum(len(search.evaluations) for search in choice.searches)
    return f"Found alpha {alphas} for {wanted} zeros in {n_fits} fits"
