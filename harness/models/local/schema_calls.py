"""Tool calls of a local model: every answer is one JSON object of a schema made from the tools, which its server enforces.

The templates in these models' files let them call nothing: they describe the tools and then read no answer of such a model as a
call. So the tools, the calls and their results are laid out here, in the form that Qwen2.5 was trained on, and the sampling is
bound to the schema: the model can call a tool that is there, with the arguments that it has, and nothing else. One more call
stands for a text and ends the turn; were that a field of its own, a small model would take to it at once. A step has one call.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from harness.events import TextDelta
from harness.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, part_text, user
from harness.models.openai_format import fresh_ids, tools_to_wire
from harness.protocols import ToolSpec

SAY, TEXT = "reply_to_user", "text"
"""The call that stands for a text, and its argument. No tool has its name."""
RESULT_OPEN, RESULT_CLOSE = "<tool_response>", "</tool_response>"
INSTRUCTIONS = """\
# Tools

You act by calling functions, one at a time. These are there:
<tools>
{tools}
</tools>

Write nothing but the next call, as one JSON object: {call}
Its result comes between {result_open} and {result_close}. Call {say} only when nothing is left to do."""
CALL = {"name": "<function-name>", "arguments": {"<argument>": "<value>"}}

SAYING = ToolSpec(
    name=SAY,
    description="End your work and say something to the user",
    parameters_json=json.dumps({"type": "object", "properties": {TEXT: {"type": "string"}}, "required": [TEXT]}),
)

_TAG = re.compile(r"<(?=/?(?:tool_response|tools)>)")


def schema_of(tools: Iterable[ToolSpec]) -> dict[str, Any]:
    """The JSON schema of an answer: the call of one of the tools, or that which stands for a text."""
    forms = [(tool.name, _closed(json.loads(tool.parameters_json))) for tool in (*tools, SAYING)]
    return {"anyOf": [_object(name={"const": name}, arguments=arguments) for name, arguments in forms]}


def _object(**properties: object) -> dict[str, Any]:
    return _closed({"type": "object", "properties": properties, "required": [*properties]})


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, of an object that has no other fields unless it says so."""
    return {"additionalProperties": False, **schema}


def laid_out(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """A conversation as text that every template can take: tools in the system prompt, calls as they are written, results."""
    told = [_told(message) for message in messages]
    if not tools:
        return tuple(told)
    section = Text(text=described(tools))
    if told and told[0].role == "system":
        return (Message(role="system", parts=(*told[0].parts, section)), *told[1:])
    return (Message(role="system", parts=(section,)), *told)


def described(tools: Iterable[ToolSpec]) -> str:
    """The section of the system prompt that tells of the tools and how to call them."""
    return INSTRUCTIONS.format(
        tools="\n".join(json.dumps(tool) for tool in tools_to_wire((*tools, SAYING))),
        call=json.dumps(CALL),
        say=SAY,
        result_open=RESULT_OPEN,
        result_close=RESULT_CLOSE,
    )


def _told(message: Message) -> Message:
    if message.results:
        outputs = (f"{RESULT_OPEN}\n{_TAG.sub('&lt;', result.output)}\n{RESULT_CLOSE}" for result in message.results)
        return user("\n".join(outputs))
    if message.calls:
        return Message(role=message.role, parts=(Text(text="\n".join([*_texts(message.parts), *map(_written, message.calls)])),))
    return message  # also a text of the assistant, a summary say: as a call it would lead the model to end its turn likewise


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    others = (part for part in parts if not isinstance(part, Reasoning | ToolCall | ToolResult))
    return (text for part in others if (text := part_text(part)))


def _written(call: ToolCall) -> str:
    return f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments_json}}}'


def read(message: Message, conversation: Iterable[Message]) -> Message:
    """An answer taken apart: a call, or its text. Of one that was cut short, as much as there is."""
    given = partial(message.text)
    name, kept = given.get("name"), tuple(part for part in message.parts if isinstance(part, Reasoning))
    if name == SAY or not isinstance(name, str):
        return Message(role="assistant", parts=(*kept, Text(text=_text(given))))
    call = ToolCall(call_id=fresh_ids(conversation)(""), name=name, arguments_json=_arguments(message.text))
    return Message(role="assistant", parts=(*kept, call))


def _text(given: Mapping[str, Any]) -> str:
    arguments = given.get("arguments") if given.get("name") == SAY else None
    return str(arguments.get(TEXT, "")) if isinstance(arguments, dict) else ""


def _arguments(raw: str) -> str:
    """The arguments of a call; of one that was cut short, as much as was written, which is no JSON."""
    try:
        return json.dumps(json.loads(raw)["arguments"])
    except (ValueError, KeyError):
        return raw.partition('"arguments":')[2].strip()


def partial(raw: str) -> dict[str, Any]:
    """As much of a JSON object as is there yet."""
    try:
        found = from_json(raw, allow_partial="trailing-strings")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class AnswerOnly:
    """Hears an answer as it is written, and tells reasoning and text in it; of a call it tells only that something came."""

    def __init__(self, listen: Callable[[TextDelta], None]) -> None:
        """Tell to `listen`."""
        self._listen = listen
        self._raw = ""
        self._told = 0

    def __call__(self, delta: TextDelta) -> None:
        """Hear the next piece; the beginning of a new answer is passed on."""
        if delta.part == "reasoning":
            self._listen(delta)
            return
        if delta.anew:
            self._raw, self._told = "", 0
        self._raw += delta.text
        text = _text(partial(self._raw))
        self._listen(replace(delta, text=text[self._told :]))
        self._told = max(self._told, len(text))
