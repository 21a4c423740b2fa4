"""A log that is kept in memory: for previews and tests."""

from collections.abc import Sequence

from harness.errors import FileMissing, StoreError
from harness.events import Entry, Event
from harness.truncation import name_output


class MemoryOutputs:
    """Tool outputs of one session as long as the object lives. Thread-safe."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._texts: dict[str, str] = {}

    def save(self, text: str) -> str:
        """See `harness.protocols.OutputStore`."""
        name = name_output(text)
        self._texts[name] = text
        return name

    def load(self, name: str) -> str:
        """See `harness.protocols.OutputStore`."""
        if name not in self._texts:
            raise FileMissing(name)
        return self._texts[name]


class MemoryLog:
    """The record of one session as long as the object lives. Not thread-safe."""

    def __init__(self, refuse_after: int | None = None) -> None:
        """Start an empty log.

        Args:
            refuse_after: fail like a full disk once it holds this many events; None = never.
        """
        self._entries: list[Entry] = []
        self._refuse_after = refuse_after

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Log events together.

        Raises:
            StoreError: nothing was kept, `refuse_after` is reached.
        """
        entry_count = len(self._entries)
        if self._refuse_after is not None and entry_count + len(events) > self._refuse_after:
            raise StoreError(f"this log takes {self._refuse_after} events and holds {entry_count}")
        new = tuple(Entry(entry_count + number, event) for number, event in enumerate(events, 1))
        self._entries += new
        return new

    def entries(self) -> tuple[Entry, ...]:
        """All events so far, in order."""
        return tuple(self._entries)

    def close(self) -> None:
        """Nothing to flush."""
