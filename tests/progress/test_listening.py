"""Events of a fit, and who hears them."""

import threading

import numpy as np
import pytest
from recorder import Recorder

from spcatv import SPCATV, SPCATVCV
from spcatv._util.threads import in_order
from spcatv.data import as_data
from spcatv.progress import (
    SILENT,
    AlternationEnded,
    ComponentEnded,
    ComponentStarted,
    Message,
    StageAdvanced,
    StageStarted,
    Together,
    current_listener,
    listening,
)
from spcatv.selection.workers import run_calls

HELLO = Message("hello")


def fit(X, **options):
    return SPCATV(**{"n_components": 2, "structure": (60,), "alpha": 0.5, **options}).fit(X)


def test_events_of_a_fit_come_in_order(striped):
    recorder = Recorder()
    with listening(recorder):
        model = fit(striped, tol=1e-5)
    expected = []
    for number, found in enumerate(model.diagnostics_, start=1):
        expected.append((ComponentStarted, number))
        expected += [(AlternationEnded, alternation + 1) for alternation in range(found.n_alternations)]
        expected.append((ComponentEnded, number))
    assert [(type(event), event.number) for event in recorder.events] == expected
    assert {event.tol for event in recorder.of(ComponentStarted)} == {1e-5}
    alternations, ended = recorder.of(AlternationEnded), recorder.of(ComponentEnded)
    objectives = [value for found in model.diagnostics_ for value in found.objectives]
    assert [event.objective for event in alternations] == objectives
    assert alternations[-1].relative_gap == ended[-1].diagnostics.relative_gap
    assert [event.n_components for event in recorder.of(ComponentStarted, ComponentEnded)] == [2] * 4
    assert tuple(event.diagnostics for event in ended) == model.diagnostics_
    np.testing.assert_array_equal(ended[0].components, model.components_[:1])
    np.testing.assert_array_equal(ended[1].components, model.components_)


def test_listeners_change_nothing(striped):
    with listening(Recorder()):
        heard = fit(striped)
    np.testing.assert_array_equal(heard.components_, fit(striped).components_)


def test_a_listener_stops_after_a_component(striped):
    with listening(Recorder(stop=lambda event: isinstance(event, ComponentEnded))):
        model = fit(striped)
    assert model.components_.shape == (1, 60)


def test_a_listener_stops_the_alternation(striped):
    stopper = Recorder(stop=lambda event: isinstance(event, AlternationEnded))
    with pytest.warns(Warning, match="was not reached"), listening(stopper):
        model = fit(striped, n_components=1, alpha=0.3, init="random", random_state=0)
    assert model.n_iter_ == 1


def test_together_all_hear_and_any_may_stop():
    first, second = Recorder(stop=lambda event: True), Recorder()
    for pair in (Together((first, second)), Together((second, first))):
        assert pair.hear(HELLO) is True
    assert first.events == second.events == [HELLO, HELLO]
    assert Together((second, SILENT)).hear(HELLO) is False
    assert SILENT.hear(HELLO) is False


def test_nested_blocks_all_receive_events():
    outer, inner = Recorder(), Recorder(stop=lambda event: True)
    assert current_listener() is SILENT
    with listening(outer):
        with listening(inner):
            assert current_listener().hear(HELLO) is True
        assert current_listener() is outer
        assert current_listener().hear(HELLO) is False
    assert current_listener() is SILENT
    current_listener().hear(Message("nobody hears this"))
    assert outer.events == [HELLO, HELLO]
    assert inner.events == [HELLO]


def test_blocks_end_after_a_failure():
    outer = Recorder()
    with listening(outer):
        with pytest.raises(ZeroDivisionError), listening(Recorder()):
            raise ZeroDivisionError
        assert current_listener() is outer


def test_threads_do_not_hear_each_other():
    heard, both = {}, threading.Barrier(2)

    def work(name):
        recorder = Recorder()
        with listening(recorder):
            both.wait()  # both threads listen now
            current_listener().hear(Message(name))
            both.wait()
        heard[name] = recorder.events

    main = Recorder()
    with listening(main):
        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert main.events == []
    assert heard == {"one": [Message("one")], "two": [Message("two")]}


def test_threads_of_a_computation_have_its_listener():
    """A message from inside, such as that kernels are compiled, goes where all others go."""
    recorder, found = Recorder(), []

    def send():
        current_listener().hear(HELLO)

    with listening(recorder):
        in_order(lambda number: current_listener(), found.append, 3, 2)
        list(run_calls(send, [(), ()], data=as_data(np.eye(3))))
    assert found == [recorder] * 3
    assert recorder.events == [HELLO, HELLO]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_selection_reports_its_chains_and_not_its_fits(striped, n_jobs):
    """The same events on any number of workers."""
    recorder = Recorder()
    with listening(recorder):
        SPCATVCV(1, cv=2, alpha=(0.1, 0.2), l1_ratio=0.25, tv_ratio=(0.1, 0.5), n_jobs=n_jobs).fit(striped)
    assert recorder.events[0] == StageStarted("Comparing settings", 4, "chains of fits")
    assert [type(event) for event in recorder.events[1:]] == [StageAdvanced] * 4
    assert recorder.events[-1].note.startswith("chain 4 of 4: fold 2, l1_ratio=0.25, tv_ratio=0.5")
