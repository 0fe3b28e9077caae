"""Write a file completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to a temporary file that replaces `path` once the body has ended without an error.

    Parameters
    ----------
    path : Path
        The file to create or to replace, in an existing folder.

    Yields
    ------
    Path
        An empty file in the same folder to write to; it is removed if the body raises.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp creates files that only their owner can read
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
