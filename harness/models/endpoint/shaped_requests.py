"""Messages of requests in other shapes than that of chat completions, read by the converters of `conversation.shapes`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.conversation.messages import Message, ToolCall, ToolResult, sanitize_message, system
from harness.conversation.shapes.shape import Shape
from harness.errors import UsageError
from harness.models.openai_format import INVALID_ARGUMENTS_KEY, JsonObject, is_json_object


def read_messages(shape: Shape, raws: Sequence[object], where: str, system_prompt: str) -> tuple[Message, ...]:
    """Return the messages of a request; tool results get the names of their tools from the calls that they answer.

    Args:
        shape: Shape of the messages.
        raws: Messages of the request.
        where: Field that holds the messages, for error messages.
        system_prompt: System prompt that is sent apart from the messages; empty if there is none.

    Raises:
        UsageError: An entry is not a message; the error names it by its index.
    """
    checked: list[Mapping[str, object]] = []
    for index, raw in enumerate(raws):
        if not isinstance(raw, Mapping):
            raise UsageError(f"{where}.{index}: must be an object (got {raw!r:.80})")
        checked.append(raw)
    messages = [sanitize_message(piece.message) for piece in shape.read(checked, 0)]
    if system_prompt:
        messages.insert(0, system(system_prompt))
    names = {call.call_id: call.name for message in messages for call in message.calls}
    return tuple(_name_results(message, names) for message in messages)


def read_arguments(call: ToolCall) -> JsonObject:
    """Return the arguments of a call, for an API that has an object for them; invalid JSON stands under a key of its own."""
    if is_json_object(call.arguments_json):
        arguments: JsonObject = json.loads(call.arguments_json)
        return arguments
    return {INVALID_ARGUMENTS_KEY: call.arguments_json}


def _name_results(message: Message, names: Mapping[str, str]) -> Message:
    parts = tuple(
        replace(part, name=part.name or names.get(part.call_id, "")) if isinstance(part, ToolResult) else part
        for part in message.parts
    )
    return replace(message, parts=parts)
