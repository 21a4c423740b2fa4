"""What is seen of a session where no kernel answers: plain text, and HTML in which everything that others wrote is escaped."""

import html
import secrets
import threading
from typing import Any

from harness.widgets.feed import Feed
from harness.widgets.harness_widget import VIEW_MIMETYPE, HarnessWidget, render_preformatted, render_table
from harness.widgets.message_channel import SHARED_SENDER, JsonObject, MessageSender


class SnapshotWidget(HarnessWidget):
    """A widget that is displayed with its saved form, which is renewed when it rests."""

    def __init__(self, sender: MessageSender = SHARED_SENDER) -> None:
        """Nothing is displayed yet."""
        super().__init__(sender)
        self._handles: list[Any] = []
        self._snapshot_text = ""
        self._snapshot_lock = threading.Lock()
        self.snapshot_mark = secrets.token_hex(6)
        """Part of the class of the saved form; pages are told it as the state `saved`, to hide it."""
        self.channel.update_state(saved=self.snapshot_mark)

    @property
    def is_resting(self) -> bool:
        """Whether nothing will change before the user does something."""
        return False

    def update_snapshot(self) -> None:
        """Renew the saved form if the widget rests and there is something new in it."""
        if not self._handles or not self.is_resting:
            return
        with self._snapshot_lock:
            text = self.render_text()
            if text != self._snapshot_text:
                self._snapshot_text = text
                for handle in self._handles:
                    handle.update(self._build_snapshot(), raw=True)

    def _build_snapshot(self) -> dict[str, str]:
        return {
            "text/plain": self.render_text(),
            "text/html": f'<div class="harness-saved-{self.snapshot_mark}">{self.render_html()}</div>',
        }

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  (only called by it)

        bundle, _ = self._repr_mimebundle_()
        display({"text/plain": bundle["text/plain"], VIEW_MIMETYPE: bundle[VIEW_MIMETYPE]}, raw=True)  # type: ignore[no-untyped-call]
        self._snapshot_text = self.render_text()
        self._handles.append(display(self._build_snapshot(), raw=True, display_id=True))  # type: ignore[no-untyped-call]


MAX_TRANSCRIPT_ROWS = 60
"""Of the transcript."""
MAX_TEXT_CHARACTERS = 1_000
"""Of one row."""


def render_text(feed: Feed) -> str:
    """The session in a line."""
    session = _read_mapping(feed, "session")
    phase = str(feed.state.get("phase", "new"))
    return f"session {session.get('id', '')} ({session.get('model', '')}): {phase}; {feed.totals.describe()}"


def render_html(feed: Feed) -> str:
    """The session as it stands: figures, compactions, and the end of its transcript."""
    parts = [f"<p><b>{html.escape(render_text(feed))}</b></p>"]
    again = _read_mapping(feed, "session").get("reopen")
    if again:
        told = html.escape(str(again))
        parts.append(f"<p>The buttons are there while its kernel runs. Go on with it by <code>{told}</code></p>")
    rounds = [one.build_timeline_point() for one in feed.history.rounds_by_seq.values()]
    if rounds:
        head = ("compaction", "before step", "tokens before", "tokens after", "facts lost")
        rows = [
            (
                one["round"] if one["status"] == "applied" else one["status"],
                *(one[name] for name in ("step", "before", "after")),
                "" if one["lost"] is None else one["lost"],
            )
            for one in rounds
        ]
        parts.append(render_table(head, rows))
    if feed.rows:
        left_out = max(0, len(feed.rows) - MAX_TRANSCRIPT_ROWS)
        lines = [f"({left_out} rows before)"] if left_out else []
        lines += [_render_row(row) for row in feed.rows[-MAX_TRANSCRIPT_ROWS:]]
        parts.append(f"<details open><summary>Transcript</summary>{render_preformatted(chr(10).join(lines))}</details>")
    return "".join(parts)


def _render_row(row: JsonObject) -> str:
    if row["kind"] == "tool":
        return f"  [{row['status']}] {row['title']}"
    if row["kind"] == "compaction":
        return f"-- compaction: {row['before']} -> {row['after']} tokens ({row['reason']})"
    if row["kind"] == "system":
        return "(system prompt)"
    return f"{row['kind']}: {str(row.get('text', ''))[:MAX_TEXT_CHARACTERS]}"


def _read_mapping(feed: Feed, name: str) -> JsonObject:
    found = feed.state.get(name)
    return found if isinstance(found, dict) else {}
