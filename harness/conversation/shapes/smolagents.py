"""Messages of smolagents, whose calls and observations are texts of the roles `tool-call` and `tool-response`."""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from harness.conversation.messages import Message, Part, ToolCall, ToolResult
from harness.conversation.shapes.shape import (
    Piece,
    Place,
    Raw,
    Source,
    flatten_content,
    flatten_message,
    make_piece,
    read_content,
    refuse,
)

_CALL_PREFIX = "Calling tools:\n"
_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool-call": "assistant", "tool-response": "user"}
"""Role of a message that is no part of a call with an observation, by its role in smolagents."""
_SEVERAL_TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class Smolagents:
    """Shape of smolagents: the dicts that `ChatMessage.dict()` returns.

    An answer and the calls behind it are read as one message. smolagents gives one observation for all calls of a step, so the
    calls are read as one call. A call without an observation right behind it is read as a text.
    """

    name: str = "smolagents"

    def owns(self, raw: Raw) -> bool:
        """Return whether a raw message has the keys of a `ChatMessage`."""
        return raw.keys() >= {"role", "raw", "token_usage"}

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read raw messages; a system message behind the first message becomes a message of the user."""
        pieces: list[Piece] = []
        index = 0
        while index < len(raws):
            number, roles = first_number + index, [_read_role(raw) for raw in raws[index : index + 3]]
            if roles[0] not in _ROLES:
                raise refuse(number, f"the role must be one of {', '.join(_ROLES)} (got {roles[0]!r:.80})")
            is_pair = roles[:2] == ["tool-call", "tool-response"]
            texts = 1 if roles == ["assistant", "tool-call", "tool-response"] else 0
            sources = tuple(Source(number + at, raw) for at, raw in enumerate(raws[index : index + texts + 1]))
            if not is_pair and not texts:
                role = "user" if roles[0] == "system" and number else _ROLES[roles[0]]
                pieces.append(make_piece(role, read_content(raws[index], number), sources))
                index += 1
                continue
            call = _read_call(raws[index + texts], number + texts)
            parts: list[tuple[Part, Place | None]] = [*(read_content(raws[index], number) if texts else ()), (call, None)]
            pieces.append(make_piece("assistant", parts, sources))
            number, raw = number + texts + 1, raws[index + texts + 1]
            output = ToolResult(call_id=call.call_id, name=call.name, output=flatten_content(raw.get("content"), number))
            pieces.append(make_piece("tool", [(output, _find_text(raw))], (Source(number, raw),)))
            index += texts + 2
        return pieces

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return a message that a policy wrote as dicts of this shape."""
        if results := message.results:
            return tuple(_write("tool-response", result.output) for result in results)
        text = flatten_message(message)
        calls = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in message.calls
        ]
        written = (_write(message.role, text),) if text or not calls else ()
        return (*written, *([_write("tool-call", f"{_CALL_PREFIX}{calls}")] if calls else ()))


def _write(role: str, text: str) -> Raw:
    return {"role": role, "content": [{"type": "text", "text": text}], "tool_calls": None, "raw": None, "token_usage": None}


def _read_role(raw: Raw) -> Any:
    role = raw.get("role")
    return role.value if isinstance(role, Enum) else role


def _find_text(raw: Raw) -> Place | None:
    """Return the place of the text of a message that consists of one text."""
    content = raw.get("content")
    if isinstance(content, str):
        return Place(0, ("content",))
    blocks = content if isinstance(content, list) else []
    is_text = len(blocks) == 1 and isinstance(blocks[0], Mapping) and isinstance(blocks[0].get("text"), str)
    return Place(0, ("content", 0, "text")) if is_text else None


def _read_call(raw: Raw, number: int) -> ToolCall:
    """Return the calls of a step as one call; several calls, or a text of unknown form, stand under the key `text`."""
    text = flatten_content(raw.get("content"), number)
    try:
        (call,) = ast.literal_eval(text.removeprefix(_CALL_PREFIX))
        name, arguments = str(call["function"]["name"]), call["function"]["arguments"]
        arguments_json = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError):
        name, arguments_json = _SEVERAL_TOOLS, json.dumps({"text": text}, ensure_ascii=False)
    return ToolCall(call_id=f"call-{number}", name=name, arguments_json=arguments_json)
