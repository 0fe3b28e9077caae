"""The command line, `spca-tv`: one thin module per command.

Exit codes: 0 done; 1 failure, with one line that says why; 2 wrong use or wrong input; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from spcatv.cli.kinds import InputError
from spcatv.cli.parser import build_parser
from spcatv.cli.saying import complain


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (by default the arguments of the process) names, and return the exit code.

    0 is done, 1 failure, 2 wrong input, 130 interrupted. If the arguments cannot be parsed, argparse itself
    ends the process with 2.
    """
    arguments = build_parser().parse_args(argv)
    arguments.argv = sys.argv[1:] if argv is None else list(argv)
    try:
        # imported here: help must not wait for what a command needs to work
        import_module(f"spcatv.cli.{arguments.command}").run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        return _complain(str(interrupt) or "interrupted", 130, debug=False)
    except BrokenPipeError:
        # the reader (head, less) is gone: nobody can be told, and nothing more may be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        # the outermost caller: whatever went wrong ends the process with one line, not with a traceback;
        # --debug shows that too
        return _complain(str(error) or type(error).__name__, _exit_code(error), debug=arguments.debug)
    return 0


def _exit_code(error: Exception) -> int:
    """2 for what the user gave, 1 for any other failure."""
    from spcatv._util.text_table import TableError
    from spcatv.results import ResultsError

    return 2 if isinstance(error, (InputError, ResultsError, TableError)) else 1


def _complain(message: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    with suppress(OSError):  # the terminal may be gone
        complain("error", message)
    return code
