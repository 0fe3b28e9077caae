"""How to make a model again: the command line if there was one, or Python."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# what ImageSPCATV takes beside the parameters of SPCATV
OF_IMAGES = ("mask", "surface", "bad_features", "standardize")


def repeat_command(config: Path, *, searched: bool) -> str:
    """The command that made a folder of results, from the configuration that lies in it."""
    command = "select" if searched else "fit"
    return f"spca-tv {command} --config {shlex.quote(str(config))} --output ANOTHER_FOLDER"


def repeat_code(model: Any, version: str) -> str:
    """Python that makes a fitted estimator again, with ``...`` for what has no short text.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV or SPCATVCV
        Fitted; where its components have an alpha each, they are fitted with these.
    version : str
        Of spca-tv, when it was fitted.

    Returns
    -------
    str
    """
    kind = type(model).__name__
    alphas = getattr(model, "component_alphas_", None)
    if alphas is None:
        return f"from spcatv import {kind}  # spca-tv {version}\n{_call(model)}.fit(...)"
    values = ", ".join(repr(float(alpha)) for alpha in alphas)
    start = f"  # spca-tv {version}\nfrom spcatv.selection import fit_alphas\n"
    if not hasattr(model, "estimator_"):
        call = _call(model, without=("alpha",))
        return f"from spcatv import {kind}{start}fit_alphas({call}, X, alphas=[{values}])"
    # images are read first, and the fit of their data matrix becomes that of the images
    call = _call(model, without=("alpha", *OF_IMAGES), structure="cohort.space.structure()", name="SPCATV")
    return (
        f"from spcatv import SPCATV, {kind}{start}from spcatv.images import read_cohort\n"
        f"cohort = read_cohort(...)\nmodel = {_call(model, without=('alpha',))}\n"
        f"model.adopt_fit(fit_alphas({call}, cohort.X, alphas=[{values}]), cohort)"
    )


def _call(model: Any, *, without: Iterable[str] = (), name: str = "", **more: str) -> str:
    """The estimator with the parameters that are not the default ones."""
    defaults = type(model)().get_params(deep=False)
    shown = {
        name: repr(value) if _is_short(value) else "..."
        for name, value in model.get_params(deep=False).items()
        if name in defaults and name not in without and not _same(value, defaults[name])
    }
    arguments = ", ".join(f"{name}={value}" for name, value in {**shown, **more}.items())
    return f"{name or type(model).__name__}({arguments})"


def _is_short(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 12 and all(isinstance(item, (bool, int, float, str)) for item in value)
    return isinstance(value, (bool, int, float, str))


def _same(value: Any, default: Any) -> bool:
    return value is default or (_is_short(value) and bool(value == default))
