"""Kernels that are compiled are announced, once; those that come from the cache are not."""

import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core import event
from recorder import Recorder

from spcatv.progress import Message, StageStarted, compilation, current_listener, listening, messages_only
from spcatv.progress.compilation import Announcer

MODULE = """
from spcatv.kernels.compiled import kernel

@kernel
def double(x):
    return x + x

@kernel
def triple(x):
    return x + x + x
"""
SAID = "compiling kernels for data like these: up to half a minute, once per installation"


@pytest.fixture
def loaded(tmp_path):
    """Load kernels as a new process would: those that were compiled before are on disk."""
    file = tmp_path / "made_up.py"
    file.write_text(MODULE)

    def load(name="spcatv.made_up"):
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def heard_by_a_new_process(*calls):
    recorder = Recorder()
    with event.install_listener("numba:compile", Announcer()), listening(recorder):
        for call in calls:
            call()
    return [told.text for told in recorder.of(Message)]


def test_compiling_is_reported_once_and_not_if_kernels_are_on_disk(loaded):
    cold = loaded()
    assert heard_by_a_new_process(lambda: cold.double(1.0), lambda: cold.triple(1.0)) == [SAID]
    warm = loaded()
    assert heard_by_a_new_process(lambda: warm.double(1.0), lambda: warm.triple(1.0)) == []
    assert heard_by_a_new_process(lambda: warm.double(np.float32(1.0))) == [SAID]  # another kind of data


def test_the_kernels_of_others_are_their_own_business(loaded):
    assert heard_by_a_new_process(lambda: loaded("elsewhere.made_up").double(1.0)) == []


def test_it_is_reported_while_fits_are_silent(loaded):
    recorder, module = Recorder(), loaded()
    with event.install_listener("numba:compile", Announcer()), listening(recorder), messages_only():
        current_listener().hear(StageStarted("nobody hears this"))
        module.triple(1.0)
    assert recorder.events == [Message(SAID)]


def test_without_a_listener_it_goes_to_the_standard_error(loaded, capsys):
    announcer, module = Announcer(), loaded()
    with event.install_listener("numba:compile", announcer):
        module.double(1.0)
        module.triple(1.0)
    assert capsys.readouterr() == ("", f"spca-tv: note: {SAID}\n")


def test_the_clock_stands_still_while_kernels_are_compiled(monkeypatch):
    announcer, times = Announcer(), iter([10.0, 17.0, 20.0])
    monkeypatch.setattr(compilation, "ANNOUNCER", announcer)
    monkeypatch.setattr(compilation, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    told = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=len)})
    announcer.on_start(told)  # at 10
    announcer.on_start(told)  # a kernel that the first one calls
    announcer.on_end(told)
    announcer.on_end(told)  # at 17
    assert compilation.working_seconds() == 20.0 - 7.0


@pytest.mark.slow
def test_the_first_fit_reports_it(tmp_path):
    code = (
        "import numpy as np; from spcatv import SPCATV;"
        "SPCATV(1, structure=(6,), verbose=1).fit(np.random.default_rng(0).standard_normal((8, 6)))"
    )
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for expected in ([f"[SPCATV] {SAID}"], []):
        command = [sys.executable, "-W", "ignore", "-c", code]
        lines = subprocess.check_output(command, text=True, env=surroundings).splitlines()
        assert [line for line in lines if "compiling" in line] == expected
        assert len(lines) == 1 + len(expected)
