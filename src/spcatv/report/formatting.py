"""Numbers, names, parameters and settings as text."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import PAIR, files_of

SMALLEST_SHARE = 1e-8
SMALLEST_P = 0.001
SPACE = "\u00a0"  # no line break between a number and its unit
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float | None, digits: int = 3) -> str:
    """Write a share as a percentage with a few significant digits, such as "12.4 %" or "4.5 %".

    Shares that are nearly 1 get the decimals that distinguish them from 1 ("99.97 %").
    """
    if share is None or math.isnan(share):
        return "–"
    value = 100 * float(share)
    if value in (0, 100):
        return f"{value:.0f}{SPACE}%"
    if abs(share) < SMALLEST_SHARE:
        return f"less than {np.format_float_positional(100 * SMALLEST_SHARE, trim='-')}{SPACE}%"
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
    return "–" if math.isnan(value) else f"{value:z,.{decimals}f}".replace("-", "−")


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
    files = files_of(name)
    volume = name.removeprefix(PAIR.join(files))
    first, *others = (os.path.basename(file) for file in files)
    if not others or others == [first]:
        return first + volume
    words = [re.split(r"([\W_])", file) for file in (first, *others)]
    start = os.path.commonprefix(words)  # noqa: RUF071 (word by word)
    rest = [own[len(start) :] for own in words]
    end = os.path.commonprefix([own[::-1] for own in rest])[::-1]  # noqa: RUF071
    left, right = ("".join(own[: len(own) - len(end)]) for own in rest)
    return f"{''.join(start)}{{{left},{right}}}{''.join(end)}{volume}"


def count(n: int, noun: str) -> str:
    """Write a count with its noun: "1 region", "12,000 regions"; `noun` is singular."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def components(numbers: Sequence[int]) -> str:
    """Name components by ascending numbers: "Component 2", "Components 1, 3 to 8 and 10"."""
    texts: list[str] = []
    for run in np.split(np.asarray(numbers), np.flatnonzero(np.diff(numbers) != 1) + 1):
        texts += [str(value) for value in run] if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    listed = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    return f"Component{'' if len(numbers) == 1 else 's'} {listed}"


def values(numbers: Any, digits: int = 4) -> str:
    """Write one number, or one per component, with a few significant digits: "0.05, 0.3"."""
    return ", ".join(
        "–" if np.isnan(value) else f"{value:.{digits}g}".replace("-", "−")
        for value in np.atleast_1d(np.asarray(numbers, dtype=np.float64))
    )


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


def shorten(text: str, length: int) -> str:
    """Put a text on one line, and shorten it in the middle to `length` characters."""
    line = " ".join(text.split())
    half = (length - 1) // 2
    return line if len(line) <= length else f"{line[:half]}…{line[-half:]}"


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
