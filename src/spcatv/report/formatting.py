"""Numbers, names and certificates as text."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import PAIR
from spcatv.decomposition import ComponentDiagnostics

SMALLEST_SHARE = 1e-8
# regions below this share of a map's weight are counted, but not listed
SMALLEST_REGION = 1e-3
# a map with fewer zeros than this is not called sparse
LEAST_SPARSE = 0.5
SMALLEST_P = 0.001
SPACE = "\u00a0"  # no line break between a number and its unit
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float | None, digits: int = 3, *, least: float = SMALLEST_SHARE) -> str:
    """Write a share as a percentage with a few significant digits, such as "12.4 %" or "4.5 %".

    Shares that are nearly 1 get the decimals that distinguish them from 1 ("99.97 %").
    """
    if share is None or math.isnan(share):
        return "–"
    value = 100 * float(share)
    if value in (0, 100):
        return f"{value:.0f}{SPACE}%"
    if abs(share) < least:
        return f"less than {np.format_float_positional(100 * least, trim='-')}{SPACE}%"
    if 99.99 < value < 100:
        return f"more than 99.99{SPACE}%"
    digits = min(digits, 2) if abs(value) < 10 else digits
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    if 99 < value < 100:
        decimals = max(decimals, -math.floor(math.log10(100 - value)))
    return f"{value:.{decimals}f}{SPACE}%".replace("-", "−")


def p_value(p: float) -> str:
    """Write a p-value with its relation: "= 0.36", "= 0.036", "= 0.003", "< 0.001"."""
    if math.isnan(p):
        return "–"
    if p < SMALLEST_P:
        return f"<{SPACE}{SMALLEST_P:g}"
    return f"={SPACE}{p:.2f}" if p >= 0.0995 else f"={SPACE}{p:.3f}"


def fixed(value: float, decimals: int = 2) -> str:
    """Write a number with fixed decimals, zero without a sign."""
    if math.isnan(value):
        return "–"
    rounded = round(value, decimals) + 0.0  # minus zero plus zero is zero
    return f"{rounded:,.{decimals}f}".replace("-", "−")


def number(value: float, digits: int = 3) -> str:
    """Write a number with a few significant digits, without an exponent if that is readable."""
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return "–" if math.isnan(value) else f"{value:g}"
    if 1e-4 <= abs(value) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{decimals}f}".replace("-", "−")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.replace('-', '−')}{SPACE}×{SPACE}10{superscript(int(exponent))}"


def superscript(exponent: int) -> str:
    """Write an exponent in raised digits, such as ⁻⁷."""
    return str(exponent).translate(RAISED)


def quantity(size: float, unit: str) -> str:
    """Write a size with its unit: "1,280 pixels", "1 pixel", "540 mm³"."""
    one = size == 1 and unit.endswith("s")
    return f"{size:,.0f}{SPACE}{unit[:-1] if one else unit}"


def file_names(name: str) -> str:
    """Drop the folders of a sample name, and join hemispheres as in "sub-01_hemi-{L,R}_thickness.gii"."""
    names = [os.path.basename(part) for part in name.split(PAIR)]
    if len(names) != 2 or names[0] == names[1]:
        return names[0]
    start = os.path.commonprefix(names)  # noqa: RUF071 (letter by letter)
    left, right = (part.removeprefix(start) for part in names)
    end = os.path.commonprefix([left[::-1], right[::-1]])[::-1]  # noqa: RUF071
    return f"{start}{{{left.removesuffix(end)},{right.removesuffix(end)}}}{end}"


def count(n: int, noun: str) -> str:
    """Write a count with its noun: "1 region", "3 regions", "12,000 vertices"; `noun` is singular."""
    plurals = {"vertex": "vertices"}
    return f"{n:,} {noun if n == 1 else plurals.get(noun, noun + 's')}"


def components(numbers: Sequence[int]) -> str:
    """Name components: "Component 2", "Components 1, 3 and 4"."""
    return f"Component{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"


def values(numbers: Any, digits: int = 4) -> str:
    """Write one number, or one per component, with a few significant digits: "0.05, 0.3"."""
    return ", ".join(f"{value:.{digits}g}" for value in np.atleast_1d(numbers))


def ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers as text: "1, 3 to 8 and 10"."""
    steps = np.flatnonzero(np.diff(numbers) != 1) + 1
    texts: list[str] = []
    for run in np.split(np.asarray(numbers), steps):
        texts += [str(value) for value in run] if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def share_above_optimum(record: ComponentDiagnostics, l2: float) -> float:
    """Bound the excess of the objective over the optimum, as a share of the optimum.

    With ``f = l2 (F - 1/2 ||y||^2)`` and ``F - F* <= gap``, ``(f - f*) / |f*| <= l2 gap / |f|`` because
    ``f* <= f < 0``: an empty map has the objective 0.
    """
    if record.objective >= 0:
        return 0.0 if record.gap == 0 else math.inf
    return l2 * record.gap / abs(record.objective)


