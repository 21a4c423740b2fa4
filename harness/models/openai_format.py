"""Conversion between messages of this package and the OpenAI chat format, which all providers accept through litellm.

Both the client, which sends requests, and the server, which receives them, use these pure functions. Data from outside is not
trusted: a field with an unexpected type counts as missing.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.conversation.drawings import encode_png
from harness.conversation.events import TextDelta
from harness.conversation.messages import (
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    extract_part_text,
)
from harness.conversation.tokens import Measured, Usage
from harness.errors import UsageError
from harness.protocols import ToolSpec

JsonObject = dict[str, Any]

INVALID_ARGUMENTS_KEY = "arguments_that_were_no_json_object"
"""Key of the JSON object in which invalid arguments of a tool call are sent back, because providers accept only JSON objects."""


def encode_messages(messages: Iterable[Message], *, sends_images: bool = False) -> list[JsonObject]:
    """Return messages in the form of the `messages` field of an OpenAI chat request.

    A tool message with several results becomes several messages. Reasoning is left out. An answer with nothing but reasoning is
    left out entirely, because providers refuse an empty answer.

    Args:
        messages: Messages of the conversation.
        sends_images: Whether the pixels of images are sent instead of their text. Since most providers accept no image in the
            result of a tool, such images follow the results of the step in a message of the user.
    """
    encoded, waiting = list[JsonObject](), list[JsonObject]()
    for message in messages:
        if message.role != "tool" and waiting:
            encoded.append({"role": "user", "content": waiting})
            waiting = []
        encoded += _encode_message(message, sends_images=sends_images)
        if message.role == "tool" and sends_images:
            waiting += _encode_images(message)
    return [*encoded, {"role": "user", "content": waiting}] if waiting else encoded


def _encode_images(message: Message) -> list[JsonObject]:
    """Return the images of a message whose pixels are known, each behind a line with its number."""
    drawings = [part.drawing for part in message.parts if isinstance(part, Image) and part.drawing]
    names = ", ".join(result.call_id for result in message.results)
    label = f"Image shown by the call {names}:" if names else ""
    blocks = list[JsonObject]()
    for drawing in drawings:
        blocks += [{"type": "text", "text": label}] if label else []
        blocks.append({"type": "image_url", "image_url": {"url": encode_png(drawing)}})
    return blocks


def encode_tools(tools: Iterable[ToolSpec]) -> list[JsonObject]:
    """Return tools in the form of the `tools` field of an OpenAI chat request."""
    return [{"type": "function", "function": encode_function(tool)} for tool in tools]


def encode_function(tool: ToolSpec) -> JsonObject:
    """Return name, description and parameters of a tool in the OpenAI chat format."""
    return {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters_json)}


def _encode_message(message: Message, *, sends_images: bool) -> list[JsonObject]:
    texts = [
        extract_part_text(part)
        for part in message.parts
        if not isinstance(part, Reasoning | ToolCall | ToolResult) and not (sends_images and _has_pixels(part))
    ]
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": result.call_id, "name": result.name, "content": "\n".join((result.output, *texts))}
            for result in message.results
        ]
    content = "\n".join(texts)
    if message.role == "user" and sends_images and (images := _encode_images(message)):
        return [{"role": "user", "content": [*([{"type": "text", "text": content}] if content else ()), *images]}]
    if not message.calls:
        return [] if message.role == "assistant" and not content else [{"role": message.role, "content": content}]
    calls = [encode_call(_mend_arguments(call)) for call in message.calls]
    return [{"role": message.role, "content": content or None, "tool_calls": calls}]


def _has_pixels(part: Part) -> bool:
    return isinstance(part, Image) and bool(part.drawing)


def encode_call(call: ToolCall) -> JsonObject:
    """Return a tool call in the OpenAI chat format; its arguments stay as the model wrote them."""
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def _mend_arguments(call: ToolCall) -> ToolCall:
    if is_json_object(call.arguments_json):
        return call
    return replace(call, arguments_json=json.dumps({INVALID_ARGUMENTS_KEY: call.arguments_json}))


def is_json_object(text: str) -> bool:
    """Return whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def decode_tools(plain: Sequence[object]) -> tuple[ToolSpec, ...]:
    """Return the tools in the `tools` field of an OpenAI chat request.

    Raises:
        UsageError: A tool is not a function with a name; the message gives its index.
    """
    return tuple(_decode_tool(tool, f"tools.{index}") for index, tool in enumerate(plain))


