"""Tool calls in plain text, for models that have no native ones.

The protocol. The system prompt ends with a section that describes the tools by their JSON schemas and the form of a call: a
block between the tags `<call_tool>` and `</call_tool>`, the first at the beginning of a line and the second at the end of one,
around one JSON object with the fields `name` and `arguments`. Several blocks, one right behind the other, are several calls.
What stands before the first block is the text of the answer; what stands behind the last one is left out, further blocks too,
since it can only rest on results that are not there yet. Results come back as a user message, each between `<tool_result>` and
`</tool_result>`, in the order of the calls.

A block that is no such object is a call that the tools refuse, so that the model reads what was wrong. In everything that is
sent but was no call or result (files, outputs, summaries, what the user says), the tags are written `&lt;call_tool`, so that no
such text looks like a call or ends a result, and a model that repeats it calls nothing.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.events import TextDelta
from harness.messages import Message, Reasoning, Text, ToolCall, ToolResult, part_text, system, user
from harness.models.openai_format import fresh_ids
from harness.protocols import Model, ReadsLittle, Reply, Request, ToolSpec, unheard
from harness.tokens import Window

OPEN, CLOSE = "<call_tool>", "</call_tool>"
RESULT_OPEN, RESULT_CLOSE = "<tool_result>", "</tool_result>"
UNREADABLE = "call_tool"
"""The name under which a call goes whose own cannot be read; no tool has it."""

_OPENING = re.compile(rf"^{OPEN}", re.MULTILINE)
_NEXT = re.compile(rf"\s*^{OPEN}", re.MULTILINE)
_CLOSING = re.compile(rf"{CLOSE}[ \t\r]*$", re.MULTILINE)
_TAG = re.compile(r"<(?=/?(?:call_tool|tool_result))", re.IGNORECASE)
_HEAD = re.compile(r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_NAME = re.compile(r'"name"\s*:\s*"([\w.-]{1,64})"')

INSTRUCTIONS = """\
TOOLS:
You act by calling tools. These are there, each with the JSON schema of its arguments:
{tools}

