"""Workers that die, and the threads and locks of others."""

import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import joblib
import numpy as np
import pytest

from spcatv import SPCATV
from spcatv._util import threads
from spcatv.selection.workers import run_calls


def square(number, folder):
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    if number == 5 and not (Path(folder) / "died").exists():
        (Path(folder) / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


@pytest.fixture
def dying(monkeypatch):
    """Let pools return a number of results each, the last ones first, and then lose their workers."""
    limits = []

    def parallel(**_):
        def pool(calls):
            limit = limits.pop(0)
            for function, arguments, _ in calls[::-1][:limit]:
                yield function(*arguments)
            if limit < len(calls):
                raise BrokenProcessPool("dead")

        return pool

    monkeypatch.setattr("spcatv.selection.workers.Parallel", parallel)
    return limits


def test_what_is_done_is_kept_and_the_rest_done_again(dying):
    dying += [3, 5]
    calls = []
    with pytest.warns(RuntimeWarning, match="3 of 8 fits were done.*other 5 are"):
        found = list(run_calls(lambda n: calls.append(n) or n**2, [(n,) for n in range(8)], 2))
    assert found == [number**2 for number in range(8)]
    assert sorted(calls) == list(range(8))  # none of them twice


def test_workers_that_die_again_are_an_error(dying):
    dying += [3, 4]
    died = pytest.raises(RuntimeError, match=r"died twice, at last when 7 of 8 .*n_jobs")
    with pytest.warns(RuntimeWarning), died:
        list(run_calls(lambda number: number, [(n,) for n in range(8)], 2))


@pytest.mark.slow
def test_a_process_that_is_killed(tmp_path):
    with pytest.warns(RuntimeWarning, match="a worker process died"):
        found = list(run_calls(square, [(number, tmp_path) for number in range(12)], 2))
    assert found == [number**2 for number in range(12)]


WAITING = """
import os, signal, sys
from spcatv.selection.workers import run_calls

def wait(*_):
    os.write(1, b"x")
    signal.pause()

class Unsent:  # waits while it is pickled for a worker
    def __reduce__(self):
        while True:
            wait()

list(run_calls(wait, [(Unsent() if sys.argv[1] == "before" else None,)] * 2, 2))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills a process")
@pytest.mark.parametrize("when", ["before", "in"])
def test_workers_end_with_a_parent_that_is_killed(when):
    """Killed before its workers have a task, or in their tasks; the pipe ends with the last of them."""
    parent = subprocess.Popen([sys.executable, "-c", WAITING, when], stdout=subprocess.PIPE)
    pipe = parent.stdout.fileno()
    assert os.read(pipe, 1) == b"x"
    parent.kill()
    parent.wait()
    read = b"x"
    while read:
        assert select.select([pipe], [], [], 60)[0], "the workers hang"
        read = os.read(pipe, 1)
    parent.stdout.close()


def test_threads_of_joblib(tmp_path):
    (tmp_path / "died").touch()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert list(run_calls(square, [(n, tmp_path) for n in range(4)])) == [0, 1, 4, 9]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_the_locks_of_other_threads():
    X = np.random.default_rng(0).standard_normal((6, 10))
    SPCATV(1, structure=(10,)).fit(X)
    held, release = threading.Event(), threading.Event()

    def hold():
        with threads._lock:
            held.set()
            release.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(20)
    threading.Timer(0.2, release.set).start()
    child = os.fork()
    if child == 0:  # in the child, nobody would ever release a lock that is held
        signal.alarm(20)
        SPCATV(1, structure=(10,)).fit(X)
        os._exit(0)
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
