"""Worker processes that die, and backends that would wait for them for ever."""

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
from spcatv.selection.workers import JoblibWorkers, LostWorkerWarning, workers


def square(number, folder):
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    if number == 5 and not (Path(folder) / "died").exists():
        (Path(folder) / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


class FragilePool:
    """A pool that returns some results, the last ones first, and then has lost its workers."""

    def __init__(self, n_results):
        self.n_results = n_results
        self.closed = False

    def __call__(self, calls):
        for function, arguments, _ in calls[::-1][: self.n_results]:
            yield function(*arguments)
        if self.n_results < len(calls):
            raise BrokenProcessPool("dead")

    def __exit__(self, *_):
        self.closed = True


@pytest.fixture
def pools(monkeypatch):
    """Pools that break after 3 results and after a number to be appended."""
    made = [FragilePool(3)]
    waiting = iter(made)
    monkeypatch.setattr(JoblibWorkers, "_new_pool", lambda self: next(waiting))
    return made


def test_what_is_done_is_kept_and_the_rest_done_again(pools):
    pools.append(FragilePool(5))
    calls = []
    with workers(2) as pool, pytest.warns(LostWorkerWarning, match="3 of 8 fits were done.*other 5 are"):
        found = list(pool.run(lambda number: calls.append(number) or number**2, [(n,) for n in range(8)]))
    assert found == [number**2 for number in range(8)]
    assert sorted(calls) == list(range(8))  # none of them twice
    assert all(pool.closed for pool in pools)


def test_workers_that_die_again_are_an_error(pools):
    pools.append(FragilePool(4))
    died = pytest.raises(RuntimeError, match=r"died twice, when 3 and when 7 of 8 .*n_jobs")
    with workers(2) as pool, pytest.warns(LostWorkerWarning), died:
        list(pool.run(lambda number: number, [(n,) for n in range(8)]))


@pytest.mark.slow
def test_a_process_that_is_killed(tmp_path):
    with workers(2) as pool:
        with pytest.warns(LostWorkerWarning):
            found = list(pool.run(square, [(number, tmp_path) for number in range(12)]))
        assert list(pool.run(square, [(3, tmp_path)])) == [9]  # the new workers stay
    assert found == [number**2 for number in range(12)]


WAITING = """
import os, signal, sys
from spcatv.selection.workers import workers

def wait(*_):
    os.write(1, b"x")
    signal.pause()

class Unsent:  # waits while it is pickled for a worker
    def __reduce__(self):
        while True:
            wait()

with workers(2) as pool:
    list(pool.run(wait, [(Unsent() if sys.argv[1] == "before" else None,)] * 2))
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


@pytest.mark.parametrize("backend", ["multiprocessing", "threading"])
def test_backends(backend, tmp_path):
    (tmp_path / "died").touch()
    with joblib.parallel_config(backend=backend, n_jobs=2):
        if backend == "multiprocessing":
            with pytest.raises(ValueError, match="take 'loky'"), workers(None):
                pass
        else:
            with workers(None) as pool:
                assert list(pool.run(square, [(n, tmp_path) for n in range(4)])) == [0, 1, 4, 9]


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
