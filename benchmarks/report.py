"""Files of a run: tables in Markdown and all numbers in JSON, each replaced in one step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import promises
from benchmarks.tables import markdown, seconds, table_of, times
from spcatv._util.atomic_files import replacing

Row = dict[str, Any]
Results = dict[str, list[Row]]


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_report(folder: Path, run: dict[str, Any], results: Results, about: dict[str, str]) -> Path:
    """Write the results so far, and return the path of the tables; `about` has the title of every section."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = promises.verdicts(results, quick=run["quick"])
    numbers = json.dumps({**run, "sections": results, "promises": kept}, indent=1, default=_plain)
    write(folder / "results.json", numbers)
    parts = ["# Benchmark results", machine_text(run), "## Promises", table_of(kept)]
    parts += [f"## {about[name]}\n\n{table_of(rows)}" for name, rows in results.items() if rows]
    tables = folder / "results.md"
    write(tables, "\n\n".join(parts) + "\n")
    return tables


def machine_text(run: dict[str, Any]) -> str:
    """Describe the machine and the command."""
    machine = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    quick = " A quick run: single measurements, few data sets." if run["quick"] else ""
    return (
        f"`{run['command']}`, {machine['date']}, commit {machine['commit']}.{quick}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; "
        f"load at the start {machine['load_average'][0]:.2f}. "
        f"Python {machine['python']}, {versions}. Minima of {run['repeats']} interleaved repeats."
    )


def comparison(before: Results, after: Results) -> str:
    """Compare the times of the rows that two runs share: processor time where it was measured."""
    old, new = _times(before), _times(after)
    both = sorted(old.keys() & new.keys(), key=lambda key: new[key] / old[key], reverse=True)
    rows = [[*key, seconds(old[key]), seconds(new[key]), times(new[key] / old[key])] for key in both]
    return markdown(["section", "row", "before", "now", "now / before"], rows)


def _times(results: Results) -> dict[tuple[str, str], float]:
    """Return times by section and the texts of a row."""
    found = {}
    for section, rows in results.items():
        for row in rows:
            texts = [text for name, text in row.items() if isinstance(text, str) and name != "note"]
            if row.get("seconds"):
                found[section, ", ".join(texts)] = row.get("processor") or row["seconds"]
    return found


def _plain(value: Any) -> Any:
    """Convert NumPy values for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"no JSON for a {type(value).__name__}")
