"""Codex CLI's rollouts: rows `{timestamp, type, payload}`, or in the old form bare items after a row of session data.

Pitfalls: `event_msg` rows repeat `response_item` rows, so only the items are read, and of the events only the token counts,
which may be repeated too; reasoning is encrypted (its tokens are counted, its text is absent); an output may be JSON text
`{output, metadata}`; a fork begins with its parent's rows and session data; the old form has no usage. The system prompt is
`base_instructions`; the field `instructions` is the user's own text, which comes again as a message.
"""

import json
from dataclasses import dataclass, field

from harness.messages import Part, Reasoning, ToolCall
from harness.replay.blocks import arguments_text, content_parts, flat, used
from harness.replay.document import Document
from harness.replay.draft import Draft, texts
from harness.replay.fields import Fields, compact_json, is_object_with
from harness.replay.pairing import Turn
from harness.replay.recording import NativeCompaction, Recording

NAME = "codex"
_ENVELOPES = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_ITEMS = {"message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}


def recognises(document: Document) -> bool:
    """Whether rows are envelopes, or bare items behind session data."""
    return any(
        (is_object_with(value, "type", "payload") and value["type"] in _ENVELOPES)
        or (is_object_with(value, "record_type") and value["record_type"] == "state")
        or (is_object_with(value, "id", "timestamp", "instructions") and "type" not in value)
        or (is_object_with(value, "type") and value["type"] in _ITEMS and ("call_id" in value or "summary" in value))
        for _, value in document.rows
        if isinstance(value, dict) and isinstance(value.get("type", ""), str)
    )


def read(document: Document) -> tuple[Recording, ...]:
    """The one session of a file."""
    reader = _Reader(draft=Draft(source=NAME, file=document.file, caveats=list(document.caveats)))
    for line, value in document.rows:
        if isinstance(value, dict):
            reader.row(Fields(value, document.file, f"line {line}"))
    return (reader.draft.finish(),)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Groups items into answers: what stands between two outputs, user messages or token counts is one."""

    draft: Draft
    model: str = ""
    response: int = 0
    written: bool = False
    """Whether the current response has items."""
    last: Turn | None = None
    totals: set[str] = field(default_factory=set)
    context_tokens: int | None = None

    def row(self, row: Fields) -> None:
        match row.text("type"):
            case "session_meta":
                self.meta(row.nested("payload"))
            case "turn_context":
                self.model = row.nested("payload").text("model") or self.model
            case "response_item":
                self.item(row.nested("payload"))
            case "event_msg":
                self.event(row.nested("payload"))
            case "compacted":
                self.compacted(row.nested("payload"))
            case "" if row.has("record_type"):
                pass
            case "":
                self.meta(row)
            case _:
                self.item(row)

    def meta(self, meta: Fields) -> None:
        if self.draft.session_id:
            self.draft.drop("session data of a parent (the session is a fork)")
            return
        self.draft.session_id = meta.text("id")
        base = meta.values.get("base_instructions")
        prompt = base if isinstance(base, str) else meta.nested("base_instructions").text("text")
        if not self.draft.turns:
            self.draft.say("system", texts(prompt), meta.place)

    def item(self, item: Fields) -> None:
        place = item.place
        match item.text("type"):
            case "message" if item.text("role") == "assistant":
                self.wrote(list(content_parts(item, self.draft)), place)
            case "message":
                self.rest()
                role = "system" if item.text("role") == "system" and not self.draft.turns else "user"
                self.draft.say(role, content_parts(item, self.draft), place)  # type: ignore[arg-type]
            case "reasoning":
                self.wrote(self.reasoning(item), place)
            case "function_call" | "custom_tool_call" | "local_shell_call":
                self.wrote([_call(item)], place)
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self.rest()
                output, status = self.output(item)
                self.draft.result(item.text("call_id"), output, place, status=status)
            case "ghost_snapshot":
                pass
            case kind:
                self.draft.drop(f"item of type {kind!r}")

    def wrote(self, parts: list[Part], place: str) -> None:
        self.last = self.draft.answer(parts, place, key=f"response {self.response}")
        self.draft.wrote(self.last, self.model)
        self.written = True

    def rest(self) -> None:
        """The next item of the model belongs to a new response."""
        self.response += self.written
        self.written = False

    def reasoning(self, item: Fields) -> list[Part]:
        thoughts = [*item.objects("summary"), *item.objects("content")]
        text = "\n".join(found for thought in thoughts if (found := thought.text("text")))
        if not text:
            self.draft.drop("reasoning without text (encrypted)")
        return [Reasoning(text=text)] if text else []

    def output(self, item: Fields) -> tuple[str, str]:
        text = flat(item, "output", self.draft)
        try:
            told = json.loads(text) if text.startswith("{") else None
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("output"), str):
            return text, "completed"
        metadata = told.get("metadata")
        failed = isinstance(metadata, dict) and metadata.get("exit_code") not in (0, None)
        return told["output"], "error" if failed else "completed"

    def event(self, event: Fields) -> None:
        if event.text("type") != "token_count" or not event.has("info"):
            return
        info = event.nested("info")
        last, total = info.nested("last_token_usage"), compact_json(dict(info.nested("total_token_usage").values))
        if total in self.totals or self.last is None or self.last.usage is not None:
            return
        self.totals.add(total)
        read = last.count("cached_input_tokens")
        output = last.count("output_tokens")
        usage = used(last.count("input_tokens") - read, output, read=read, reasoning=last.count("reasoning_output_tokens"))
        self.context_tokens = usage.prompt_tokens + output
        self.draft.wrote(self.last, self.model, usage)
        self.rest()

    def compacted(self, payload: Fields) -> None:
        self.rest()
        summary = payload.text("message")
        event = NativeCompaction(kind="compaction", position=0, tokens_before=self.context_tokens, summary=summary)
        self.draft.compaction(event)


def _call(item: Fields) -> ToolCall:
    match item.text("type"):
        case "custom_tool_call":
            name, arguments = item.text("name"), compact_json({"input": item.text("input")})
        case "local_shell_call":
            name, arguments = "local_shell", compact_json(dict(item.nested("action").values))
        case _:
            name, arguments = item.text("name"), arguments_text(item.values.get("arguments"))
    return ToolCall(call_id=item.text("call_id") or item.text("id"), name=name, arguments_json=arguments)
