"""Importer of sessions recorded by Cline, a JSON object (in older versions, a list) of messages in the form of Anthropic's API.

Properties of the format:

- Files of the SDK have a `version`, the system prompt and `metrics` with input tokens that include tokens read from the cache.
- Lists (`api_conversation_history.json` of the extension) have neither. Their `metrics` are `{tokens: {prompt, completion,
  cached}, cost}`, whose prompt tokens include cached ones, or missing.
- In lists, a tool result may be a text of the user that begins with `[TOOL for ...] Result:`, in the same block or alone.
- Attached files are blocks of type `file`.
- Tool results may be lists of `{query, result, success}`.
- In lists of the fork Roo Code, `isSummary` marks the summary of a compaction, which stands for the messages before it. A summary
  in the role of the model leaves the first message in the context; messages that it kept are behind it.

Source: cline/cline at 88fcc164 (`ToolResultUtils.ts`), 0cd9cb57 (its earlier form) and 64fde3a3 (`messages/metrics.ts`);
RooCodeInc/Roo-Code at e5353cf0 (`src/core/condense/index.ts`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.conversation.messages import Message, Part, Text, ToolCall, ToolResult
from harness.conversation.tokens import Usage
from harness.recordings.blocks import make_text_parts, read_parts, read_usage
from harness.recordings.document import Document, Fields, is_object_with
from harness.recordings.draft import Draft
from harness.recordings.recording import NativeCompaction

KNOWN_VERSION = 1
"""Version of the message files of the SDK that were seen."""
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")
FOLDERS = (
    "~/.cline/data",
    *(f"~/.config/Code/User/globalStorage/{name}/tasks" for name in _EXTENSIONS),
    *(f"~/Library/Application Support/Code/User/globalStorage/{name}/tasks" for name in _EXTENSIONS),
)
"""Folders in which the agent and two forks of it store their sessions, on Linux and macOS."""
_RESULT_HEADER = re.compile(r"\[(\w+)[^\n]*\] Result:(?:\n|$)")


def can_read(document: Document) -> bool:
    """Return whether a parsed file is a message file of Cline, an object or, in the old form, a list."""
    whole = document.single_value
    if isinstance(whole, list):
        first = next((item for item in whole if isinstance(item, dict)), {})
        return is_object_with(first, "role", "content") and "parts" not in first and first["role"] != "system"
    marked = is_object_with(whole, "messages", "sessionId") and "projectHash" not in whole
    return marked and any(name in whole for name in ("system_prompt", "agent", "updated_at"))


def read(document: Document) -> Iterator[Draft]:
    """Yield the session in a message file of Cline as a `Draft`."""
    whole = document.read_root("messages")
    draft = Draft(session_id=whole.read_text("sessionId"))
    if whole.has("version") and whole.values["version"] != KNOWN_VERSION:
        draft.warn("version", f"layout version {whole.values['version']!r:.20} is not known; read as version {KNOWN_VERSION}")
    draft.add_message("system", make_text_parts(whole.read_text("system_prompt")), "system_prompt")
    reader = _Reader(draft)
    for message in whole.read_objects("messages"):
        draft.now_ms = message.read_time_ms("ts")
        reader.read_message(message)
    yield draft


@dataclass(slots=True)
class _Reader:
    """Reader of the messages, which assigns results in texts of the user to the calls of the answer before them."""

    draft: Draft
    waiting_calls: list[ToolCall] = field(default_factory=list)
    """Calls of the newest answer whose results have not been read yet."""

    def read_message(self, message: Fields) -> None:
        parts = list(read_parts(message, self.draft))
        if message.values.get("isSummary") is True:
            self.read_summary(message.read_text("role"), parts)
            return
        match message.read_text("role"):
            case "assistant":
                self.waiting_calls = [part for part in parts if isinstance(part, ToolCall)]
                model, metrics = message.read_object("modelInfo"), message.read_object("metrics")
                self.draft.add_answer(
                    parts,
                    message.place,
                    model=model.read_text("id") or model.read_text("modelId"),
                    usage=_read_metrics(metrics),
                    cost_usd=metrics.read_amount("cost"),
                )
            case "user" | "system" as role:
                answered = {part.call_id for part in parts if isinstance(part, ToolResult)}
                self.waiting_calls = [call for call in self.waiting_calls if call.call_id not in answered]
                self.draft.add_message(role, self.find_results(parts), message.place)
                self.waiting_calls = []
            case role:
                self.draft.count_dropped(f"message of role {role!r}, whose text is not read")

    def read_summary(self, role: str, parts: list[Part]) -> None:
        """Add the compaction that wrote a summary."""
        summary = "\n".join(part.text for part in parts if isinstance(part, Text))
        view = None
        if role == "assistant" and self.draft.turns:
            first = self.draft.turns[0]
            view = (Message(role=first.role, parts=tuple(first.parts)), Message(role="assistant", parts=(Text(text=summary),)))
        self.draft.add_compaction(NativeCompaction(summary=summary, view=view))

    def find_results(self, parts: list[Part]) -> Iterator[Part]:
        """Yield the parts of a user message, with texts that are results of calls as results."""
        header: ToolCall | None = None
        for part in parts:
            if header is not None and isinstance(part, Text):
                yield ToolResult(call_id=header.call_id, name="", output=part.text)
                header = None
                continue
            match = _RESULT_HEADER.match(part.text) if isinstance(part, Text) and self.waiting_calls else None
            if match is None or not isinstance(part, Text):
                yield part
                continue
            named = (place for place, call in enumerate(self.waiting_calls) if call.name == match[1])
            call = self.waiting_calls.pop(next(named, 0))
            if output := part.text[match.end() :]:
                yield ToolResult(call_id=call.call_id, name="", output=output)
            else:
                header = call
        if header is not None:
            yield ToolResult(call_id=header.call_id, name="", output="")


def _read_metrics(metrics: Fields) -> Usage:
    if metrics.has("tokens"):
        return read_usage(metrics.read_object("tokens"), "prompt", "completion", "cached", with_read=True)
    return read_usage(metrics, "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", with_read=True)
