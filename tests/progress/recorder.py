"""A listener for tests."""


class Recorder:
    """Keeps all events, and asks to stop where `stop` says so."""

    def __init__(self, stop=lambda event: False):
        self.events = []
        self._stop = stop

    def hear(self, event):
        self.events.append(event)
        return self._stop(event)

    def of(self, *kinds):
        return [event for event in self.events if isinstance(event, kinds)]