To call a tool, write a block like this one, with the tags on lines of their own and one JSON object between them:
{example}
Write the block itself, in no code fence, and stop behind it. The result comes in the next message, between {result_open} and \
{result_close}; never write one yourself. An answer without a block ends the session."""
EXAMPLE = {"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}


class Spoken(NamedTuple):
    """An answer, taken apart."""

    text: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments of each, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCalls:
    """A model that calls tools in text, as any other. Thread-safe if the model is."""

    model: Model

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def window(self) -> Window:
        """That of the model."""
        return self.model.window

    @property
    def max_input_tokens(self) -> int | None:
        """That of the model."""
        model: object = self.model
        return model.max_input_tokens if isinstance(model, ReadsLittle) else None

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        """Answer; the listener hears the reasoning, and the text before the first call.

        Raises:
            ModelError: as the model.
        """
        sent = Request(messages=as_text(request.messages, request.tools), max_output_tokens=request.max_output_tokens)
        if not request.tools:
            return self.model.reply(sent, listen)
        heard = _UntilCall(listen)
        reply = self.model.reply(sent, heard)
        heard.end()
        return replace(reply, message=_read(reply.message, request.messages))


def as_text(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """A conversation in which tools, calls and results are text; consecutive results, and what the user adds, are one message."""
    told: list[Message] = []
    answering = False
    for message in messages:
        one = _told(message)
        if answering and message.role in {"tool", "user"}:
            told[-1] = user(f"{told[-1].text}\n{one.text}")
        else:
            told.append(one)
        answering = message.role == "tool" or (answering and message.role == "user")
    return tuple(_equipped(told, tools) if tools else told)


def _equipped(told: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[Message]:
    """The section on tools ends the first part of the system prompt, the one that never changes."""
    section = described(tools)
    if not told or told[0].role != "system":
        return [system(section), *told]
    stable, *changing = told[0].parts
    return [Message(role="system", parts=(Text(text=f"{part_text(stable)}\n\n{section}"), *changing)), *told[1:]]


def described(tools: Sequence[ToolSpec]) -> str:
    """The section of the system prompt that tells of the tools and how to call them."""
    lines = [
        json.dumps({"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters_json)})
        for tool in tools
    ]
    return INSTRUCTIONS.format(
        tools="\n".join(lines),
        example=f"{OPEN}\n{json.dumps(EXAMPLE)}\n{CLOSE}",
        result_open=RESULT_OPEN,
        result_close=RESULT_CLOSE,
    )


def _told(message: Message) -> Message:
    if message.role == "tool":
        return user("\n".join(f"{RESULT_OPEN}\n{harmless(result.output)}\n{RESULT_CLOSE}" for result in message.results))
    if message.role == "system":
        return Message(role="system", parts=tuple(Text(text=harmless(part_text(part))) for part in message.parts))
    others = (part for part in message.parts if not isinstance(part, Reasoning | ToolCall | ToolResult))
    texts = [text for part in others if (text := harmless(part_text(part)))]
    return Message(role=message.role, parts=(Text(text="\n".join([*texts, *map(written, message.calls)])),))


def harmless(text: str) -> str:
    """The text with every tag of the protocol spelt so that it is none."""
    return _TAG.sub("&lt;", text)


def written(call: ToolCall) -> str:
    """A call as a block. Arguments that are no JSON object stand as a string, which reads back as what they were."""
    arguments = call.arguments_json
    if not _is_object(arguments) or arguments != arguments.strip():
        arguments = json.dumps(arguments)
    return f'{OPEN}\n{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}\n{CLOSE}'


def spoken(text: str) -> Spoken:
    """The text and the calls of an answer; of a block that does not end, all that is there."""
    opening = _OPENING.search(text)
    if opening is None:
        return Spoken(text, ())
    return Spoken(text[: opening.start()].rstrip(), tuple(map(_call, _blocks(text))))


def _blocks(text: str) -> Iterator[str]:
    opening = _OPENING.search(text)
    while opening is not None:
        closing = _CLOSING.search(text, opening.end())
        yield text[opening.end() : closing.start() if closing else len(text)].strip()
        if closing is None:
            return
        opening = _NEXT.match(text, closing.end())


def _call(block: str) -> tuple[str, str]:
    """Name and arguments of a block; the arguments of our own writing come back letter by letter."""
    head = _HEAD.match(block)
    if head is not None and block.endswith("}") and _is_object(raw := block[head.end() : -1].strip()):
        return str(json.loads(head[1])), raw
    try:
        given: Any = json.loads(block)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        found = _NAME.search(block)
        return (found[1] if found else UNREADABLE), block
    arguments = given.get("arguments", {})
    return given["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _read(message: Message, conversation: Sequence[Message]) -> Message:
    said, name_call = spoken(message.text), fresh_ids(conversation)
    kept = tuple(part for part in message.parts if isinstance(part, Reasoning))
    text = (Text(text=said.text),) if said.text or not said.calls else ()
    calls = (ToolCall(call_id=name_call(""), name=name, arguments_json=arguments) for name, arguments in said.calls)
    return Message(role="assistant", parts=(*kept, *text, *calls))


@dataclass(slots=True)
class _UntilCall:
    """Hands text on up to the first block; holds back the beginning of a line that may become its tag."""

    listen: Callable[[TextDelta], None]
    held: str = ""
    in_line: bool = False
    """Whether the line so far was handed on."""
    over: bool = False

    def __call__(self, delta: TextDelta) -> None:
        """Hear some more; as often something is told, if only that something came."""
        if delta.part == "reasoning":
            self.listen(delta)
            return
        if delta.anew:
            self.held, self.in_line, self.over = "", False, False
        self.listen(replace(delta, text="".join(self._ready(piece) for piece in delta.text.splitlines(keepends=True))))

    def _ready(self, piece: str) -> str:
        """What can be handed on once this piece of a line has come."""
        if self.over:
            return ""
        self.held += piece
        if not self.in_line and self.held.startswith(OPEN):
            self.over = True
        return self._released() if not self.over and (self.in_line or not OPEN.startswith(self.held)) else ""

    def _released(self) -> str:
        text, self.held = self.held, ""
        self.in_line = not text.endswith("\n")
        return text

    def end(self) -> None:
        """The answer is whole."""
        if self.held and not self.over:
            self.listen(TextDelta(text=self._released()))


if TYPE_CHECKING:

    def _(model: Model) -> Model:
        return TextCalls(model=model)
