"""How many threads a computation may use, and that they end whatever happens."""

import dis
import os
import select
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from spcatv._util import threads
from spcatv._util.threads import in_order, most_threads, one_blas_thread, threads_for
from spcatv.kernels import thread_pool


@pytest.fixture
def sixteen_cores(monkeypatch):
    monkeypatch.setattr(threads, "_asked_at_start", [])
    monkeypatch.setattr(threads, "_cores", lambda: 16)
    with threadpool_limits(limits=16):
        yield


def test_all_cores_by_default(sixteen_cores):
    assert most_threads() == threads._library_limit() > 0


def test_cores_of_the_process_are_counted(monkeypatch):
    monkeypatch.setattr(threads, "_cores_of_the_machine", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert threads._cores() == 3
    monkeypatch.setattr(threads, "_cores_of_the_machine", lambda: 2)
    assert threads._cores() == 2


@pytest.mark.parametrize("name", threads.VARIABLES)
@pytest.mark.parametrize(("text", "limit"), [("3", 3), ("2,1", 2), ("0", 8), ("many", 8), ("", 8)])
def test_variables_of_the_environment(monkeypatch, sixteen_cores, name, text, limit):
    monkeypatch.setattr(threads, "_library_limit", lambda: 8)
    monkeypatch.setattr(threads, "_asked_at_start", threads._asked_for({name: text}))
    assert most_threads() == limit


def test_limits_of_threadpoolctl(sixteen_cores):
    with threadpool_limits(limits=1):
        assert most_threads() == 1
        with one_blas_thread():
            assert most_threads() == 1


def test_the_limit_of_a_fit_is_not_one_of_its_own_threads(monkeypatch, sixteen_cores):
    monkeypatch.setattr(threads, "_library_limit", lambda: 7)
    with one_blas_thread():
        monkeypatch.undo()
        monkeypatch.setattr(threads, "_cores", lambda: 16)
        monkeypatch.setattr(threads, "_asked_at_start", [])
        assert threads._library_limit() == 1
        assert most_threads() == 7


def test_any_thread_may_limit_blas():
    blas = threads._controller().select(user_api="blas").lib_controllers
    found = []

    def inside():
        with threads.one_blas_thread():
            found.append([library.num_threads for library in blas])

    with threadpool_limits(2):
        outside = [library.num_threads for library in blas]
        inside()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(inside).result()
        assert [library.num_threads for library in blas] == outside
    assert found == [[1] * len(blas)] * 2


def test_workers_of_joblib(monkeypatch, sixteen_cores):
    monkeypatch.setattr(threads, "_library_limit", lambda: 16)
    assert Parallel(2, backend="threading")(delayed(most_threads)() for _ in range(3)) == [1, 1, 1]
    assert Parallel(1)(delayed(most_threads)() for _ in range(2)) == [16, 16]


def _most_of_many_cores():
    threads._cores = lambda: 16
    threads._library_limit = lambda: 16
    return most_threads()


@pytest.mark.parametrize("granted", [1, 3])
def test_worker_processes_use_what_joblib_grants(granted):
    from joblib import parallel_config

    with parallel_config("loky", inner_max_num_threads=granted):
        assert Parallel(2)(delayed(_most_of_many_cores)() for _ in range(2)) == [granted, granted]


def test_forked_workers_use_one_thread(sixteen_cores):
    assert Parallel(2, backend="multiprocessing")(delayed(_most_of_many_cores)() for _ in range(2)) == [1, 1]


def test_tasks_of_dask_use_one_thread(sixteen_cores):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as client:
        assert client.submit(_most_with_cores, pure=False).result() == 1
    assert _most_with_cores() == 16


def _most_with_cores():
    before = threads._cores, threads._library_limit
    try:
        return _most_of_many_cores()
    finally:
        threads._cores, threads._library_limit = before


def test_little_work_stays_on_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "most_threads", lambda: 4)
    assert [threads_for(work, 10) for work in (0, 19, 20, 35, 1000)] == [1, 1, 2, 3, 4]


