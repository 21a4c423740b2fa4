"""What is seen of a session where no kernel answers: plain text, and HTML in which everything that others wrote is escaped."""

import html
import secrets
import threading
from typing import Any

from harness.errors import counted
from harness.widgets.feed import Feed, Plain
from harness.widgets.harness_widget import VIEW, Surface, preformatted, table
from harness.widgets.message_channel import POST, Post


class Renewed(Surface):
    """A widget that is displayed with its saved form, which is renewed when it rests."""

    def __init__(self, post: Post = POST) -> None:
        """Nothing is displayed yet."""
        super().__init__(post)
        self._handles: list[Any] = []
        self._shown_text = ""
        self._renewing = threading.Lock()
        self.mark = secrets.token_hex(6)
        """Part of the class of the saved form; pages are told it as the state `saved`, to hide it."""
        self.wire.show(saved=self.mark)

    @property
    def rests(self) -> bool:
        """Whether nothing will change before the user does something."""
        return False

    def renew(self) -> None:
        """Renew the saved form if the widget rests and there is something new in it."""
        if not self._handles or not self.rests:
            return
        with self._renewing:
            text = self.as_text()
            if text != self._shown_text:
                self._shown_text = text
                for handle in self._handles:
                    handle.update(self._saved(), raw=True)

    def _saved(self) -> dict[str, str]:
        return {"text/plain": self.as_text(), "text/html": f'<div class="harness-saved-{self.mark}">{self.as_html()}</div>'}

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  (only called by it)

        bundle, _ = self._repr_mimebundle_()
        display({"text/plain": bundle["text/plain"], VIEW: bundle[VIEW]}, raw=True)  # type: ignore[no-untyped-call]
        self._shown_text = self.as_text()
        self._handles.append(display(self._saved(), raw=True, display_id=True))  # type: ignore[no-untyped-call]


LAST_ROWS = 60
"""Of the transcript."""
TEXT_CHARACTERS = 1_000
"""Of one row."""


def as_text(feed: Feed) -> str:
    """The session in a line."""
    session, figures = _dict(feed, "session"), feed.figures
    phase = str(feed.state.get("phase", "new"))
    cost = "at an unknown price" if figures.cost_usd is None else f"${figures.cost_usd:.4f}"
    steps, compactions = counted(figures.steps, "step"), counted(figures.compactions, "compaction")
    return (
        f"session {session.get('id', '')} ({session.get('model', '')}): {phase}; {steps}, {compactions}, "
        f"{figures.prompt_tokens:,} tokens in, {figures.output_tokens:,} out, {cost}"
    )


def as_html(feed: Feed) -> str:
    """The session as it stands: figures, compactions, and the end of its transcript."""
    parts = [f"<p><b>{html.escape(as_text(feed))}</b></p>"]
    again = _dict(feed, "session").get("reopen")
    if again:
        told = html.escape(str(again))
        parts.append(f"<p>The buttons are there while its kernel runs. Go on with it by <code>{told}</code></p>")
    rounds = [one.point() for one in feed.rounds.all.values()]
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
        parts.append(table(head, rows))
    if feed.rows:
        left_out = max(0, len(feed.rows) - LAST_ROWS)
        lines = [f"({left_out} rows before)"] if left_out else []
        lines += [_line(row) for row in feed.rows[-LAST_ROWS:]]
        parts.append(f"<details open><summary>Transcript</summary>{preformatted(chr(10).join(lines))}</details>")
    return "".join(parts)


def _line(row: Plain) -> str:
    if row["kind"] == "tool":
        return f"  [{row['status']}] {row['title']}"
    if row["kind"] == "compaction":
        return f"-- compaction: {row['before']} -> {row['after']} tokens ({row['reason']})"
    if row["kind"] == "system":
        return "(system prompt)"
    return f"{row['kind']}: {str(row.get('text', ''))[:TEXT_CHARACTERS]}"


def _dict(feed: Feed, name: str) -> Plain:
    found = feed.state.get(name)
    return found if isinstance(found, dict) else {}
