"""Importer of session files (rollouts) of Codex CLI, with rows `{timestamp, type, payload}` or, in old files, bare items.

Properties of the format:

- Rows `event_msg` repeat rows `response_item`, so only their token counts are read. Some of these counts are repeated, too.
- Reasoning is encrypted: its tokens are counted, but its text is missing.
- A tool's output may be JSON text `{output, metadata}`.
- The file of a forked session begins with the rows and the session data of the session that was forked.
- Old files have no token usage.
- The system prompt is `base_instructions`. The field `instructions` is text of the user, which is repeated as a message.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.conversation.messages import Part, ToolCall
from harness.recordings.blocks import flatten_text, make_call, make_reasoning_parts, make_text_parts, read_parts, read_usage
from harness.recordings.document import Document, Fields, encode_json
from harness.recordings.draft import Draft, Turn
from harness.recordings.recording import NativeCompaction

_ENVELOPE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEM_TYPES = ("message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")


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
    reader = _Reader(draft=Draft())
    for row in document.list_objects():
        reader.read_row(row)
    yield reader.draft


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reader of a rollout (session file) of Codex CLI.

    Consecutive texts and tool calls become one answer.
    """

    draft: Draft
    model: str = ""
    response_number: int = 0
    has_items: bool = False
    """Whether the model response that is being read has had any item, such as a text or a tool call, so far."""
    last_answer: Turn | None = None
    seen_totals: set[str] = field(default_factory=set)
    context_tokens: int | None = None

    def read_row(self, row: Fields) -> None:
        match row.read_text("type"):
            case "session_meta":
                self.read_meta(row.read_object("payload"))
            case "turn_context":
                self.model = row.read_object("payload").read_text("model") or self.model
            case "response_item":
                self.read_item(row.read_object("payload"))
            case "event_msg":
                self.read_event(row.read_object("payload"))
            case "compacted":
                self.read_compaction(row.read_object("payload"))
            case "" if row.has("record_type"):
                pass
            case "":
                self.read_meta(row)
            case _:
                self.read_item(row)

    def read_meta(self, meta: Fields) -> None:
        if self.draft.session_id:
            self.draft.count_dropped("session data of a parent (the session is a fork)")
            return
        self.draft.session_id = meta.read_text("id")
        base = meta.values.get("base_instructions")
        prompt = base if isinstance(base, str) else meta.read_object("base_instructions").read_text("text")
        if not self.draft.turns:
            self.draft.add_message("system", make_text_parts(prompt), meta.place)

    def read_item(self, item: Fields) -> None:
        place = item.place
        match item.read_text("type"):
            case "message" if item.read_text("role") == "assistant":
                self.add_answer(read_parts(item, self.draft), place)
            case "message":
                self.end_response()
                self.draft.add_message(item.read_text("role"), read_parts(item, self.draft), place)
            case "reasoning":
                self.add_answer(self.read_reasoning(item), place)
            case "function_call" | "custom_tool_call" | "local_shell_call":
                self.add_answer([_read_call(item)], place)
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self.end_response()
                output, status = self.read_output(item)
                self.draft.add_result(item.read_text("call_id"), output, place, status=status)
            case "ghost_snapshot":
                pass
            case kind:
                self.draft.count_dropped(f"item of type {kind!r}")

    def add_answer(self, parts: Iterable[Part], place: str) -> None:
        self.last_answer = self.draft.add_answer(parts, place, key=f"response {self.response_number}", model=self.model)
        self.has_items = True

    def end_response(self) -> None:
        """Mark the model response as complete, so that the next text or tool call begins a new answer."""
        self.response_number += self.has_items
        self.has_items = False

    def read_reasoning(self, item: Fields) -> Iterable[Part]:
        thoughts = [*item.read_objects("summary"), *item.read_objects("content")]
        text = "\n".join(summary for thought in thoughts if (summary := thought.read_text("text")))
        if not text:
            self.draft.count_dropped("reasoning without text (encrypted)")
        return make_reasoning_parts(text)

    def read_output(self, item: Fields) -> tuple[str, str]:
        text = flatten_text(item, "output", self.draft)
        try:
            wrapper = json.loads(text) if text.startswith("{") else None
        except (ValueError, RecursionError):
            wrapper = None
        if not isinstance(wrapper, dict) or not isinstance(wrapper.get("output"), str):
            return text, "completed"
        metadata = wrapper.get("metadata")
        has_failed = isinstance(metadata, dict) and metadata.get("exit_code") not in (0, None)
        return wrapper["output"], "error" if has_failed else "completed"

    def read_event(self, event: Fields) -> None:
        if event.read_text("type") != "token_count" or not event.has("info"):
            return
        info = event.read_object("info")
        last, total = info.read_object("last_token_usage"), encode_json(dict(info.read_object("total_token_usage").values))
        if total in self.seen_totals or self.last_answer is None or self.last_answer.usage is not None:
            return
        self.seen_totals.add(total)
        names = ("input_tokens", "output_tokens", "cached_input_tokens", "", "reasoning_output_tokens")
        usage = read_usage(last, *names, with_read=True)
        self.context_tokens = usage.prompt_tokens + usage.output_tokens
        self.draft.annotate_answer(self.last_answer, self.model, usage)
        self.end_response()

    def read_compaction(self, payload: Fields) -> None:
        self.end_response()
        self.draft.add_compaction(NativeCompaction(tokens_before=self.context_tokens, summary=payload.read_text("message")))


def _read_call(item: Fields) -> ToolCall:
    call_id = item.read_text("call_id") or item.read_text("id")
    match item.read_text("type"):
        case "custom_tool_call":
            return make_call(call_id, item.read_text("name"), {"input": item.read_text("input")})
        case "local_shell_call":
            return make_call(call_id, "local_shell", item.read_object("action").values)
    return make_call(call_id, item.read_text("name"), item.values.get("arguments"))
