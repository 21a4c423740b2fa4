"""View at any point of a long session's log, without reading the whole log again.

A view is computed from all log entries before it. Storing the view of every step would take too much memory in a long session,
and computing a view from the beginning of the log would take too much time. A `ViewHistory` therefore stores the view after every
few hundred entries and computes the others from the nearest stored view before them.
"""

from collections.abc import Iterable, Sequence

from harness.conversation.events import Entry
from harness.conversation.tokens import Counter
from harness.conversation.view import View, fold_entries

ENTRIES_PER_CHECKPOINT = 256


class ViewHistory:
    """Log of a session that quickly returns the view after any entry.

    The log must not contain rollbacks; `harness.conversation.view.drop_rolled_back` removes them.
    """

    def __init__(
        self,
        counter: Counter,
        entries: Iterable[Entry] = (),
        *,
        change_counter: Counter | None = None,
        start: View | None = None,
        skipped: int = 0,
    ) -> None:
        """Compute and store views from the first entries of a log.

        Args:
            counter: Token counter with which the views estimate the length of messages.
            entries: Entries of the log, from its beginning; more may be appended.
            change_counter: Token counter for the messages of compactions, with the same results. The counter with which the
                compactions were made saves the time to count them again. None uses `counter`.
            start: View before `entries`, if the beginning of the log is not kept. Default: that of an empty log.
            skipped: Number of entries in that beginning.
        """
        self._counter, self._change_counter = counter, change_counter or counter
        self._entries: list[Entry] = []
        self._view = View() if start is None else start
        self._checkpoints = [self._view]
        self._skipped = skipped
        self._folded = 0
        """Number of entries that `_view` includes; the others are added together when the view is needed."""
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return self._skipped + len(self._entries)

    @property
    def entries(self) -> Sequence[Entry]:
        """Entries of the log so far, without its beginning if that is not kept."""
        return self._entries

    @property
    def view(self) -> View:
        """View after all entries so far."""
        if self._folded < len(self._entries):
            self._view = fold_entries(self._view, self._entries[self._folded :], self._counter, self._change_counter)
            self._folded = len(self._entries)
        return self._view

    def append(self, entry: Entry) -> None:
        """Add the next entry of the log."""
        self._entries.append(entry)
        if len(self._entries) % ENTRIES_PER_CHECKPOINT == 0:
            self._checkpoints.append(self.view)

    def view_after(self, entries: int) -> View:
        """Return the view after the first `entries` entries of the log, which must include those that are not kept."""
        entries -= self._skipped
        assert entries >= 0
        checkpoint = entries // ENTRIES_PER_CHECKPOINT
        start = checkpoint * ENTRIES_PER_CHECKPOINT
        return fold_entries(self._checkpoints[checkpoint], self._entries[start:entries], self._counter, self._change_counter)