def certificate(
    record: ComponentDiagnostics, l2: float, tol: float, *, refitted: bool = False, joint: bool = False
) -> tuple[str, ...]:
    """Describe the distance of a loading map from the exact one in sentences.

    `refitted`: the loadings shown are unshrunk. `joint`: a wanted sparsity was reached by a fixed support.
    """
    if record.n_nonzero == 0:
        return ("This component is empty, and not a result: its map and its scores are zero.",)
    reached = "within" if record.converged else "above"
    above = share_above_optimum(record, l2)
    whose, exact, sentences = "Its duality gap", "The exact map for these scores", []
    if record.target_sparsity is not None:
        whose = "The duality gap of the smoothed map"
        limited = "on the same support" if joint else f"after the threshold {number(record.l1, 2)}"
        exact = f"The exact smoothed map for these scores, {limited},"
        then = "set to zero outside its support" if joint else "thresholded"
        sentences = [f"Given its scores, the map is smoothed, then {then}."]
    elif math.isfinite(above):
        sentences = [
            f"This map is within {percent(above, 2)} of the optimum of its problem, given the scores."
        ]
    sentences += [
        f"{whose}, which bounds the distance to the optimum, is {number(record.relative_gap, 2)} of the "
        f"problem's scale, {reached} the tolerance of {number(tol, 2)}.",
        f"{exact} is at most {percent(record.error_bound, 2)} of the map's own length away from this one.",
        f"Of the {record.n_nonzero:,} loadings that are not zero, {record.n_certain:,} are certainly not "
        "zero in the exact map either.",
    ]
    if not record.converged:
        sentences.insert(1, "The fit was stopped before the tolerance was reached: raise max_iter.")
    if refitted:
        sentences.insert(
            0,
            "The loadings shown were fitted again on their support, without penalties. What follows is about "
            "the penalised map that the support comes from.",
        )
    return tuple(sentences)


def component_sentence(sparsity: float, n_regions: int, n_tiny: int, noun: str, share: float) -> str:
    """Describe the share of the variance, the regions above and below `SMALLEST_REGION`, and the zeros."""
    if n_regions == 0:
        return "An empty component: no variance is left for it, or the penalty leaves no loading."
    tiny = (
        "" if n_tiny == 0 else f" (and {n_tiny:,} of less than {percent(SMALLEST_REGION, 1)} of its weight)"
    )
    zeros = "no" if sparsity == 0 else f"only {percent(sparsity)} of the"
    sparse = (
        f"{percent(sparsity)} of the {noun} have a loading of exactly zero."
        if is_sparse(sparsity)
        else f"the map is not sparse: {zeros} {noun} have a loading of exactly zero."
    )
    regions = count(n_regions, "connected region")
    return f"Explains {percent(share)} of the variance with {regions}{tiny}; {sparse}"


def is_sparse(sparsity: float) -> bool:
    """Return whether a map with this share of zeros may be called sparse."""
    return sparsity >= LEAST_SPARSE


def plain_value(value: Any) -> str:
    """Write a parameter as a short string, without the values of arrays."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (int, str, os.PathLike)):
        return str(value)
    if isinstance(value, dict):
        if isinstance(value.get("items"), list):
            return plain_value(value["items"])
        return str(value.get("path") or value.get("name") or value.get("was") or value.get("type", "given"))
    if isinstance(value, (list, tuple)) and all(isinstance(item, (int, float, str)) for item in value):
        return ", ".join(map(str, value)) if len(value) <= 12 else f"{len(value)} values"
    return "given"


def python_call(estimator: Any) -> str:
    """Return the Python that creates an estimator."""
    words = python_arguments(type(estimator), estimator.get_params(deep=False))
    return f"{type(estimator).__name__}({', '.join(words)})"


def python_arguments(kind: type, parameters: Mapping[str, Any]) -> list[str]:
    """Return parameters that are not the defaults of a class as arguments; long values become names."""
    words = []
    for name, value in parameters.items():
        default = signature(kind).parameters[name].default
        if value is default or (_is_literal(value) and value == default):
            continue
        if hasattr(value, "fit"):
            words.append(f"{name}={python_call(value)}")
        else:
            shown = os.fspath(value) if isinstance(value, Path) else value
            words.append(f"{name}={shown!r}" if _is_literal(value) else f"{name}={name}")
    return words


def _is_literal(value: Any) -> bool:
    """Return whether a value can be written as a short literal."""
    if isinstance(value, list | tuple):
        return len(value) <= 12 and all(map(_is_literal, value))
    return value is None or isinstance(value, bool | int | float | str | Path)
