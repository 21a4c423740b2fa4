"""Importer of session files (rollouts) of Codex CLI, with rows `{timestamp, type, payload}` or, in old files, bare items.

Properties of the format:

- Rows `event_msg` repeat rows `response_item`. Token counts are in rows `event_msg` and, since September 2026, in rows
  `token_usage_record`. Some counts are repeated, too.
- Version 0.40 writes the token count of an answer before the answer's items, later versions behind them.
- Reasoning is encrypted: its tokens are counted, but its text is missing.
- A tool's output may be JSON text `{output, metadata}`.
- The file of a forked session begins with the rows and the session data of the session that was forked.
- A row `compacted` may list the messages of the context after the compaction.
- Old files have no token usage.
- The system prompt is `base_instructions`. The field `instructions` is text of the user, which is repeated as a message.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.conversation.messages import Message, Part, Text, ToolCall
from harness.conversation.tokens import Usage
from harness.errors import format_count
from harness.recordings.blocks import build_usage, flatten_text, make_call, make_reasoning_parts, make_text_parts, read_parts
from harness.recordings.document import Document, Fields, encode_json, holds_words
from harness.recordings.draft import Draft, Turn
from harness.recordings.recording import LeftOutCall, NativeCompaction

FORK_MS = 1_000
"""Time in milliseconds after its first row within which a forked session copies the rows of its parent."""
_ENVELOPE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "token_usage_record")
_ITEM_TYPES = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")

FOLDERS = ("~/.codex/sessions", "~/.codex/archived_sessions")
"""Folders in which the agent stores its sessions."""


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a rollout (session file) of Codex CLI, in the current or the old form."""
    return any(_is_row(value) for _, value in document.rows)


