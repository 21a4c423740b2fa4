"""Queries over a journal for sessions, messages, their parts, and text.

Messages and parts are returned in the order of their creation. If only messages in view are asked for, they are in the order in
which the model gets them. Compressed texts are returned whole, but any text ends at its first NUL character, as in SQLite.

Ids show what belongs to what: `SESSION/000003` is the third message of a session, and `SESSION/000003/0001` is the second part of
that message. The ids of one session's messages sort by time. The number of a message may be written without the zeros.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from harness.errors import StoreError
from harness.store.journal import Journal
from harness.store.tables import read_batches

AROUND_CHARACTERS = 60
"""Number of characters shown on each side of the text that a search found."""


class SessionRow(NamedTuple):
    """Overview of one session for a list of sessions, with its state and size."""

    session_id: str
    trial_id: str
    """Id of the trial that ran the session; empty if the session belongs to no trial."""
    experiment: str
    arm: str
    status: str
    """Status of the session, which is `active` (also if its process was killed), `completed` or `failed`."""
    reason: str
    model: str
    task: str
    """Request of the user with which the session began."""
    created_at_ms: int
    updated_at_ms: int
    """Time at which the session's last event was logged, in milliseconds since the epoch."""
    events: int
    messages: int
    """Number of messages in the session's whole conversation, compacted or not."""
    seed: int | None
    """Seed of the trial; None if the session belongs to no trial."""
    score: float | None
    """Share of the checks that passed, of the trial or by `harness task grade --mark`; None if the session was not graded."""
    failed_checks: str
    """Titles of the failed checks, joined by semicolons; empty if none failed or the session was not graded."""
    marked_success: bool | None
    """Whether the user marked the session as a success; None without a mark."""


class PartRow(NamedTuple):
    """Part of a message, e.g. a tool call, or of its step, e.g. the changes of files; row of the SQL view `parts`."""

    part_id: str
    position: int
    type: str
    text: str
    call_id: str
    """Id of the tool call to which the part belongs; empty if the part is neither a call nor a result."""
    tool: str
    """Name of the tool that was called; empty if the part is neither a tool call nor a result."""
    state: str
    """State of the tool call: `pending`, `running`, `completed`, `error` or `compacted`; empty if the part is no call."""
    is_compacted: bool
    data_json: str
    """JSON object with what the other fields do not show; empty if there is nothing else.

    - Step: snapshot, reason, tokens and cost.
    - Changes of files (patch): hash and files.
    - Sub-agent: model, session, steps, tokens and cost.
    - Tool call: times in milliseconds since the epoch (start, end, compaction), duration, and the part of the duration that
      commands from the action cache took in their original runs. A time that is unknown is null.
    - Tool result that was cut: numbers of characters and bytes that were cut, the latter null if version 0.2 or older cut it.
    - Attached file: MIME type.
    - Compaction: whether it was automatic, its number, the tokens before and after, and the number of messages removed.
    """


class MessageRow(NamedTuple):
    """Message of a session, as a row of the SQL view `messages`; only `read_message` fills in the parts."""

    message_id: str
    sequence: int
    role: str
    content: str
    tokens: int
    """Estimated number of tokens in the message."""
    is_compacted: bool
    step: int
    created_at_ms: int
    parts: tuple[PartRow, ...]


class SearchHit(NamedTuple):
    """Result of a text search: a message that contains the text, with an excerpt around the text."""

    session_id: str
    message_id: str
    step: int
    role: str
    tool: str
    """Name of the tool in the message's first tool call or result; empty if the message has neither."""
    is_compacted: bool
    excerpt: str
    """Text that the search found, with some characters of the message on each side."""


_SESSIONS = """
    SELECT s.id, coalesce(r.trial_id, ''), coalesce(r.experiment, ''), coalesce(r.arm, ''), s.status, coalesce(s.reason, ''),
      coalesce(s.model, ''), coalesce(v.task, ''), s.created_at_ms,
      coalesce((SELECT at_ms FROM event AS e WHERE e.session = s.key ORDER BY seq DESC LIMIT 1), s.created_at_ms),
      (SELECT count(*) FROM event AS e WHERE e.session = s.key),
      (SELECT count(*) FROM event AS e WHERE e.session = s.key AND e.role IS NOT NULL), r.seed,
      coalesce(r.score, s.marked_score),
      coalesce((SELECT group_concat(c.title, '; ') FROM "check" AS c WHERE c.trial_id = r.trial_id AND NOT c.passed),
        s.marked_failed_checks, ''),
      s.marked_success
    FROM session AS s JOIN sessions AS v ON v.id = s.id LEFT JOIN trial AS r ON r.session_id = s.id
    ORDER BY s.created_at_ms DESC, s.key DESC"""
