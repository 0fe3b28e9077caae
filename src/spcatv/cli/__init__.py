"""The command line, `spca-tv`: commands and options in `app`, one thin module per command.

Exit codes: 0 done; 1 failure, with one line that says why; 2 wrong use or wrong input; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from spcatv.cli.app import COMMANDS, build_parser, complete_if_asked
from spcatv.cli.display import complain


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (by default the arguments of the process) names, and return the exit code.

    0 is done, 1 failure, 2 wrong input, 130 interrupted. If the arguments cannot be parsed, argparse itself
    ends the process with 2.
    """
    parser = build_parser()
    complete_if_asked(parser)
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2, "spca-tv: error: the following arguments are required: COMMAND\n")
    arguments = parser.parse_args(words)
    arguments.argv = words
    try:
        with _termination_interrupts():
            # imported here: help must not wait for what a command needs to work
            import_module(COMMANDS[arguments.command][1]).run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        return _failed(str(interrupt) or "interrupted", 130, debug=False)
    except Exception as error:
        # the outermost caller: any error ends the process with one line, not with a traceback; --debug shows
        # that too
        if isinstance(error, BrokenPipeError) and _reader_is_gone():
            return 1
        return _failed(_error_text(error), getattr(error, "exit_code", 1), debug=arguments.debug)
    return 0


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP unless it is ignored (nohup), stop the work as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a signal handler
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    kinds = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {kind: signal.getsignal(kind) for kind in kinds if signal.getsignal(kind) != signal.SIG_IGN}
    for kind in before:
        signal.signal(kind, interrupt)
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _reader_is_gone() -> bool:
    """Return whether the standard output is a closed pipe (head, less), and discard later output if so."""
    import select  # imported here: the package has a module of this name

    with suppress(OSError, AttributeError):  # no descriptor; no poll (Windows)
        output, poll = sys.stdout.fileno(), select.poll()
        poll.register(output, select.POLLOUT)
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)
            return True
    return False


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _failed(message: str, code: int, *, debug: bool) -> int:
    with suppress(OSError):  # the terminal may be gone
        if debug:
            traceback.print_exc()
        complain("error", message)
    return code
