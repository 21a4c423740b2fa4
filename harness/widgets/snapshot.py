"""Static form of a session widget, which is shown without a running kernel: plain text, and HTML with escaped texts."""

from harness.session.totals import describe_metrics
from harness.text import escape_html
from harness.widgets.feed import Feed
from harness.widgets.harness_widget import render_preformatted, render_table
from harness.widgets.message_channel import JsonObject

MAX_TRANSCRIPT_ROWS = 60
"""Maximum number of transcript rows in the static form of a session widget, which includes only the newest rows."""
MAX_TEXT_CHARACTERS = 1_000
"""Maximum number of characters shown of one transcript row in the static form of a session widget."""


def render_text(feed: Feed) -> str:
    """Return a session as one line of text with its id, model, state and totals."""
    session = _read_mapping(feed, "session")
    phase = str(feed.state.get("phase", "new"))
    return f"session {session.get('id', '')} ({session.get('model', '')}): {phase}; {feed.totals.describe()}"


def render_html(feed: Feed) -> str:
    """Return a session as static HTML with its totals, compactions and the end of its transcript."""
    parts = [f"<p><b>{escape_html(render_text(feed))}</b></p>"]
    parts += [f"<p>Alert: {escape_html(text)}</p>" for text in feed.state.get("alerts") or ()]
    session = _read_mapping(feed, "session")
    if (command := session.get("reopen")) and session.get("begun"):
        code = f"<code>{escape_html(str(command))}</code>"
        parts.append(f"<p>The buttons are available while the kernel runs. To continue this session, run {code}</p>")
    points = [compaction.build_timeline_point() for compaction in feed.history.rounds_by_seq.values()]
    if points:
        header = ("compaction", "before step", "tokens before", "tokens after", "facts lost")
        rows = [
            (
                point["round"] if point["status"] == "applied" else point["status"],
                *(point[name] for name in ("step", "before", "after")),
                "" if point["lost"] is None else point["lost"],
            )
            for point in points
        ]
        parts.append(render_table(header, rows))
    if feed.totals.steps:
        parts.append(render_table((), describe_metrics(feed.totals)))
    if feed.rows:
        omitted = max(0, len(feed.rows) - MAX_TRANSCRIPT_ROWS)
        lines = [f"({omitted} earlier rows)"] if omitted else []
        lines += [_render_row(feed, row) for row in feed.rows[-MAX_TRANSCRIPT_ROWS:]]
        parts.append(f"<details open><summary>Transcript</summary>{render_preformatted(chr(10).join(lines))}</details>")
    return "".join(parts)


def _render_row(feed: Feed, row: JsonObject) -> str:
    is_folded = row.get("more") and row["kind"] in {"note", "ended"}
    whole = [str(text)[:MAX_TEXT_CHARACTERS] for _, text in feed.build_row_body(row["n"])["parts"]] if is_folded else []
    return "\n  ".join([f"{'(rolled back) ' if row.get('undone') else ''}{_render_content(row)}", *whole])


def _render_content(row: JsonObject) -> str:
    if row["kind"] == "tool":
        return f"  [{row['status']}] {row['title']}"
    if row["kind"] == "compaction":
        return f"-- compaction: {row['before']:,} -> {row['after']:,} tokens ({row['reason']})"
    if row["kind"] == "system":
        return "(system prompt)"
    return f"{row['kind']}: {str(row.get('text', ''))[:MAX_TEXT_CHARACTERS]}"


def _read_mapping(feed: Feed, name: str) -> JsonObject:
    value = feed.state.get(name)
    return value if isinstance(value, dict) else {}
