"""Forks of this process: they have imported everything, which takes a new process seconds."""

import multiprocessing
import os
import sys
import threading
import warnings

import pytest

FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None
needs_fork = pytest.mark.skipif(FORK is None, reason="no forks here")


def forked(call, *arguments):
    """Start a fork of this process that calls a function, and return it as a process of multiprocessing."""

    def run():
        sys.settrace(None)  # nobody reads what coverage would count in it
        threading.settrace(None)
        call(*arguments)

    process = FORK.Process(target=run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests do not matter here
        process.start()
    return process


def in_a_fork(call, *arguments):
    """Call a function in a fork of this process, and return what it returns."""
    here, there = FORK.Pipe(duplex=False)
    process = forked(lambda: there.send(call(*arguments)))
    there.close()
    found = here.recv()
    process.join()
    return found


def forked_command(main, argv, prepare=lambda: None):
    """Start a fork that prepares itself and runs a command line; the process, and a stream of its errors."""
    here, there = os.pipe()

    def run():
        sys.stdout, sys.stderr = open(os.devnull, "w"), open(there, "w", buffering=1)  # noqa: SIM115
        prepare()
        sys.exit(main([str(word) for word in argv]))

    process = forked(run)
    os.close(there)
    return process, open(here)