def _decode_tool(plain: object, where: str) -> ToolSpec:
    function = _coerce_mapping(_coerce_mapping(plain).get("function"))
    name, parameters = function.get("name"), function.get("parameters", {})
    if not isinstance(name, str) or not name:
        raise UsageError(f"{where}.function.name: must be a name (got {name!r:.80})")
    if not isinstance(parameters, dict):
        raise UsageError(f"{where}.function.parameters: must be a JSON schema (got {parameters!r:.80})")
    return ToolSpec(name=name, description=_coerce_string(function.get("description")), parameters_json=json.dumps(parameters))


def decode_messages(plain: Sequence[object]) -> tuple[Message, ...]:
    """Return the messages of an OpenAI chat request.

    A tool message without a tool name gets the name from the call that it answers.

    Raises:
        UsageError: An item is not a message; the error text gives its index.
    """
    messages: list[Message] = []
    names: dict[str, str] = {}
    for index, item in enumerate(plain):
        message = _decode_message(item, names, f"messages.{index}")
        names.update((call.call_id, call.name) for call in message.calls)
        messages.append(message)
    return tuple(messages)


def _decode_message(plain: object, names: Mapping[str, str], where: str) -> Message:
    fields = _coerce_mapping(plain)
    role, text = fields.get("role"), _decode_text(fields.get("content"))
    if role == "tool":
        call_id = _coerce_string(fields.get("tool_call_id"))
        name = _coerce_string(fields.get("name")) or names.get(call_id, "")
        return Message(role="tool", parts=(ToolResult(call_id=call_id, name=name, output=text),))
    roles: dict[object, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
    if not isinstance(role, str) or role not in roles:
        raise UsageError(f"{where}.role: must be system, developer, user, assistant or tool (got {role!r:.80})")
    calls = tuple(_decode_call(call) for call in _coerce_sequence(fields.get("tool_calls")))
    parts: tuple[Part, ...] = (Text(text=text),) if text or not calls else ()
    return Message(role=roles[role], parts=parts + calls)


def _decode_call(plain: object) -> ToolCall:
    fields = _coerce_mapping(plain)
    function = _coerce_mapping(fields.get("function"))
    return ToolCall(
        call_id=_coerce_string(fields.get("id")),
        name=_coerce_string(function.get("name")),
        arguments_json=_coerce_string(function.get("arguments")),
    )


def _decode_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_coerce_string(_coerce_mapping(block).get("text")) for block in _coerce_sequence(content))


def convert_to_chunk(body: JsonObject) -> JsonObject:
    """Convert a complete answer in the OpenAI format to a single chunk of a streamed answer."""
    choice = _coerce_mapping(next(iter(_coerce_sequence(body.get("choices"))), None))
    message = _coerce_mapping(choice.get("message"))
    calls = [{**_coerce_mapping(call), "index": index} for index, call in enumerate(_coerce_sequence(message.get("tool_calls")))]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    delta = {"content": _decode_text(message.get("content")), "reasoning_content": reasoning, "tool_calls": calls}
    return {"choices": [{"delta": delta, "finish_reason": choice.get("finish_reason")}], "usage": body.get("usage")}


def decode_usage(plain: object) -> Usage:
    """Return the token usage in a report in the OpenAI format, in which `prompt_tokens` include cached tokens.

    Missing and negative numbers count as 0.
    """
    fields = _coerce_mapping(plain)
    prompt = _coerce_mapping(fields.get("prompt_tokens_details"))
    completion = _coerce_mapping(fields.get("completion_tokens_details"))
    cache_read = _coerce_count(prompt.get("cached_tokens")) or _coerce_count(fields.get("cache_read_input_tokens"))
    cache_write = _coerce_count(prompt.get("cache_creation_tokens")) or _coerce_count(fields.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=Measured(max(0, _coerce_count(fields.get("prompt_tokens")) - cache_read - cache_write)),
        output_tokens=Measured(_coerce_count(fields.get("completion_tokens"))),
        reasoning_tokens=Measured(_coerce_count(completion.get("reasoning_tokens"))),
        cache_read_tokens=Measured(cache_read),
        cache_write_tokens=Measured(cache_write),
    )


