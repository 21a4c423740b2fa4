"""The questions that are asked of a journal (S0.7, S3.13), each a function: sessions, messages, parts, compactions, a text.

Messages and parts are ordered as they came into being, or, of a view, as they are sent. A packed text is given whole; only a NUL
ends it, since these are columns of SQLite. Ids name what they stand in: `SESSION/3` is the third message of a session,
`SESSION/3/0` its first part.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from harness.errors import StoreError
from harness.store.journal import Journal
from harness.store.tables import read_batches

AROUND_CHARACTERS = 60
"""Shown of a message on each side of what was searched for."""


class SessionRow(NamedTuple):
    """A session in a list."""

    session_id: str
    trial_id: str
    """Empty = it belongs to no trial."""
    experiment: str
    arm: str
    status: str
    """`active` (also when its process was killed), `completed` or `failed`."""
    reason: str
    model: str
    task: str
    """The user's request."""
    created_at_ms: int
    updated_at_ms: int
    """When its last event was logged, in milliseconds since the epoch."""
    events: int
    messages: int
    """That joined the conversation."""
    steps: int
    compactions: int
    """Applied ones."""
    prompt_tokens: int
    cost_usd: float | None
    """None = a price is not known."""


class PartRow(NamedTuple):
    """A part of a message, as the view `parts` shows it."""

    part_id: str
    position: int
    type: str
    text: str
    call_id: str
    """Of a call or a result; else empty."""
    tool: str
    """Name of its tool; else empty."""
    state: str
    """Of a call: pending, completed, error or compacted; else empty."""
    is_compacted: bool


class MessageRow(NamedTuple):
    """A message, as the view `messages` shows it, with its parts if they were asked for."""

    message_id: str
    sequence: int
    role: str
    content: str
    tokens: int
    """Estimated."""
    is_compacted: bool
    step: int
    created_at_ms: int
    parts: tuple[PartRow, ...] = ()


class CompactionRow(NamedTuple):
    """An applied compaction."""

    compaction_id: str
    round: int
    step: int
    reason: str
    tokens_before: int
    tokens_after: int
    summary: str
    created_at_ms: int


class SearchHit(NamedTuple):
    """A message in which a text was found."""

    session_id: str
    message_id: str
    step: int
    role: str
    tool: str
    """Empty = it neither calls a tool nor answers for one."""
    is_compacted: bool
    excerpt: str
    """What was found and some characters on each side."""


_SESSIONS = """
    SELECT s.id, coalesce(r.trial_id, ''), coalesce(r.experiment, ''), coalesce(r.arm, ''), s.status, coalesce(s.reason, ''),
      coalesce(s.model, ''), coalesce(v.task, ''), s.created_at_ms,
      coalesce((SELECT at_ms FROM event AS e WHERE e.session = s.key ORDER BY seq DESC LIMIT 1), s.created_at_ms),
      (SELECT count(*) FROM event AS e WHERE e.session = s.key),
      (SELECT count(*) FROM event AS e WHERE e.session = s.key AND e.role IS NOT NULL),
      (SELECT count(*) FROM step AS t WHERE t.session = s.key),
      (SELECT count(*) FROM compaction AS c WHERE c.session = s.key AND c.status = 'applied'),
      (SELECT coalesce(sum(input_tokens + cache_read_tokens + cache_write_tokens), 0) FROM step AS t WHERE t.session = s.key),
      (SELECT iif(count(*) = count(cost_usd), coalesce(sum(cost_usd), 0.0), NULL) FROM step AS t WHERE t.session = s.key)
    FROM session AS s JOIN sessions AS v ON v.id = s.id LEFT JOIN trial AS r ON r.session_id = s.id
    ORDER BY s.created_at_ms DESC, s.key DESC"""
_MESSAGE = """SELECT id, sequence, role, content, token_count, is_compacted, coalesce(step, 0), created_at
    FROM messages WHERE session_id = ?"""


def list_sessions(journal: Journal) -> tuple[SessionRow, ...]:
    """All sessions, newest first."""
    return tuple([SessionRow(*row) for row in journal.query(_SESSIONS)])


def list_messages(journal: Journal, session_id: str, *, active: bool = False) -> tuple[MessageRow, ...]:
    """The messages of a session, without their parts.

    Args:
        journal: that holds it.
        session_id: of the session.
        active: only those in view at the end of the log, in the order in which they are sent (S0.7).

    Raises:
        StoreError: no such session.
    """
    journal.find_key(session_id)  # refuses an unknown session
    rest = "AND NOT is_compacted ORDER BY place, sequence" if active else "ORDER BY sequence"
    return tuple([_build_message_row(row) for row in journal.query(f"{_MESSAGE} {rest}", session_id)])


def read_message(journal: Journal, message_id: str) -> MessageRow:
    """One message with its parts.

    Raises:
        StoreError: no such message.
    """
    session_id, _, sequence = message_id.rpartition("/")
    number = int(sequence) if sequence.isdecimal() and len(sequence) < 10 else 0
    rows = journal.query(f"{_MESSAGE} AND sequence = ?", session_id, number)
    if not rows:
        raise StoreError(f"journal {str(journal.path)!r} has no message {message_id!r}; ids look like SESSION/3")
    return _build_message_row(rows[0])._replace(parts=list_parts(journal, message_id))


def list_parts(journal: Journal, message_id: str) -> tuple[PartRow, ...]:
    """The parts of a message, in order; none where there is no such message."""
    rows = journal.query(
        """SELECT id, position, type, coalesce(text, ''), coalesce(call_id, ''), coalesce(tool, ''), coalesce(state, ''),
          is_compacted FROM parts WHERE session_id = ? AND message_id = ? ORDER BY position""",
        message_id.rpartition("/")[0],
        message_id,
    )
    return tuple([PartRow._make((*row[:7], bool(row[7]))) for row in rows])


def find_latest_compaction(journal: Journal, session_id: str) -> CompactionRow | None:
    """The newest applied compaction of a session; None = there was none.

    Raises:
        StoreError: no such session.
    """
    journal.find_key(session_id)  # refuses an unknown session
    rows = journal.query(
        """SELECT id, round, step, reason, tokens_before, tokens_after, coalesce(summary_content, ''), created_at
        FROM compaction_events WHERE session_id = ? ORDER BY round DESC LIMIT 1""",
        session_id,
    )
    return CompactionRow(*rows[0]) if rows else None


def search(journal: Journal, text: str) -> Iterator[SearchHit]:
    """Every message of every session that holds a text, in any case of letters; in the order of the log.

    Args:
        journal: to search.
        text: what to look for, taken word for word.
    """
    wanted = re.compile(re.escape(text), re.IGNORECASE)
    for table in read_batches(journal, "messages"):
        columns = [table[name].to_pylist() for name in _SEARCH_COLUMNS]
        for session_id, sequence, step, role, tool, gone, content in zip(*columns, strict=True):
            if found := wanted.search(content):
                yield SearchHit(
                    session_id, f"{session_id}/{sequence}", step, role, tool, gone, _cut_excerpt(content, *found.span())
                )


_SEARCH_COLUMNS = ("session_id", "sequence", "step", "role", "tool", "is_compacted", "content")


def _cut_excerpt(content: str, begin: int, end: int) -> str:
    first, last = max(0, begin - AROUND_CHARACTERS), end + AROUND_CHARACTERS
    return f"{'…' if first else ''}{content[first:last]}{'…' if last < len(content) else ''}"


def _build_message_row(row: Any) -> MessageRow:
    return MessageRow._make((*row[:5], bool(row[5]), *row[6:], ()))
