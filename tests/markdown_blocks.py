"""Code blocks of Markdown pages: fenced ones by their language, indented ones if they are commands."""

import re
import shlex
from dataclasses import dataclass

# An indented block is made of commands if it begins with one of these; others are formulas, tables or what a
# command prints.
PROGRAMS = ("spca-tv", "make", "pip", "python")
# A fenced block; or lines of four spaces after an empty line. Before either may stand why it cannot run.
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<not_run>[^\n]+?) -->\n+)?"
    r"(?:^```(?P<language>\w*)\n(?P<fenced>.*?)^```$|(?<=\n\n)(?P<indented>(?:^ {4}[^\n]*\n)+))",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes
    ----------
    language : str
        What a fenced block says, or "commands".
    text : str
        The code, without indentation.
    line : int
        Number of its first line in the page, from 1.
    not_run : str or None
        Why it is marked as one that cannot run.
    """

    language: str
    text: str
    line: int
    not_run: str | None

    def commands(self):
        """The words of every command, without comments."""
        words = (shlex.split(line, comments=True) for line in self.text.splitlines())
        return [line for line in words if line]


def read_blocks(text):
    """All blocks of code in a page, in order."""
    blocks = []
    for found in BLOCK.finditer(text):
        if found["indented"] is not None and found["indented"].split()[0] not in PROGRAMS:
            continue
        part = "fenced" if found["indented"] is None else "indented"
        code = found[part] if part == "fenced" else re.sub(r"(?m)^ {4}", "", found[part])
        language = found["language"] if part == "fenced" else "commands"
        line = text.count("\n", 0, found.start(part)) + 1
        blocks.append(Block(language, code, line, found["not_run"]))
    return blocks
