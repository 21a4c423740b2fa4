"""Finished session with its log, as the widgets and the report page show it."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from harness.conversation.events import Entry, SessionStarted
from harness.inspection.session_task import SessionTask
from harness.protocols import Oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """Log of a finished session, with a name for display and, if known, its journal and an oracle.

    An oracle predicts which messages the session needs again.
    """

    name: str
    """Name of the session for display; the text may come from an untrusted file, so it must be escaped."""
    entries: tuple[Entry, ...]
    times_ms: tuple[int, ...] = ()
    """Time of each log entry in milliseconds since the epoch, for policies that read the time; empty if unknown."""
    journal: Path | None = None
    """Journal file that contains the session; None if the session is not in a journal."""
    saved_outputs: Collection[str] | None = None
    """Names of the session's saved tool outputs that were not deleted; None if the session is not in a journal."""
    oracle: Oracle | None = None
    """Prediction of which messages the session needs again, for policies that use such an oracle; None if unknown."""
    known_task: SessionTask | None = None
    """Task of the session with the results of its checks; None if at most the log has the task."""

    @property
    def start_event(self) -> SessionStarted | None:
        """First `SessionStarted` event in the log of the session; None if the log has no such event."""
        return next((entry.event for entry in self.entries if isinstance(entry.event, SessionStarted)), None)
