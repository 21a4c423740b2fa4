"""Our messages in the chat format that OpenAI introduced and every provider's adapter reads, and back.

Pure functions between values and JSON-ready dicts, apart from the calling because both ends need them: a client that
sends requests and an endpoint that receives them. What comes from outside is hostile: it is read field by field, and a
field of another type counts as missing.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UsageError
from harness.events import TextDelta
from harness.messages import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult, assistant, part_text
from harness.protocols import ToolSpec
from harness.tokens import Measured, Usage

Plain = dict[str, Any]

BROKEN_ARGUMENTS = "arguments_that_were_no_json_object"
"""Key under which arguments that a model wrote in broken JSON are sent back to it: providers refuse anything but an object."""


def messages_to_wire(messages: Iterable[Message]) -> list[Plain]:
    """The `messages` field of a request. A tool message with several results becomes several; reasoning is left out.

    So is an answer that nothing else has come of, since providers refuse an empty one.
    """
    return [plain for message in messages for plain in _to_wire(message)]


def tools_to_wire(tools: Iterable[ToolSpec]) -> list[Plain]:
    """The `tools` field of a request."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.parameters_json),
            },
        }
        for tool in tools
    ]


def _to_wire(message: Message) -> list[Plain]:
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": result.call_id, "name": result.name, "content": result.output}
            for result in message.results
        ]
    content = _content(message.parts)
    if not message.calls:
        return [] if message.role == "assistant" and not content else [{"role": message.role, "content": content}]
    return [{"role": message.role, "content": content or None, "tool_calls": [_call(call) for call in message.calls]}]


def _content(parts: Iterable[Part]) -> str:
    return "\n".join(part_text(part) for part in parts if not isinstance(part, Reasoning | ToolCall | ToolResult))


def _call(call: ToolCall) -> Plain:
    arguments = call.arguments_json if _is_object(call.arguments_json) else json.dumps({BROKEN_ARGUMENTS: call.arguments_json})
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def tools_from_wire(plain: Sequence[object]) -> tuple[ToolSpec, ...]:
    """The tools of a request.

    Raises:
        UsageError: one of them is no function with a name; names its index.
    """
    return tuple(_tool_from_wire(one, f"tools.{index}") for index, one in enumerate(plain))


def _tool_from_wire(plain: object, where: str) -> ToolSpec:
    function = _mapping(_mapping(plain).get("function"))
    name, parameters = function.get("name"), function.get("parameters", {})
    if not isinstance(name, str) or not name:
        raise UsageError(f"{where}.function.name: must be a name (got {name!r:.80})")
    if not isinstance(parameters, dict):
        raise UsageError(f"{where}.function.parameters: must be a JSON schema (got {parameters!r:.80})")
    return ToolSpec(name=name, description=_string(function.get("description")), parameters_json=json.dumps(parameters))


def messages_from_wire(plain: Sequence[object]) -> tuple[Message, ...]:
    """The messages of a request. A tool message that names no tool takes the name of the call that it answers.

    Raises:
        UsageError: one of them is no message; names its index.
    """
    read: list[Message] = []
    names: dict[str, str] = {}
    for index, one in enumerate(plain):
        message = _from_wire(one, names, f"messages.{index}")
        names.update((call.call_id, call.name) for call in message.calls)
        read.append(message)
    return tuple(read)


