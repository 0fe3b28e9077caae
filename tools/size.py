"""Print lines and files of Python per folder of src/spcatv.

python tools/size.py              # the working tree
python tools/size.py 1e90ed8      # beside a revision
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/spcatv"


def working_tree(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Path inside the package and text of every Python file."""
    folder = root / PACKAGE
    for file in folder.rglob("*.py"):
        yield file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8")


def at_revision(revision: str, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Path inside the package and text of every Python file of a commit."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.strip())
        return done.stdout

    names = git("ls-tree", "-r", "--name-only", revision, "--", PACKAGE).splitlines()
    for name in names:
        if name.endswith(".py"):
            yield name.removeprefix(PACKAGE + "/"), git("show", f"{revision}:{name}")


def sizes(files: Iterator[tuple[str, str]]) -> tuple[Counter[str], Counter[str]]:
    """Count lines and files by the first folder, or by the file for modules at the top."""
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for path, text in files:
        first, *rest = PurePosixPath(path).parts
        name = f"{first}/" if rest else first
        lines[name] += text.count("\n")
        counts[name] += 1
    return lines, counts


def table(columns: list[tuple[Counter[str], Counter[str]]], titles: list[str]) -> str:
    """Format the counts as a Markdown table with a row of totals."""
    header = ["folder", *(f"{what}, {title}" for title in titles for what in ("lines", "files"))]
    names = sorted(set().union(*(lines for lines, _ in columns)))
    rows = [[name, *(f"{counter[name]:,}" for column in columns for counter in column)] for name in names]
    rows.append(["total", *(f"{counter.total():,}" for column in columns for counter in column)])
    body = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in body)


def main(revisions: list[str]) -> None:
    """Print the working tree beside the given revisions, oldest first as they are given."""
    columns = [sizes(at_revision(revision)) for revision in revisions] + [sizes(working_tree())]
    print(table(columns, [*revisions, "now"]))


if __name__ == "__main__":
    main(sys.argv[1:])
