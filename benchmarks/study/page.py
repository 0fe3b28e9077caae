"""The generated parts of the page, which begin and end with a comment."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.study import sentences, tables
from benchmarks.study.tables import Results

# Parts of the page: <!-- generated: name --> ... <!-- end -->
BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
PARTS: dict[str, Callable[[Results], str]] = {
    "summary": sentences.summary,
    "findings": sentences.findings,
    "run": tables.what_was_run,
    "main": tables.main_tables,
    "reached": tables.reached,
    "dice-folds": tables.dice_folds,
    "dice-halves": tables.dice_halves,
    "errors": tables.errors,
    "error-tests": tables.error_tests,
    "age": tables.ages,
    "brief": tables.brief,
}


def filled(page: str, results: Results) -> str:
    """The page with every generated part written anew from the results."""

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match['name']](results)}\n\n{match[4]}"

    return BLOCK.sub(replace, page)
