"""The command line as a function, for data on which a naive program would go wrong without a word."""

from typing import NamedTuple

import pytest

from spcatv.cli import main


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def spca_tv(capsys):
    """Run a command and return its exit code and what it printed."""

    def run(*argv):
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return Ran(code, *capsys.readouterr())

    return run