def _is_row(value: Any) -> bool:
    match value:
        case {"type": str(kind)}:
            return (kind in _ENVELOPE_TYPES and "payload" in value) or (
                kind in _ITEM_TYPES and ("call_id" in value or "summary" in value)
            )
        case {"record_type": "state"} | {"id": _, "timestamp": _, "instructions": _}:
            return "type" not in value
    return False


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a rollout (session file) of Codex CLI as a `Draft`."""
    rows = document.list_objects()
    reader = _Reader(draft=Draft(), counts_first=_are_counts_first(rows), count_type=_find_count_type(rows))
    for row in rows:
        reader.read_row(row)
    reader.finish()
    yield reader.draft


def _find_count_type(rows: Sequence[Fields]) -> Literal["token_usage_record", "token_count"]:
    return "token_usage_record" if any(row.read_text("type") == "token_usage_record" for row in rows) else "token_count"


def _are_counts_first(rows: Sequence[Fields]) -> bool:
    """Return whether the token count of an answer stands before the items of the answer, as the first count of a file shows."""
    for row in rows:
        payload = row.values.get("payload")
        match row.values.get("type"), payload:
            case "response_item", {"type": "message", "role": "assistant"} | {"type": "reasoning"}:
                return False
            case "response_item", {"type": str(kind)} if kind in _CALLS:
                return False
            case "event_msg", {"type": "token_count", "info": {"last_token_usage": {"input_tokens": int(tokens)}}} if tokens:
                return True
    return False


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reader of a rollout (session file) of Codex CLI.

    Consecutive texts and tool calls become one answer.
    """

    draft: Draft
    counts_first: bool
    count_type: Literal["token_usage_record", "token_count"]
    model: str = ""
    response_number: int = 0
    has_items: bool = False
    """Whether the model response that is being read has had any item, such as a text or a tool call, so far."""
    last_answer: Turn | None = None
    seen_counts: set[str] = field(default_factory=set)
    context_tokens: int | None = None
    waiting_count: tuple[Usage, str, str] | None = None
    """Token count whose answer has not been read yet, with the id of the response and the place of the count."""
    turn_starts: list[int] = field(default_factory=list)
    """Index of the message with which each turn of the user begins."""
    rolled_back_turns: int = 0
    """Number of turns that were rolled back and will leave the context before the next message."""
    repeated_texts: list[tuple[str, str]] = field(default_factory=list)
    """Texts in rows that repeat messages, with the kinds of the rows."""
    item_texts: set[str] = field(default_factory=set)
    fork_end_ms: int | None = None
    """Time until which rows are copies from the session that was forked; None if the session is no fork."""

    def read_row(self, row: Fields) -> None:
        self.draft.now_ms = row.read_time_ms("timestamp") or self.draft.now_ms
        payload = row.read_object("payload") if row.has("payload") else row
        match row.read_text("type"):
            case "session_meta":
                self.read_meta(payload)
            case "turn_context":
                self.model = payload.read_text("model") or self.model
                self.note_repeated(payload, "turn_context")
            case "response_item":
                self.read_item(payload)
            case "event_msg":
                self.read_event(payload)
            case "compacted":
                self.read_compaction(payload)
            case "token_usage_record":
                self.read_count(payload.read_object("usage"), payload.read_text("response_id"), payload.place)
            case "" if row.has("record_type"):
                pass
            case "":
                self.read_meta(row)
            case kind if "payload" in row.values:
                self.draft.count_unread(row, f"row of type {kind!r}")
            case _:
                self.read_item(row)

    def read_meta(self, meta: Fields) -> None:
        if self.draft.session_id:
            self.draft.count_dropped("session data of a parent (the session is a fork)")
            return
        self.draft.session_id = meta.read_text("id")
        self.draft.forked_from = meta.read_text("forked_from_id")
        if self.draft.forked_from and self.draft.now_ms is not None:
            self.fork_end_ms = self.draft.now_ms + FORK_MS
            self.draft.warn(
                meta.place, f"a fork: rows of its first {FORK_MS // 1000} s are the parent's, and their usage is not its own"
            )
        base = meta.values.get("base_instructions")
        prompt = base if isinstance(base, str) else meta.read_object("base_instructions").read_text("text")
        if not self.draft.turns:
            self.draft.add_message("system", make_text_parts(prompt), meta.place)

    def read_item(self, item: Fields) -> None:
        place = item.place
        match item.read_text("type"):
            case "message" if not item.has("role"):
                self.draft.count_unread(item, "message without a role")
            case "message" if item.read_text("role") == "assistant":
                self.add_answer(read_parts(item, self.draft), place)
            case "message":
                self.end_response()
                parts = list(read_parts(item, self.draft))
                self.item_texts |= {part.text.strip() for part in parts if isinstance(part, Text)}
                if item.read_text("role") == "user":
                    self.roll_back()
                    self.turn_starts.append(len(self.draft.turns))
                self.draft.add_message(item.read_text("role"), parts, place)
            case "reasoning":
                self.add_answer(self.read_reasoning(item), place)
            case kind if kind in _CALLS:
                self.add_answer([_read_call(item)], place)
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self.end_response()
                output, status = _read_output(item, self.draft)
                self.draft.add_result(item.read_text("call_id"), output, place, status=status)
            case "ghost_snapshot":
                pass
            case kind:
                self.draft.count_dropped(f"item of type {kind!r}")

    def add_answer(self, parts: Iterable[Part], place: str) -> None:
        if self.rolled_back_turns:
            self.end_response()
            self.roll_back()
        known = list(parts)
        self.item_texts |= {part.text.strip() for part in known if isinstance(part, Text)}
        self.last_answer = self.draft.add_answer(known, place, key=f"response {self.response_number}", model=self.model)
        self.last_answer.copied = self.is_copied
        self.has_items = True
        if self.waiting_count is not None:
            (usage, key, _), self.waiting_count = self.waiting_count, None
            self.draft.annotate_answer(self.last_answer, self.model, usage)
            self.last_answer.request_key = key

    @property
    def is_copied(self) -> bool:
        """Whether the row that is being read is a copy from the session that was forked."""
        return self.fork_end_ms is not None and self.draft.now_ms is not None and self.draft.now_ms <= self.fork_end_ms

    def end_response(self) -> None:
        """Mark the model response as complete, so that the next text or tool call begins a new answer."""
        self.response_number += self.has_items
        self.has_items = False

    def read_reasoning(self, item: Fields) -> Iterable[Part]:
        thoughts = [*item.read_objects("summary"), *item.read_objects("content")]
        texts = [text for thought in thoughts if (text := thought.read_text("text"))]
        self.item_texts |= {text.strip() for text in texts}
        if not texts:
            self.draft.count_dropped("reasoning without text (encrypted)")
        return make_reasoning_parts("\n".join(texts))

    def read_event(self, event: Fields) -> None:
        match event.read_text("type"):
            case "token_count":
                info = event.read_object("info")
                total = info.read_object("total_token_usage").values
                if self.count_type == "token_count" and info.has("last_token_usage"):
                    self.read_count(info.read_object("last_token_usage"), "", event.place, encode_json(dict(total)))
            case "thread_rolled_back":
                self.rolled_back_turns += event.read_count("num_turns")
            case kind:
                self.note_repeated(event, f"event_msg {kind}")

    def note_repeated(self, row: Fields, kind: str) -> None:
        """Remember the text of a row that repeats messages; `finish` counts the rows whose text is in no message."""
        texts = [value for name in ("message", "text", "user_instructions") if isinstance(value := row.values.get(name), str)]
        if texts:
            self.repeated_texts += [(kind, text.strip()) for text in texts if holds_words(text)]
        elif kind != "turn_context":
            self.draft.count_unread(row, f"row {kind!r}")

    def read_count(self, report: Fields, response_id: str, place: str, total: str = "") -> None:
        """Read the token usage of one model call and assign it to the answer before or behind it."""
        name = response_id or total
        if name in self.seen_counts:
            return
        self.seen_counts.add(name)
        read, written = report.read_count("cached_input_tokens"), report.read_count("cache_write_input_tokens")
        usage = build_usage(
            report.read_count("input_tokens") - read - written,
            report.read_count("output_tokens"),
            read,
            written,
            report.read_count("reasoning_output_tokens"),
        )
        self.context_tokens = usage.prompt_tokens + usage.output_tokens
        if self.counts_first:
            self.end_response()
            self.leave_out_count()
            self.waiting_count = (usage, response_id, place)
        elif self.last_answer is None or self.last_answer.usage is not None:
            self.waiting_count = (usage, response_id, place)
            self.leave_out_count()
        else:
            self.draft.annotate_answer(self.last_answer, self.model, usage)
            self.last_answer.request_key = response_id
            self.end_response()

    def leave_out_count(self, reason: Literal["side call", "compaction"] = "side call") -> None:
        """Record a token count that belongs to no answer in the file, such as that of a compaction."""
        if self.waiting_count is None:
            return
        (usage, key, place), self.waiting_count = self.waiting_count, None
        if self.is_copied or not usage.prompt_tokens + usage.output_tokens:
            return
        call = LeftOutCall(reason=reason, place=place, usage=usage, model=self.model, at_ms=self.draft.now_ms, request_key=key)
        self.draft.left_out_calls.append(call)

    def read_compaction(self, payload: Fields) -> None:
        self.end_response()
        self.leave_out_count("compaction")
        view = None
        if payload.has("replacement_history"):
            side = Draft()
            nested = _Reader(draft=side, counts_first=False, count_type=self.count_type)
            for item in payload.read_objects("replacement_history"):
                nested.read_item(item)
            opaque = sum(item.read_text("type") == "compaction" for item in payload.read_objects("replacement_history"))
            for _ in range(opaque):
                self.draft.count_dropped("item of a compaction whose text is encrypted")
            view = tuple([Message(role=turn.role, parts=tuple(turn.parts)) for turn in side.turns])
        summary = payload.read_text("message")
        self.draft.add_compaction(NativeCompaction(tokens_before=self.context_tokens, summary=summary, view=view))

    def roll_back(self) -> None:
        """Remove the turns that were rolled back, before a message is added to what is left."""
        if not self.rolled_back_turns:
            return
        kept = self.turn_starts[: -self.rolled_back_turns]
        start = self.turn_starts[len(kept)] if self.turn_starts else len(self.draft.turns)
        self.draft.leave_out(self.draft.turns[start:], "rolled back")
        self.draft.cut(start)
        self.draft.count_dropped(f"rollback: {self.count_rolled_back()} removed, whose cost counts")
        self.turn_starts, self.rolled_back_turns = kept, 0

    def count_rolled_back(self) -> str:
        return format_count(self.rolled_back_turns, "turn") + " of the user"

    def finish(self) -> None:
        """Add the notes that depend on the whole file."""
        self.leave_out_count()
        if self.rolled_back_turns:
            self.draft.warn("", f"{self.count_rolled_back()} rolled back at the end; no message follows")
        for kind, text in self.repeated_texts:
            if text not in self.item_texts:
                self.draft.count_dropped(f"row {kind!r}, whose text is in no message")


def _read_output(item: Fields, draft: Draft) -> tuple[str, str]:
    text = flatten_text(item, "output", draft)
    try:
        wrapper = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        wrapper = None
    if not isinstance(wrapper, dict) or not isinstance(wrapper.get("output"), str):
        return text, "completed"
    metadata = wrapper.get("metadata")
    has_failed = isinstance(metadata, dict) and metadata.get("exit_code") not in (0, None)
    return wrapper["output"], "error" if has_failed else "completed"


def _read_call(item: Fields) -> ToolCall:
    call_id = item.read_text("call_id") or item.read_text("id")
    match item.read_text("type"):
        case "custom_tool_call":
            return make_call(call_id, item.read_text("name"), {"input": item.read_text("input")})
        case "local_shell_call":
            return make_call(call_id, "local_shell", item.read_object("action").values)
    return make_call(call_id, item.read_text("name"), item.values.get("arguments"))
