"""What ``verbose`` prints, to the letter, but for the seconds."""

import re

import pytest
from recorder import Recorder

from spcatv import SPCATV
from spcatv.progress import AlternationEnded, ComponentEnded, ComponentStarted, listening


def lines_of(events, verbose):
    """The lines that these events must give, without the seconds at their ends."""
    lines, component = [], ""
    for event in events:
        if isinstance(event, ComponentStarted):
            component = f"[SPCATV] component {event.number}/2"
        elif isinstance(event, AlternationEnded) and verbose > 1:
            lines.append(
                f"{component}, alternation {event.number}: objective {event.objective:.8g}, "
                f"relative gap {event.relative_gap:.2e}, "
            )
        elif isinstance(event, ComponentEnded):
            found = event.diagnostics
            state = "converged" if found.converged else "NOT converged"
            lines.append(
                f"{component} {state}: objective {found.objective:.8g}, relative gap "
                f"{found.relative_gap:.2e}, {found.n_alternations} alternations, "
                f"{100 * found.sparsity:.1f} % zeros, "
            )
    return lines


@pytest.mark.parametrize("verbose", [1, 2])
def test_lines_of_a_fit(striped, verbose, capsys):
    recorder = Recorder()
    with listening(recorder):
        SPCATV(2, structure=(60,), alpha=0.5, verbose=verbose).fit(striped)
    printed = capsys.readouterr().out.splitlines()
    without_seconds = [re.fullmatch(r"(.*, )\d+\.\d\d s", line).group(1) for line in printed]
    assert without_seconds == lines_of(recorder.events, verbose)
    assert len(printed) == 2 + (verbose > 1) * len(recorder.of(AlternationEnded))


def test_a_component_that_does_not_converge(striped, capsys):
    with pytest.warns(Warning, match="was not reached"):
        SPCATV(1, structure=(60,), alpha=0.3, init="random", random_state=0, max_iter=1, verbose=1).fit(
            striped
        )
    assert "component 1/1 NOT converged: objective" in capsys.readouterr().out


def test_nothing_is_printed_by_default(striped, capsys):
    SPCATV(2, structure=(60,), alpha=0.5).fit(striped)
    assert capsys.readouterr().out == ""
