"""One file that appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`, and move it there only when all went well.

    Parameters
    ----------
    path : Path
        The file to make or to replace, in a folder that is there.

    Yields
    ------
    Path
        An empty file to write to; it is removed if the body raises.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp makes files that only their owner may read
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
