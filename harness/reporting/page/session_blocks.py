"""Sessions as compressed texts for the report page: all sessions of a small experiment, or a sample of a large one.

Each session is a separate text (block) that the page decodes when its trial is opened. It contains every message once; each step
lists its messages by their indices. A message that the block of an earlier session contains, too, is a reference to that block:
the trials of a task and seed begin alike, so less than half of the text is left. Nothing is escaped: the text is compressed
and encoded in base64 before it is embedded.
"""

import base64
import json
import random
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import pandas as pd
from pydantic_core import to_json

from harness.conversation.events import Entry
from harness.conversation.messages import Message
from harness.conversation.truncation import note_expired_outputs
from harness.errors import HarnessError
from harness.inspection.autopsy_page import encode_compaction
from harness.inspection.autopsy_page import encode_session as encode_session_autopsy
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_steps import SessionSteps, encode_compactions, format_full_text, format_message_line
from harness.inspection.session_task import SessionTask
from harness.inspection.timeline import EncodedMessages
from harness.process import pause_garbage_collection

MAX_SESSIONS = 200
"""Default maximum number of sessions in a page."""
MAX_BLOCK_BYTES = 24_000_000
"""Maximum size of all sessions of a page together; sessions beyond it are left out."""
MAX_KNOWN_CHARACTERS = 100_000_000
"""Maximum number of characters in the messages that are kept while sessions are encoded, which bounds the memory."""
COMPRESSION_LEVEL = 2
"""Level that compresses a session to a sixth of its size in a few milliseconds."""


