"""Shared kernels: every share runs once, threads meet, and any of them may fall asleep."""

import os
import threading

import numpy as np
import pytest

from spcatv._util.threads import CORES, users_of_cores
from spcatv.kernels import thread_pool
from spcatv.kernels.thread_pool import (
    APART,
    AWAKE,
    make_marks,
    meet,
    own_parts,
    own_range,
    run_shares,
    shared_kernel,
)


@shared_kernel
def _count(number, n_threads, counts, scale):
    counts[number, 0] += scale
    counts[number, 1] = n_threads


@shared_kernel
def _count_the_late(number, n_threads, marks, times, counts):
    for mark in range(1, times + 1):
        counts[number, 0] += 1
        meet(marks, number, n_threads, 2 * mark - 1)
        for other in range(n_threads):
            counts[number, 1] += counts[other, 0] != mark
        meet(marks, number, n_threads, 2 * mark)


def _count_on(n_threads, times=1):
    counts = np.zeros((n_threads, 2), dtype=np.int64)
    for _ in range(times):
        run_shares(_count, (counts, 3), n_threads)
    return counts.tolist()


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_every_share_runs_once(n_threads):
    assert _count_on(n_threads, 100) == [[300, n_threads]] * n_threads


def test_threads_that_fell_asleep_are_woken():
    for _ in range(3):
        assert _count_on(4) == [[3, 4]] * 4
        board = thread_pool._pool.board
        while any(board[number * APART + AWAKE] for number in (1, 2, 3)):
            threading.Event().wait(0.001)  # between two looks: they fall asleep after a while without work


def test_nobody_leaves_a_meeting_before_the_last_has_come():
    counts = np.zeros((4, 2), dtype=np.int64)
    run_shares(_count_the_late, (make_marks(4), 200, counts), 4)
    assert counts.tolist() == [[200, 0]] * 4


def test_one_thread_where_another_has_the_cores(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(users_of_cores(), CORES, object())
        assert _count_on(3) == [[3, 1], [0, 0], [0, 0]]
    assert _count_on(3) == [[3, 3]] * 3


def test_a_thread_that_cannot_be_started_is_started_later(monkeypatch):
    start, started = threading.Thread.start, []

    def fail_once(thread):
        started.append(thread)
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    monkeypatch.setattr(thread_pool, "_pool", thread_pool._Pool())
    with pytest.raises(RuntimeError, match="new thread"):
        _count_on(3)
    # without a thread of its own, a share would be waited for without end
    assert len(thread_pool._pool._doors) == 1
    assert _count_on(3) == [[3, 3]] * 3


def test_no_more_threads_than_a_board_has_room_for(monkeypatch):
    monkeypatch.setattr(thread_pool, "MOST_THREADS", 2)
    assert _count_on(3) == [[3, 2], [3, 2], [0, 0]]


def test_several_fits_at_a_time():
    results = []
    callers = [threading.Thread(target=lambda: results.append(_count_on(3, 200))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    # somebody else had the cores, or not: no share is lost or done twice
    assert len(results) == 4
    for result in results:
        assert result[0][0] == 600
        assert result[1] == result[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_a_pool_of_its_own():
    assert _count_on(3) == [[3, 3]] * 3
    child = os.fork()
    if child == 0:
        os._exit(0 if _count_on(3) == [[3, 3]] * 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(("n_threads", "n_entries", "cut"), [(1, 10, 4), (3, 10, 4), (4, 3, 1), (5, 100, 7)])
def test_ranges_cover_everything_once(n_threads, n_entries, cut):
    ranges = [own_range.py_func(number, n_threads, n_entries, cut) for number in range(n_threads)]
    assert [j for first, last in ranges for j in range(first, last)] == list(range(n_entries))
    assert all(first % cut == 0 for first, _ in ranges)
    assert own_parts.py_func(0, 1, 9) == (0, 9)
