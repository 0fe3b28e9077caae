"""What the command line prints: names of files, and what is in them, do nothing to the terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TextIO

# Control characters, which begin escape sequences; marks that turn the direction of text; and bytes of file
# names that are no text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with everything that would move the cursor or colour the terminal written out."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def say(text: str, file: TextIO | None = None) -> None:
    """Print lines, at once; to the standard output unless told otherwise."""
    print(printable(text), file=sys.stdout if file is None else file, flush=True)


def complain(kind: str, text: str) -> None:
    """Print an error, a warning or a note on one line."""
    say(f"spca-tv: {kind}: {' '.join(text.split())}", sys.stderr)


def show_page(file: Path) -> None:
    """Open a page in the browser; on a machine without one, say what to do."""
    import webbrowser  # imported here: it would slow down every command

    if not webbrowser.open(file.resolve().as_uri()):
        complain("note", f"no browser starts here; copy {file} to a machine with one, and open it there")