def choose_sessions(
    trials: pd.DataFrame, max_sessions: int = MAX_SESSIONS, *, by_score: bool = True, first: Collection[str] = ()
) -> list[str]:
    """Return the ids of the sessions that a page contains, the most useful first.

    If there are too many, the trials with the lowest, the highest and the median score of each arm are chosen first, then trials
    with a failed check, whose sessions say why, then others; both at random with a fixed seed.

    Args:
        trials: Trials of an experiment, with `arm`, `trial_id`, `session_id` and `score`.
        max_sessions: Maximum number of sessions.
        by_score: Whether the scores may decide; False chooses all at random, because the choice would show outcomes.
        first: Ids of trials whose sessions the page needs before all others.
    """
    known = trials[trials["session_id"] != ""]
    if len(known) <= max_sessions:
        return [str(session_id) for session_id in known["session_id"]]
    ranked = [rows.sort_values(["score", "trial_id"])["session_id"].tolist() for _, rows in known.groupby("arm", sort=False)]
    needed = known.loc[known["trial_id"].isin(first), "session_id"].tolist()
    ends = (
        ()
        if not by_score
        else chain(
            (sessions[0] for sessions in ranked),
            (sessions[-1] for sessions in ranked),
            (sessions[len(sessions) // 2] for sessions in ranked),
        )
    )
    rest = sorted(known["session_id"])
    random.Random(0).shuffle(rest)
    if by_score:
        passed = set(known.loc[known["score"] >= 1, "session_id"])
        rest.sort(key=passed.__contains__)
    return list(dict.fromkeys(chain(needed, ends, rest)))[:max_sessions]


def build_blocks(
    session_ids: Sequence[str],
    read_entries: Callable[[str, dict[str, Message]], Iterable[Entry]],
    list_saved_outputs: Callable[[str], Collection[str] | None] = lambda _: None,
    find_task: Callable[[str, Sequence[Entry]], SessionTask | None] = lambda _, __: None,
    max_bytes: int = MAX_BLOCK_BYTES,
) -> Mapping[str, str]:
    """Return the sessions of a page as compressed base64 texts, by session id.

    Sessions beyond the size limit, without a step or with an incomplete log are missing.

    Args:
        session_ids: Ids of the sessions, the most useful first.
        read_entries: Function that reads the log of a session, given the id and a dictionary in which it keeps messages.
        list_saved_outputs: Function that returns the names of the saved tool outputs of a session that were not deleted.
        find_task: Function that returns the task of a session, with the results of its checks if the page may show them, given
            the id and the log of the session.
        max_bytes: Maximum size of all texts together.
    """
    blocks: dict[str, str] = {}
    size = 0
    known = KnownMessages()
    with pause_garbage_collection():  # the search would visit all tables of the report again and again
        for session_id in session_ids:
            try:
                entries = tuple(read_entries(session_id, known.by_row))
                session = RecordedSession(
                    name=session_id,
                    entries=entries,
                    saved_outputs=list_saved_outputs(session_id),
                    known_task=find_task(session_id, entries),
                )
                plain = encode_session(session, known)
            except HarnessError:
                continue  # an incomplete log has no transcript, and the page says so
            if plain is None:
                continue
            text = base64.b64encode(compress(plain)).decode("ascii")
            if size + len(text) > max_bytes:
                break
            known.add_references(plain["messages"], len(blocks))
            blocks[session_id], size = text, size + len(text)
    return blocks


def compress(plain: Mapping[str, Any]) -> bytes:
    """Return plain JSON as compressed bytes, in the format that browsers call `deflate`."""
    try:
        text = to_json(plain)
    except ValueError:  # a lone surrogate
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return zlib.compress(text, COMPRESSION_LEVEL)


Row: TypeAlias = tuple[str, str, str]
"""Role, first line and whole text of a message, as the page shows them."""
Reference: TypeAlias = tuple[int, int]
"""Block that contains a message, and the index of the message among the messages of that block."""


@dataclass(slots=True)
class KnownMessages:
    """Cache of the messages of earlier sessions, so that equal messages are not decoded, formatted and hashed again.

    The trials of a task and seed begin alike in all arms, so more than half of their messages are equal.
    """

    by_row: dict[str, Message] = field(default_factory=dict)
    """Messages by the text of their rows in the journal."""
    encoded: EncodedMessages = field(default_factory=dict)
    rows: dict[int, tuple[Message, Row]] = field(default_factory=dict)
    """Texts that the page shows of a message, by its Python `id`; the message is kept, so that no other gets this `id`."""
    references: dict[Row, Reference] = field(default_factory=dict)
    """Blocks that contain messages, by the texts of the messages."""
    characters: int = 0
    """Number of characters of all messages in `rows`."""

    def format(self, message: Message) -> Row:
        """Return the role, first line and whole text of a message, from the cache if they are in it.

        The cache is emptied when its texts exceed 100 million characters.
        """
        known = self.rows.get(id(message))
        if known is not None:
            return known[1]
        row = (message.role, format_message_line(message), format_full_text(message))
        self.characters += len(row[2])
        if self.characters > MAX_KNOWN_CHARACTERS:
            self.by_row.clear()
            self.encoded.clear()
            self.rows.clear()
            self.references.clear()
            self.characters = len(row[2])
        self.rows[id(message)] = message, row
        return row

    def add_references(self, rows: Iterable[Row | Reference], block: int) -> None:
        """Let later sessions refer to the messages of a finished block; messages that it only refers to itself are left out."""
        self.references.update((row, (block, index)) for index, row in enumerate(rows) if len(row) == 3)


def encode_session(session: RecordedSession, known: KnownMessages | None = None) -> dict[str, Any] | None:
    """Return a session as plain JSON for the page, or None if it has no finished step.

    Args:
        session: Session with its log.
        known: Cache of the messages of other sessions. Messages in finished blocks are replaced by references to these blocks.
            None for an empty cache, so that the result contains all messages.
    """
    known = known or KnownMessages()
    steps = SessionSteps(session, known.encoded)
    if not steps.history.step_count:
        return None
    messages = _MessageTable(known, session.saved_outputs)
    encoded_steps = list(_encode_steps(steps, messages))
    autopsy = steps.autopsy
    return {
        "session": {**steps.build_constants(), "autopsy": encode_session_autopsy(autopsy)},
        "messages": messages.rows,
        "steps": encoded_steps,
        "autopsies": [encode_compaction(autopsy, compaction) for compaction in autopsy.compactions],
    }


class _MessageTable:
    def __init__(self, known: KnownMessages, saved_outputs: Collection[str] | None) -> None:
        self.rows: list[Row | Reference] = []
        self._known, self._saved_outputs = known, saved_outputs
        self._messages: list[Message] = []  # keeps the messages alive, so that no other message gets the same id
        self._index_by_id: dict[int, int] = {}
        self._index_by_row: dict[Row, int] = {}

    def find_all(self, messages: Iterable[Message]) -> list[int]:
        """Return the indices of messages; those that are new are added to the table."""
        known = self._index_by_id
        return [known[id(message)] if id(message) in known else self._add(message) for message in messages]

    def _add(self, message: Message) -> int:
        role, line, text = self._known.format(message)
        row = (role, line, note_expired_outputs(text, self._saved_outputs))
        index = self._index_by_row.setdefault(row, len(self.rows))
        if index == len(self.rows):
            self.rows.append(self._known.references.get(row, row))
        self._messages.append(message)
        self._index_by_id[id(message)] = index
        return index


def _encode_steps(steps: SessionSteps, messages: _MessageTable) -> Iterator[dict[str, Any]]:
    previous: Sequence[Message] = ()
    ranges: list[tuple[int, int]] = []
    for sent, facts in steps.describe_all():
        if sent.messages[: len(previous)] != previous:
            previous, ranges = (), []
        ranges = extend_ranges(ranges, messages.find_all(sent.messages[len(previous) :]))
        previous = sent.messages
        answer, *results = messages.find_all((sent.answer, *sent.results))
        yield {
            "facts": facts,
            "sent": ranges,
            "new": sent.end_event.kept_prefix_messages,
            "answer": answer,
            "results": results,
            "compactions": encode_compactions(sent.compactions),
            "patch": steps.read_patch(sent.step) if steps.has_workspace_changed(sent.step) else None,
        }


def extend_ranges(ranges: Sequence[tuple[int, int]], indices: Iterable[int]) -> list[tuple[int, int]]:
    """Add indices to ranges of consecutive indices, and return all ranges.

    A range is given by its first index and its length.
    """
    extended = list(ranges)
    for index in indices:
        first, length = extended[-1] if extended else (index, 0)
        if extended and index == first + length:
            extended[-1] = (first, length + 1)
        else:
            extended.append((index, 1))
    return extended