def test_a_call_beside_another_one_uses_one_thread():
    names = []

    def make(_):
        in_order(lambda _: names.append(threading.current_thread().name), id, 3, 3)
        return threading.current_thread().name

    outer = []
    in_order(make, outer.append, 2, 2)
    assert sorted(names) == sorted(3 * outer)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_item_that_cannot_be_taken_ends_all_of_them(error):
    made = []

    def take(_):
        raise error("no")

    with pytest.raises(error, match="no"):
        in_order(made.append, take, 1000, 3)
    assert len(made) <= 3
    in_order(made.append, id, 3, 3)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_items_are_taken_in_order(n_threads):
    taken = []
    second_is_made = threading.Event()

    def make(number):
        if number == 0 and n_threads > 1:
            assert second_is_made.wait(60)
        if number == 1:
            second_is_made.set()
        return number

    in_order(make, taken.append, 20, n_threads)
    assert taken == list(range(20))


def test_an_item_that_cannot_be_made():
    taken = []

    def make(number):
        if number == 5:
            raise ValueError("five")
        return number

    with pytest.raises(ValueError, match="five"):
        in_order(make, taken.append, 1000, 4)
    assert taken == list(range(5))


def test_the_first_of_several_failures_is_raised():
    """Five items are begun, and end from the last to the first: the order in time must not matter."""
    all_begun = threading.Barrier(5, timeout=60)
    ended = [threading.Event() for _ in range(5)]

    def make(number):
        all_begun.wait()
        if number < 4:
            assert ended[number + 1].wait(60)
        ended[number].set()
        if number in (3, 4):
            raise ValueError(f"item {number}")
        return number

    taken = []
    with pytest.raises(ValueError, match="item 3"):
        in_order(make, taken.append, 5, 5)
    assert taken == [0, 1, 2]


# After these instructions CPython handles signals, and Ctrl-C is raised.
CHECKING = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD")


def _interrupted(call, number):
    """Call a function with a Ctrl-C at the place of this number in the package; whether there was one."""
    last = {}

    def look(frame, event, _):
        nonlocal number
        if event == "opcode":
            before, last[frame] = last.get(frame), frame.f_lasti
            if before is not None and dis.opname[frame.f_code.co_code[before]] in CHECKING:
                number -= 1
                if number == 0:
                    raise KeyboardInterrupt
        return look

    def enter(frame, event, _):
        frame.f_trace_opcodes = frame.f_code.co_filename in (threads.__file__, thread_pool.__file__)
        return look if frame.f_trace_opcodes else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def _in_a_block():
    with one_blas_thread():
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda: in_order(lambda number: number, lambda _: None, 4, 3),
        lambda: thread_pool.run_shares(lambda *_: None, (), 3),
        _in_a_block,
    ],
    ids=["items", "kernel", "libraries"],
)
def test_ctrl_c_at_any_moment_leaves_all_threads(call):
    libraries, n_places, counts = threads._library_limit(), 0, []
    while _interrupted(call, n_places + 1):
        n_places += 1
        counts.clear()
        call()
        in_order(lambda number: number, counts.append, 4, 3)
        thread_pool.run_shares(lambda _, n_threads, board: counts.append(n_threads), (), 3)
        assert counts[:4] == [0, 1, 2, 3], f"place {n_places}"
        assert set(counts[4:]) == {3}, f"place {n_places}"
        assert not threads.users_of_cores(), f"place {n_places}"
        assert threads._library_limit() == libraries, f"place {n_places}"
    assert n_places > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_has_threads_of_its_own():
    in_order(str, id, 3, 3)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        made = []
        in_order(str, made.append, 3, 3)
        os.write(there, b"yes" if made == ["0", "1", "2"] else b"no")
        os._exit(0)
    answered = select.select([here], [], [], 60)[0]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert answered, "the child hangs"
    assert os.read(here, 3) == b"yes"
    os.close(here)
    os.close(there)
