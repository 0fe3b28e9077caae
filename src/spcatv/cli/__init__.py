"""The command line, `spca-tv`: one thin module per command.

Exit codes: 0 done; 1 failure, with one line that says why; 2 wrong use or wrong input; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from spcatv._util.text_table import TableError
from spcatv._version import __version__
from spcatv.cli import demo, fit, info, report, select, transform
from spcatv.cli.kinds import InputError
from spcatv.results import ResultsError

COMMANDS = (fit, select, transform, report, info, demo)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (by default the arguments of the process) names, and return the exit code.

    0 is done, 1 failure, 2 wrong input, 130 interrupted. If the arguments cannot be parsed, argparse itself
    ends the process with 2.
    """
    parser = _build_parser()
    arguments = parser.parse_args(argv)
    arguments.argv = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        return _complain(str(interrupt) or "interrupted", 130, debug=False)
    except BrokenPipeError:
        # the reader (head, less) is gone: nobody can be told, and nothing more may be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (InputError, ResultsError, TableError) as error:
        return _complain(str(error), 2, debug=arguments.debug)
    except Exception as error:
        # the outermost caller: whatever went wrong ends the process with code 1 and one line, not with a
        # traceback; --debug shows that too
        return _complain(str(error) or type(error).__name__, 1, debug=arguments.debug)
    return 0


def _complain(message: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"spca-tv: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spca-tv",
        description="Structured sparse PCA: components made of a few coherent regions, with a certificate.",
    )
    parser.add_argument("--version", action="version", version=f"spca-tv {__version__}")
    parser.set_defaults(debug=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = command.add_parser(commands)
        subparser.add_argument("--debug", action="store_true", help="on failure, show the traceback as well")
        subparser.set_defaults(run=command.run)
    return parser
