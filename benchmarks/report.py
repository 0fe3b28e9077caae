"""The files of a run: a table in Markdown, all numbers in JSON, plots; each replaced in one step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import must_show, plots
from benchmarks.tables import markdown, skipped


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, and rename it to `path` when it is complete."""
    # the suffix stays last: matplotlib reads the format from it
    draft = path.with_name(f".draft-{os.getpid()}-{path.name}")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_report(
    folder: Path, run: dict[str, Any], results: dict[str, Any], sections: dict[str, ModuleType]
) -> Path:
    """Write all results so far, and plots after the last section; return the path of the table."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = must_show.verdicts(results, quick=run["quick"])
    numbers = {**run, "sections": results, "must_show": rows}
    text = json.dumps(numbers, indent=1, default=_plain)
    write_atomically(folder / "results.json", lambda path: path.write_text(text, encoding="utf-8"))
    newest = dict([list(results.items())[-1]])
    remark = plots.draw(newest, lambda name, write: write_atomically(folder / name, write))
    parts = [
        "# Benchmark results",
        machine_text(run),
        "## Must show",
        must_show.table(rows),
        *(
            f"## {sections[name].TITLE}\n\n"
            + (skipped(result) if "skipped" in result else sections[name].table(result))
            for name, result in results.items()
        ),
        remark,
    ]
    table = folder / "results.md"
    body = "\n\n".join(part for part in parts if part) + "\n"
    write_atomically(table, lambda path: path.write_text(body, encoding="utf-8"))
    return table


def machine_text(run: dict[str, Any]) -> str:
    """Where and how the run was made."""
    machine = run["machine"]
    versions = ", ".join(f"{name} {version or 'missing'}" for name, version in machine["versions"].items())
    caches = ", ".join(f"{name} {size / 2**20:g} MiB" for name, size in machine["caches"].items())
    quick = " **A quick run: tiny sizes, the figures mean nothing.**" if run["quick"] else ""
    bandwidth = [
        [f"{name} ({row['bytes'] / 1e6:.3g} MB)", f"{row['bytes_per_second'] / 1e9:.3g} GB/s"]
        for name, row in machine["bandwidth"].items()
    ]
    return (
        f"`{run['command']}`, {machine['date']}, commit {machine['commit']}.{quick}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, caches {caches}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; load at the start {machine['load_average'][0]:.2f}. "
        f"Python {machine['python']}, {versions}. Minima of {run['repeats']} interleaved repeats.\n\n"
        + markdown(["copy bandwidth, one thread", "bytes read plus written"], bandwidth)
    )


def _plain(value: Any) -> Any:
    """Convert what JSON does not know."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"no JSON for a {type(value).__name__}")