def encode_usage(usage: Usage) -> JsonObject:
    """Return token usage as a report in the OpenAI format that `decode_usage` can read."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_creation_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def find_finish_reason(chunk: object) -> str:
    """Return the finish reason in a chunk of a streamed answer; empty if there is none.

    The chunk has the format of OpenAI, Anthropic or Gemini.
    """
    fields = _coerce_mapping(chunk)
    choice = _coerce_mapping(next(iter(_coerce_sequence(fields.get("choices") or fields.get("candidates"))), None))
    reason = choice.get("finish_reason") or choice.get("finishReason") or _coerce_mapping(fields.get("delta")).get("stop_reason")
    return _coerce_string(reason)


@dataclass(slots=True)
class StreamedCall:
    """Tool call of a streamed answer that is still being received."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def is_followed_by(self, call_id: str) -> bool:
        """Return whether a later piece with a tool name and this id, which may be empty, begins another call."""
        if self.call_id:
            return call_id not in ("", self.call_id)
        return bool(self.name) and not call_id


@dataclass(slots=True)
class StreamedReply:
    """Streamed answer of a model, assembled from its chunks."""

    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    calls: dict[int, StreamedCall] = field(default_factory=dict)
    newest_by_index: dict[int, int] = field(default_factory=dict)
    """Key in `calls` of the newest call that the provider sends under each index; some servers send all calls under one index."""
    finish_reason: str = ""
    usage: Usage | None = None
    """Token usage that the provider reported; None if it reported none, or a prompt of 0 tokens, which some servers report."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing but reasoning was received so far."""
        return not (any(self.texts) or self.calls)

    def add(self, chunk: Mapping[str, Any]) -> tuple[TextDelta, ...]:
        """Add the next chunk of a streamed answer, and return its pieces of reasoning and text.

        A chunk with neither returns an empty piece, so that a listener notices progress.
        """
        if (usage := decode_usage(chunk.get("usage"))).is_reported:
            self.usage = usage
        reasoning = text = ""
        for choice in _coerce_sequence(chunk.get("choices"))[:1]:
            delta = _coerce_mapping(_coerce_mapping(choice).get("delta"))
            self.finish_reason = _coerce_string(_coerce_mapping(choice).get("finish_reason")) or self.finish_reason
            self._add_calls(_coerce_sequence(delta.get("tool_calls")))
            reasoning, text = _coerce_string(delta.get("reasoning_content")), _coerce_string(delta.get("content"))
            self.reasonings.append(reasoning)
            self.texts.append(text)
        thought = (TextDelta(text=reasoning, part="reasoning"),) if reasoning else ()
        return (*thought, TextDelta(text=text)) if text or not thought else thought

    def _add_calls(self, pieces: Sequence[object]) -> None:
        for piece in map(_coerce_mapping, pieces):
            function = _coerce_mapping(piece.get("function"))
            call_id, name = _coerce_string(piece.get("id")), _coerce_string(function.get("name"))
            call = self._find_call(piece.get("index"), call_id, name)
            call.call_id = call.call_id or call_id
            call.name = call.name or name
            call.arguments.append(_coerce_string(function.get("arguments")))

    def _find_call(self, given_index: object, call_id: str, name: str) -> StreamedCall:
        """Return the call to which a piece belongs: the newest one of its index, or a new one.

        A piece with a tool name begins a new call if its id is another, or if the newest call has a name and neither has an id.
        """
        index = given_index if isinstance(given_index, int) else 0
        key = self.newest_by_index.get(index)
        if key is None or (name and self.calls[key].is_followed_by(call_id)):
            key = index if index not in self.calls else max(self.calls) + 1
            self.newest_by_index[index], self.calls[key] = key, StreamedCall()
        return self.calls[key]

    def build_message(self, name_call: Callable[[str], str]) -> Message:
        """Return the complete answer as a message of the assistant.

        Args:
            name_call: Function that replaces the call id given by the provider by an id that is unique in the conversation.
        """
        calls = tuple(
            ToolCall(call_id=name_call(call.call_id), name=call.name, arguments_json="".join(call.arguments) or "{}")
            for _, call in sorted(self.calls.items())
        )
        return assistant("".join(self.texts), *calls, reasoning="".join(self.reasonings))


def make_call_namer(messages: Iterable[Message]) -> Callable[[str], str]:
    """Return a function that makes tool call ids unique in a conversation.

    The function adds a number to empty or repeated ids.
    """
    used_ids = {call.call_id for message in messages for call in message.calls}

    def name_call(call_id: str) -> str:
        candidate, number = call_id, 1
        while not candidate or candidate in used_ids:
            candidate, number = f"{call_id or 'call'}-{len(used_ids) + number}", number + 1
        used_ids.add(candidate)
        return candidate

    return name_call


def _coerce_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _coerce_sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _coerce_string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _coerce_count(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
