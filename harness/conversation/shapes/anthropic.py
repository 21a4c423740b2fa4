"""Messages of Anthropic, whose content blocks hold tool calls and results; the system prompt is no message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.conversation.messages import Message, Part, Reasoning, ToolCall, ToolResult
from harness.conversation.shapes.shape import (
    Piece,
    Place,
    Raw,
    Source,
    encode_json,
    flatten_content,
    flatten_message,
    make_piece,
    parse_arguments,
    read_block,
    read_content,
    read_text_key,
    refuse,
    split_user_message,
)

_OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"})


@dataclass(frozen=True, slots=True)
class Anthropic:
    """Shape of Anthropic's messages: roles `user` and `assistant`, with blocks such as `tool_use` and `tool_result`.

    A raw message of the user with tool results and a text is read as several messages, so that a policy can keep some of them.
    """

    name: str = "Anthropic"

    def owns(self, raw: Raw) -> bool:
        """Return whether a raw message has a content block that only Anthropic has."""
        content = raw.get("content")
        return (
            "role" in raw
            and isinstance(content, list)
            and any(isinstance(block, Mapping) and block.get("type") in _OWN_BLOCKS for block in content)
        )

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read raw messages; each tool result becomes a message of its own."""
        return [piece for number, raw in enumerate(raws, first_number) for piece in self._read_message(raw, number)]

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return an inserted message; a system message becomes one of the user, because Anthropic has none in the list."""
        if results := message.results:
            blocks = [{"type": "tool_result", "tool_use_id": result.call_id, "content": result.output} for result in results]
            return ({"role": "user", "content": blocks},)
        role, text = "assistant" if message.role == "assistant" else "user", flatten_message(message)
        if not message.calls:
            return ({"role": role, "content": text},)
        texts: list[Raw] = [{"type": "text", "text": text}] if text else []
        calls: list[Raw] = [
            {"type": "tool_use", "id": call.call_id, "name": call.name, "input": parse_arguments(call)} for call in message.calls
        ]
        return ({"role": role, "content": [*texts, *calls]},)

    def _read_message(self, raw: Raw, number: int) -> list[Piece]:
        role, content = raw.get("role"), raw.get("content")
        if role not in {"user", "assistant"}:
            raise refuse(number, f"the role must be user or assistant; pass the system prompt as `system=` (got {role!r:.80})")
        if not isinstance(content, list):
            return [make_piece(role, read_content(raw, number), (Source(number, raw),))]
        pairs = [self._read_block(block, number, index) for index, block in enumerate(content)]
        if role == "assistant":
            return [make_piece(role, pairs, (Source(number, raw),))]
        return split_user_message(Source(number, raw), pairs)

    def _read_block(self, block: object, number: int, index: int) -> tuple[Part, Place | None]:
        if not isinstance(block, Mapping):
            return read_block(block, number, Place(0, ("content", index)))
        match block.get("type"):
            case "tool_use":
                call = ToolCall(
                    call_id=read_text_key(block, "id", number, "a tool_use block"),
                    name=read_text_key(block, "name", number, "a tool_use block"),
                    arguments_json=encode_json(block.get("input", {}), number),
                )
                return call, Place(0, ("content", index, "input"))
            case "tool_result":
                result = ToolResult(
                    call_id=read_text_key(block, "tool_use_id", number, "a tool_result block"),
                    name="",
                    output=flatten_content(block.get("content"), number),
                    status="error" if block.get("is_error") is True else "completed",
                )
                return result, Place(0, ("content", index, "content"))
            case "thinking" | "redacted_thinking":
                return Reasoning(text=str(block.get("thinking") or "")), None
            case _:
                return read_block(block, number, Place(0, ("content", index)))
