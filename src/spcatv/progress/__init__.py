"""Progress: one set of events, and listeners that print, log, draw or stop (a leaf of the package).

Code that works sends events; code that shows them is a `Listener`. ::

    with listening(my_listener):
        SPCATV(2).fit(X)  # my_listener receives every component and every alternation
"""

from spcatv.progress.bars import ProgressBar
from spcatv.progress.events import (
    AlternationEnded,
    ComponentEnded,
    ComponentStarted,
    Event,
    FileRead,
    Message,
    StageAdvanced,
    StageStarted,
)
from spcatv.progress.listeners import (
    SILENT,
    Listener,
    Printer,
    Together,
    current_listener,
    listening,
    messages_only,
    printing,
)

__all__ = [
    "SILENT",
    "AlternationEnded",
    "ComponentEnded",
    "ComponentStarted",
    "Event",
    "FileRead",
    "Listener",
    "Message",
    "Printer",
    "ProgressBar",
    "StageAdvanced",
    "StageStarted",
    "Together",
    "current_listener",
    "listening",
    "messages_only",
    "printing",
]
