"""Tool calls of local models: a JSON schema forces each answer to be a call of one of the tools.

The chat templates of these models cannot read calls from answers. This module therefore writes tools, calls and results as text
in the format that Qwen2.5 was trained on. The schema allows one call for each step, only of existing tools with their declared
arguments.

To answer with text and end the turn, the model calls an additional tool. A separate field for text would not work, because small
models would use that field at once.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from harness.conversation.messages import Message, Reasoning, Text, ToolCall
from harness.models.openai_format import encode_tools, make_call_namer
from harness.models.text_calls import AnswerFilter, render_calls, render_results
from harness.protocols import ToolSpec

REPLY_TOOL_NAME, REPLY_ARGUMENT = "reply_to_user", "text"
"""Name and argument of an additional tool that the model calls when it answers with text; no other tool has this name."""
RESULT_TAG = "tool_response"
RESULT_OPEN, RESULT_CLOSE = f"<{RESULT_TAG}>", f"</{RESULT_TAG}>"
INSTRUCTIONS = """\
# Tools

You act by calling functions, one at a time. These are there:
<tools>
{tools}
</tools>

Write nothing but the next call, as one JSON object: {call}
Its result comes between {result_open} and {result_close}. Call {say} only when nothing is left to do."""
CALL_EXAMPLE = {"name": "<function-name>", "arguments": {"<argument>": "<value>"}}

REPLY_TOOL = ToolSpec(
    name=REPLY_TOOL_NAME,
    description="End your work and say something to the user",
    parameters_json=json.dumps(
        {"type": "object", "properties": {REPLY_ARGUMENT: {"type": "string"}}, "required": [REPLY_ARGUMENT]}
    ),
)

_TAG = re.compile(r"<(?=/?(?:tool_response|tools)>)")


def build_answer_schema(tools: Iterable[ToolSpec]) -> dict[str, Any]:
    """Return the JSON schema of an answer: a call of one of the tools, or of the additional tool for text."""
    forms = [(tool.name, _close_schema(json.loads(tool.parameters_json))) for tool in (*tools, REPLY_TOOL)]
    return {"anyOf": [_build_object_schema(name={"const": name}, arguments=arguments) for name, arguments in forms]}


def _build_object_schema(**properties: object) -> dict[str, Any]:
    return _close_schema({"type": "object", "properties": properties, "required": [*properties]})


def _close_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Forbid additional properties in the JSON schema of an object, unless the schema itself allows them."""
    return {"additionalProperties": False, **schema}


def render_messages(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """Return a conversation as text: tools in the system prompt, calls and results as text."""
    rendered_messages = [_render_message(message) for message in messages]
    if not tools:
        return tuple(rendered_messages)
    section = Text(text=describe_tools(tools))
    if rendered_messages and rendered_messages[0].role == "system":
        return (Message(role="system", parts=(*rendered_messages[0].parts, section)), *rendered_messages[1:])
    return (Message(role="system", parts=(section,)), *rendered_messages)


def describe_tools(tools: Iterable[ToolSpec]) -> str:
    """Return the section of the system prompt that describes the tools and the form of a tool call."""
    return INSTRUCTIONS.format(
        tools="\n".join(json.dumps(tool) for tool in encode_tools((*tools, REPLY_TOOL))),
        call=json.dumps(CALL_EXAMPLE),
        say=REPLY_TOOL_NAME,
        result_open=RESULT_OPEN,
        result_close=RESULT_CLOSE,
    )


def _render_message(message: Message) -> Message:
    if message.results:
        return render_results(message, RESULT_TAG, lambda output: _TAG.sub("&lt;", output))
    if message.calls:
        return render_calls(message, _render_call)
    return message  # a text of the assistant stays text: as a call it would lead the model to end its turn in the same way


def _render_call(call: ToolCall) -> str:
    return f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments_json}}}'


def parse_reply(message: Message, conversation: Iterable[Message]) -> Message:
    """Return a local model's answer as a tool call or a text; of an incomplete answer, what can be read."""
    answer = parse_partial_object(message.text)
    name, reasoning = answer.get("name"), tuple(part for part in message.parts if isinstance(part, Reasoning))
    if name == REPLY_TOOL_NAME or not isinstance(name, str):
        return Message(role="assistant", parts=(*reasoning, Text(text=_extract_text(answer))))
    call = ToolCall(call_id=make_call_namer(conversation)(""), name=name, arguments_json=_extract_arguments(message.text))
    return Message(role="assistant", parts=(*reasoning, call))


def _extract_text(answer: Mapping[str, Any]) -> str:
    arguments = answer.get("arguments") if answer.get("name") == REPLY_TOOL_NAME else None
    return str(arguments.get(REPLY_ARGUMENT, "")) if isinstance(arguments, dict) else ""


def _extract_arguments(raw: str) -> str:
    """Return the arguments of a tool call as JSON; for an incomplete call, the beginning of that JSON."""
    try:
        return json.dumps(json.loads(raw)["arguments"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return raw.partition('"arguments":')[2].strip()


def parse_partial_object(raw: str) -> dict[str, Any]:
    """Return the readable fields of a JSON object whose text is incomplete."""
    try:
        value = from_json(raw, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class CallFilter(AnswerFilter):
    """Filter that forwards the text inside a local model's streamed JSON answer to a listener.

    While the model writes a tool call, the listener receives empty texts.
    """

    def reset(self) -> None:
        """Discard everything received so far, because the model begins a new answer."""
        self._raw, self._sent_characters = "", 0

    def take(self, text: str) -> str:
        """Take the next piece of a model's JSON answer, and return the new text that it adds."""
        self._raw += text
        readable = _extract_text(parse_partial_object(self._raw))
        news = readable[self._sent_characters :]
        self._sent_characters = max(self._sent_characters, len(readable))
        return news
