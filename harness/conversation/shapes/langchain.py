"""Messages of LangChain as plain dicts, in the two forms of `messages_to_dict` and `message.model_dump()`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.conversation.messages import Message, Part, ToolCall, ToolResult
from harness.conversation.shapes.shape import (
    Piece,
    Place,
    Raw,
    Source,
    encode_json,
    flatten_content,
    flatten_message,
    look_up,
    make_piece,
    parse_arguments,
    read_content,
    read_text_key,
    refuse,
)

_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call"})
"""Types of content blocks that repeat a call of `tool_calls`."""


@dataclass(frozen=True, slots=True)
class LangChain:
    """Shape of LangChain: dicts with the `type` human, ai, system or tool, and their fields beside it or under `data`."""

    is_nested: bool = True
    """Whether the fields of a message stand under `data`, as in `messages_to_dict`, or beside the type, as in `model_dump`."""

    @property
    def name(self) -> str:
        """Name of the shape for error messages."""
        return "LangChain's messages_to_dict" if self.is_nested else "LangChain's model_dump"

    def owns(self, raw: Raw) -> bool:
        """Return whether a raw message has one of LangChain's types and no role, and its fields where this form has them."""
        is_own = "role" not in raw and raw.get("type") in {*_ROLES, "remove", "chat", "function"}
        return is_own and isinstance(raw.get("data"), Mapping) == self.is_nested

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read raw messages; system messages at the very beginning become one message, and later ones messages of the user."""
        opening = 0
        if first_number == 0:
            while opening < len(raws) and raws[opening].get("type") == "system":
                opening += 1
        pieces: list[Piece] = []
        if opening:
            pairs = [
                pair
                for index, raw in enumerate(raws[:opening])
                for pair in read_content(raw, index, _find_path(raw, "content"), index)
            ]
            pieces.append(make_piece("system", pairs, tuple(Source(index, raw) for index, raw in enumerate(raws[:opening]))))
        return [*pieces, *(self._read_message(raw, number) for number, raw in enumerate(raws[opening:], first_number + opening))]

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return a message that a policy wrote as dicts of this shape."""
        kind = next(kind for kind, role in _ROLES.items() if role == message.role)
        if results := message.results:
            return tuple(
                self._nest({"content": result.output, "type": "tool", "tool_call_id": result.call_id}) for result in results
            )
        data: dict[str, object] = {"content": flatten_message(message), "type": kind}
        if message.calls:
            data["tool_calls"] = [
                {"name": call.name, "args": parse_arguments(call), "id": call.call_id, "type": "tool_call"}
                for call in message.calls
            ]
        return (self._nest(data),)

    def _nest(self, fields: Raw) -> Raw:
        return {"type": fields["type"], "data": fields} if self.is_nested else fields

    def _read_message(self, raw: Raw, number: int) -> Piece:
        kind = raw.get("type")
        if kind not in _ROLES:
            raise refuse(number, f"the type must be one of {', '.join(_ROLES)} (got {kind!r:.80})")
        role, fields = _ROLES[kind], raw["data"] if isinstance(raw.get("data"), Mapping) else raw
        sources, path = (Source(number, raw),), _find_path(raw, "content")
        if role == "tool":
            result = ToolResult(
                call_id=read_text_key(fields, "tool_call_id", number, "a tool message"),
                name=str(fields.get("name") or ""),
                output=flatten_content(fields.get("content"), number),
                status="error" if fields.get("status") == "error" else "completed",
            )
            return make_piece("tool", [(result, Place(0, path))], sources)
        pairs = read_content(raw, number, path)
        if role == "assistant":
            content = look_up(raw, path)
            blocks = content if isinstance(content, list) else []
            repeated = {
                (*path, index)
                for index, block in enumerate(blocks)
                if isinstance(block, Mapping) and block.get("type") in _CALL_BLOCKS
            }
            if repeated:
                pairs = [pair for index, pair in enumerate(pairs) if (*path, index) not in repeated]
            pairs += self._read_calls(raw, fields, number)
        return make_piece("user" if role == "system" else role, pairs, sources)

    def _read_calls(self, raw: Raw, fields: Raw, number: int) -> list[tuple[Part, Place | None]]:
        calls = fields.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
            raise refuse(number, f"`tool_calls` must be a list of objects (got {calls!r:.80})")
        path = _find_path(raw, "tool_calls")
        return [
            (
                ToolCall(
                    call_id=read_text_key(call, "id", number, f"tool call {index}"),
                    name=read_text_key(call, "name", number, f"tool call {index}"),
                    arguments_json=encode_json(call.get("args", {}), number),
                ),
                Place(0, (*path, index, "args")),
            )
            for index, call in enumerate(calls)
        ]


def _find_path(raw: Raw, key: str) -> tuple[str | int, ...]:
    return ("data", key) if isinstance(raw.get("data"), Mapping) else (key,)
