"""Redaction of a session, so that it can be published: sizes, tools and numbers stay, and no text.

Each text is replaced by its length and a digest of its shape, in which each letter and each digit is the same. Arguments of tool
calls are texts, so that paths and keys in them are gone as well. Ids are replaced by numbers. Names of tools and models stay.
"""

import hashlib
import json
from dataclasses import replace

from harness.conversation.messages import (
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    extract_part_text,
)
from harness.errors import format_count
from harness.inspection.exchange.exported_session import (
    AppliedCompaction,
    ExportedSession,
    ModelCall,
    SessionItem,
    TypedMessage,
)


def redact_session(session: ExportedSession) -> ExportedSession:
    """Return a session without texts and ids."""
    redactor = _Redactor()
    return replace(
        mask_session_id(session),
        task=redact_text(session.task),
        items=tuple([redactor.redact_item(item) for item in session.items]),
        error=redact_text(session.error) if session.error else "",
    )


def mask_session_id(session: ExportedSession) -> ExportedSession:
    """Return a session with a digest of its id."""
    return replace(session, session_id=f"session-{hashlib.sha256(session.session_id.encode()).hexdigest()[:12]}")


def redact_text(text: str) -> str:
    """Return the length of a text and a digest of its shape."""
    shape = "".join("a" if sign.isalpha() else "0" if sign.isdigit() else sign if sign.isspace() else "." for sign in text)
    digest = hashlib.sha256(shape.encode()).hexdigest()[:8]
    return f"[{format_count(len(text), 'character')}, {format_count(text.count(chr(10)) + 1, 'line')}, shape {digest}]"


class _Redactor:
    """Redaction of messages, each of which is redacted once."""

    def __init__(self) -> None:
        self._messages: dict[int, tuple[Message, Message]] = {}
        """Each message with its redacted form, by Python's `id()` of the message."""
        self._call_ids: dict[str, str] = {}

    def redact_item(self, item: SessionItem) -> SessionItem:
        match item:
            case TypedMessage():
                return replace(item, message=self.redact(item.message))
            case ModelCall():
                return replace(
                    item,
                    request=[self.redact(message) for message in item.request],
                    answer=self.redact(item.answer),
                    results=tuple([self.redact(message) for message in item.results]),
                    timings={self.number(call_id): timing for call_id, timing in item.timings.items()},
                )
            case AppliedCompaction():
                return replace(item, inserted=tuple([self.redact(message) for message in item.inserted]))

    def redact(self, message: Message) -> Message:
        """Return a message without its texts."""
        if id(message) not in self._messages:
            parts = tuple([self._redact_part(part) for part in message.parts])
            self._messages[id(message)] = (message, replace(message, parts=parts))
        return self._messages[id(message)][1]

    def number(self, call_id: str) -> str:
        """Return the new id of a tool call."""
        return self._call_ids.setdefault(call_id, f"call-{len(self._call_ids) + 1}")

    def _redact_part(self, part: Part) -> Part:
        match part:
            case ToolCall():
                arguments = json.dumps({"redacted": redact_text(part.arguments_json)})
                return ToolCall(call_id=self.number(part.call_id), name=part.name, arguments_json=arguments)
            case ToolResult():
                return replace(part, call_id=self.number(part.call_id), output=redact_text(part.output))
            case Reasoning():
                return Reasoning(text=redact_text(part.text))
        return Text(text=redact_text(extract_part_text(part)))