def _from_wire(plain: object, names: Mapping[str, str], where: str) -> Message:
    given = _mapping(plain)
    role, text = given.get("role"), _text(given.get("content"))
    if role == "tool":
        call_id = _string(given.get("tool_call_id"))
        name = _string(given.get("name")) or names.get(call_id, "")
        return Message(role="tool", parts=(ToolResult(call_id=call_id, name=name, output=text),))
    roles: dict[object, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
    if not isinstance(role, str) or role not in roles:
        raise UsageError(f"{where}.role: must be system, developer, user, assistant or tool (got {role!r:.80})")
    calls = tuple(_call_from_wire(call) for call in _sequence(given.get("tool_calls")))
    parts: tuple[Part, ...] = (Text(text=text),) if text or not calls else ()
    return Message(role=roles[role], parts=parts + calls)


def _call_from_wire(plain: object) -> ToolCall:
    given = _mapping(plain)
    function = _mapping(given.get("function"))
    return ToolCall(
        call_id=_string(given.get("id")),
        name=_string(function.get("name")),
        arguments_json=_string(function.get("arguments")),
    )


def _text(content: object) -> str:
    """Text of a content field: a string, or the text blocks of a list."""
    if isinstance(content, str):
        return content
    return "\n".join(_string(_mapping(block).get("text")) for block in _sequence(content))


def usage_from_wire(plain: object) -> Usage:
    """A usage report whose `prompt_tokens` count the whole prompt, cached or not. What is missing or negative counts as 0."""
    given = _mapping(plain)
    prompt, completion = _mapping(given.get("prompt_tokens_details")), _mapping(given.get("completion_tokens_details"))
    read = _count(prompt.get("cached_tokens")) or _count(given.get("cache_read_input_tokens"))
    written = _count(prompt.get("cache_creation_tokens")) or _count(given.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=Measured(max(0, _count(given.get("prompt_tokens")) - read - written)),
        output_tokens=Measured(_count(given.get("completion_tokens"))),
        reasoning_tokens=Measured(_count(completion.get("reasoning_tokens"))),
        cache_read_tokens=Measured(read),
        cache_write_tokens=Measured(written),
    )


def usage_to_wire(usage: Usage) -> Plain:
    """A usage report that `usage_from_wire` reads back."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_creation_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


@dataclass(slots=True)
class StreamedCall:
    """A tool call whose pieces are still coming."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class StreamedReply:
    """A streamed answer, put together from its chunks."""

    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    calls: dict[int, StreamedCall] = field(default_factory=dict)
    finish_reason: str = ""
    usage: Usage | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing but reasoning came."""
        return not (any(self.texts) or self.calls)

    def add(self, chunk: Mapping[str, Any]) -> tuple[TextDelta, ...]:
        """Take the next chunk; returns what is told of it: its reasoning and its text, or that something came."""
        if chunk.get("usage"):
            self.usage = usage_from_wire(chunk["usage"])
        reasoning = text = ""
        for choice in _sequence(chunk.get("choices"))[:1]:
            delta = _mapping(_mapping(choice).get("delta"))
            self.finish_reason = _string(_mapping(choice).get("finish_reason")) or self.finish_reason
            self._add_calls(_sequence(delta.get("tool_calls")))
            reasoning, text = _string(delta.get("reasoning_content")), _string(delta.get("content"))
            self.reasonings.append(reasoning)
            self.texts.append(text)
        thought = (TextDelta(text=reasoning, part="reasoning"),) if reasoning else ()
        return (*thought, TextDelta(text=text)) if text or not thought else thought

    def _add_calls(self, pieces: Sequence[object]) -> None:
        for piece in map(_mapping, pieces):
            index = piece.get("index")
            call = self.calls.setdefault(index if isinstance(index, int) else 0, StreamedCall())
            function = _mapping(piece.get("function"))
            call.call_id = call.call_id or _string(piece.get("id"))
            call.name = call.name or _string(function.get("name"))
            call.arguments.append(_string(function.get("arguments")))

    def message(self, name_call: Callable[[str], str]) -> Message:
        """The whole assistant message.

        Args:
            name_call: gives the id under which a call is known from the id that the provider gave it.
        """
        calls = tuple(
            ToolCall(call_id=name_call(call.call_id), name=call.name, arguments_json="".join(call.arguments) or "{}")
            for _, call in sorted(self.calls.items())
        )
        return assistant("".join(self.texts), *calls, reasoning="".join(self.reasonings))


def fresh_ids(messages: Iterable[Message]) -> Callable[[str], str]:
    """Keeps the ids of calls unique in a conversation: an id that is empty or taken gets a number behind it."""
    taken = {call.call_id for message in messages for call in message.calls}

    def name_call(given: str) -> str:
        candidate, number = given, 1
        while not candidate or candidate in taken:
            candidate, number = f"{given or 'call'}-{len(taken) + number}", number + 1
        taken.add(candidate)
        return candidate

    return name_call


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
