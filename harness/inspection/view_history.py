"""Views of a long session at any point of its log, without folding the whole log for each of them.

A view is a fold over the log, and a view of a session without compaction holds every message. Keeping the view of each step would
take memory that grows with the square of the session, and folding again from the beginning would take time that grows with it. A
`ViewHistory` keeps the view after every few hundred entries and folds the entries that follow it.
"""

from collections.abc import Iterable

from harness.events import Entry
from harness.tokens import Counter
from harness.view import View, fold

ENTRIES_PER_CHECKPOINT = 256


class ViewHistory:
    """Log entries of a session with the views that they lead to.

    The entries contain no rollback (see `harness.view.drop_rolled_back`).
    """

    def __init__(self, counter: Counter, entries: Iterable[Entry] = ()) -> None:
        """Fold the entries.

        Args:
            counter: Token counter of the views.
            entries: Entries of the log, from its beginning; more may be appended.
        """
        self._counter = counter
        self._entries: list[Entry] = []
        self._checkpoints = [View()]
        self.view = View()
        """View after all entries so far."""
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        """Return the number of entries so far."""
        return len(self._entries)

    def append(self, entry: Entry) -> None:
        """Fold one more entry of the log."""
        self.view = fold(self.view, entry, self._counter)
        self._entries.append(entry)
        if len(self._entries) % ENTRIES_PER_CHECKPOINT == 0:
            self._checkpoints.append(self.view)

    def view_after(self, entries: int) -> View:
        """Return the view after the first `entries` entries of the log."""
        checkpoint = entries // ENTRIES_PER_CHECKPOINT
        view = self._checkpoints[checkpoint]
        for entry in self._entries[checkpoint * ENTRIES_PER_CHECKPOINT : entries]:
            view = fold(view, entry, self._counter)
        return view