_MESSAGE = """SELECT id, sequence, role, content, token_count, is_compacted, coalesce(step, 0), created_at
    FROM messages WHERE session_id = ?"""


def list_sessions(journal: Journal) -> tuple[SessionRow, ...]:
    """Return an overview of each session of a journal, newest first."""
    rows = [SessionRow(*row) for row in journal.query(_SESSIONS)]
    return tuple([row if row.marked_success is None else row._replace(marked_success=bool(row.marked_success)) for row in rows])


def list_messages(journal: Journal, session_id: str, *, active: bool = False) -> tuple[MessageRow, ...]:
    """Return the messages of a session, without their parts; `read_message` returns a message with its parts.

    Args:
        journal: Journal that holds the session.
        session_id: Id of the session.
        active: Whether to return only the messages that the model sees at the end of the log, in the order in which it gets them.

    Raises:
        StoreError: The journal has no such session.
    """
    journal.find_key(session_id)  # raises an error if the session is unknown
    rest = "AND NOT is_compacted ORDER BY place, sequence" if active else "ORDER BY sequence"
    return tuple([_build_message_row(row) for row in journal.query(f"{_MESSAGE} {rest}", session_id)])


def read_message(journal: Journal, message_id: str) -> MessageRow:
    """Return the message with an id such as `SESSION/3`, with its parts and those of its step.

    Raises:
        StoreError: The journal has no such message.
    """
    rows = journal.query(f"{_MESSAGE} AND sequence = ?", *_split_message_id(message_id))
    if not rows:
        raise StoreError(f"journal {str(journal.path)!r} has no message {message_id!r}; message ids look like SESSION/3")
    return _build_message_row(rows[0])._replace(parts=list_parts(journal, message_id))


def list_parts(journal: Journal, message_id: str) -> tuple[PartRow, ...]:
    """Return the parts of the message with a given id and of its step; empty if there is no such message."""
    session_id, number = _split_message_id(message_id)
    rows = journal.query(
        """SELECT id, position, type, coalesce(text, ''), coalesce(call_id, ''), coalesce(tool, ''), coalesce(state, ''),
          is_compacted, coalesce(data_json, '') FROM parts WHERE session_id = ? AND message_id = ? ORDER BY id""",
        session_id,
        format_message_id(session_id, number),
    )
    return tuple([PartRow._make((*row[:7], bool(row[7]), row[8])) for row in rows])


def format_message_id(session_id: str, sequence: int) -> str:
    """Return the id of a message as the views of a journal show it, such as `SESSION/000003`."""
    return f"{session_id}/{sequence:06}"


def _split_message_id(message_id: str) -> tuple[str, int]:
    """Return the session id and the message number in a message id; the number is 0 if the id is invalid."""
    session_id, _, sequence = message_id.rpartition("/")
    return session_id, int(sequence) if sequence.isdecimal() and len(sequence) < 10 else 0


def search(journal: Journal, text: str) -> Iterator[SearchHit]:
    """Yield every message of every session that contains a text, ignoring case, in the order of the log.

    Args:
        journal: Journal to search.
        text: Text to find, taken literally rather than as a pattern.
    """
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    for table in read_batches(journal, "messages"):
        columns = [table[name].to_pylist() for name in _SEARCH_COLUMNS]
        for session_id, sequence, step, role, tool, is_compacted, content in zip(*columns, strict=True):
            if match := pattern.search(content):
                yield SearchHit(
                    session_id,
                    format_message_id(session_id, sequence),
                    step,
                    role,
                    tool,
                    is_compacted,
                    _cut_excerpt(content, *match.span()),
                )


_SEARCH_COLUMNS = ("session_id", "sequence", "step", "role", "tool", "is_compacted", "content")


def _cut_excerpt(content: str, begin: int, end: int) -> str:
    first, last = max(0, begin - AROUND_CHARACTERS), end + AROUND_CHARACTERS
    return f"{'…' if first else ''}{content[first:last]}{'…' if last < len(content) else ''}"


def _build_message_row(row: Any) -> MessageRow:
    return MessageRow._make((*row[:5], bool(row[5]), *row[6:], ()))
