"""Messages of OpenAI's chat completions, which litellm, Ollama, vLLM and many agents use too."""

from collections.abc import Iterator, Mapping, Sequence
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
    make_piece,
    read_content,
    read_text_key,
    refuse,
)

_SYSTEM_ROLES = frozenset({"system", "developer"})
_ROLES = _SYSTEM_ROLES | {"user", "assistant", "tool"}


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """Shape of OpenAI's chat completions: one dict with `role` and `content` for each message."""

    name: str = "OpenAI chat"

    def owns(self, raw: Raw) -> bool:
        """Return whether a raw message has a role or a key that only chat completions have."""
        return (
            "role" in raw
            and raw.get("type") != "message"
            and (raw["role"] in {"system", "developer", "tool", "function"} or "tool_calls" in raw or "function_call" in raw)
        )

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read raw messages; system messages at the very beginning become one message, and later ones messages of the user."""
        pieces: list[Piece] = []
        opening = 0
        if first_number == 0:
            while opening < len(raws) and raws[opening].get("role") in _SYSTEM_ROLES:
                opening += 1
        if opening:
            pairs = [pair for index, raw in enumerate(raws[:opening]) for pair in read_content(raw, index, source=index)]
            pieces.append(make_piece("system", pairs, tuple(Source(index, raw) for index, raw in enumerate(raws[:opening]))))
        pieces += [self._read_message(raw, number) for number, raw in enumerate(raws[opening:], first_number + opening)]
        return pieces

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return a message that a policy wrote as dicts of this shape."""
        if results := message.results:
            return tuple({"role": "tool", "tool_call_id": result.call_id, "content": result.output} for result in results)
        written: dict[str, object] = {"role": message.role, "content": flatten_message(message)}
        if message.calls:
            written["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
                for call in message.calls
            ]
        return (written,)

    def _read_message(self, raw: Raw, number: int) -> Piece:
        role, sources = raw.get("role"), (Source(number, raw),)
        if role not in _ROLES:
            raise refuse(number, f"the role must be one of {', '.join(sorted(_ROLES))} (got {role!r:.80})")
        if "function_call" in raw and raw["function_call"] is not None:
            raise refuse(number, "`function_call` is the form of calls before `tool_calls`; convert the message to `tool_calls`")
        if role == "tool":
            call_id = read_text_key(raw, "tool_call_id", number, "a tool result")
            result = ToolResult(
                call_id=call_id, name=str(raw.get("name") or ""), output=flatten_content(raw.get("content"), number)
            )
            return make_piece("tool", [(result, Place(0, ("content",)))], sources)
        pairs = read_content(raw, number)
        if role == "assistant":
            pairs += _read_calls(raw, number)
        return make_piece("user" if role in _SYSTEM_ROLES else role, pairs, sources)


def _read_calls(raw: Raw, number: int) -> Iterator[tuple[Part, Place | None]]:
    calls = raw.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise refuse(number, f"`tool_calls` must be a list (got {calls!r:.80})")
    for index, call in enumerate(calls or ()):
        if not isinstance(call, Mapping):
            raise refuse(number, f"a tool call must be an object (got {call!r:.80})")
        key = "custom" if call.get("type") == "custom" else "function"
        function = call.get(key)
        if not isinstance(function, Mapping):
            raise refuse(number, f"tool call {index} needs an object {key!r} with name and arguments (got {function!r:.80})")
        name = "input" if key == "custom" else "arguments"
        arguments = function.get(name)
        yield (
            ToolCall(
                call_id=read_text_key(call, "id", number, f"tool call {index}"),
                name=read_text_key(function, "name", number, f"tool call {index}"),
                arguments_json=arguments
                if isinstance(arguments, str)
                else encode_json({} if arguments is None else arguments, number),
            ),
            Place(0, ("tool_calls", index, key, name)),
        )
