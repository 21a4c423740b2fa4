"""Tool calls written in plain text, for models without native tool calls.

The system prompt ends with a section that describes the tools by their JSON schemas, and the form of a call. A call is a block
with one JSON object, which has the fields `name` and `arguments`. The tag `<call_tool>` at the beginning of a line opens the
block, and the tag `</call_tool>` at the end of a line closes it.

Consecutive blocks are several calls. The text before the first block is the text of the answer. All text after these blocks is
dropped, including further blocks, because it was written without the results of the calls. Results are sent back in a user
message, each between `<tool_result>` and `</tool_result>`, in the order of the calls.

A block without such an object becomes a call that the tools refuse, so that the model reads the error. In all other text (files,
outputs, summaries, user messages), the beginning of a tag is written `&lt;call_tool`. Such text never looks like a call or ends a
result, and a model that repeats the text makes no call.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from harness.conversation.events import TextDelta
from harness.conversation.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, extract_part_text, system, user
from harness.models.openai_format import encode_function, is_json_object, make_call_namer
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Reply, Request, ToolSpec, ignore

CALL_OPEN, CALL_CLOSE = "<call_tool>", "</call_tool>"
RESULT_TAG = "tool_result"
RESULT_OPEN, RESULT_CLOSE = f"<{RESULT_TAG}>", f"</{RESULT_TAG}>"
UNREADABLE_CALL_NAME = "call_tool"
"""Tool name given to a call in text whose own name cannot be read; no tool has this name."""

_OPENING = re.compile(rf"^{CALL_OPEN}", re.MULTILINE)
_NEXT = re.compile(rf"\s*^{CALL_OPEN}", re.MULTILINE)
_CLOSING = re.compile(rf"{CALL_CLOSE}[ \t\r]*$", re.MULTILINE)
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


def render_results(message: Message, tag: str, escape: Callable[[str], str]) -> Message:
    """Return a user message with the results of tool calls, each between an opening and a closing tag, and texts of images."""
    results = [f"<{tag}>\n{escape(result.output)}\n</{tag}>" for result in message.results]
    return user("\n".join((*results, *(escape(part.text) for part in message.parts if isinstance(part, Image)))))


def render_calls(message: Message, render_call: Callable[[ToolCall], str], escape: Callable[[str], str] = str) -> Message:
    """Return a message of the agent as plain text: its text, then its tool calls; reasoning is left out."""
    others = (part for part in message.parts if not isinstance(part, Reasoning | ToolCall | ToolResult))
    texts = (text for part in others if (text := escape(extract_part_text(part))))
    return Message(role=message.role, parts=(Text(text="\n".join([*texts, *map(render_call, message.calls)])),))


class AnswerFilter(ABC):
    """Filter that forwards a streamed answer to a listener, but leaves out tool calls written as text.

    For each received piece, the listener gets a piece, which may be empty, so that it notices progress.
    """

    def __init__(self, listen: Callable[[TextDelta], None]) -> None:
        self._listen = listen
        self.reset()

    def __call__(self, delta: TextDelta) -> None:
        """Receive the next piece of an answer; a piece marked `anew` begins a new answer."""
        if delta.part == "reasoning":
            self._listen(delta)
            return
        if delta.anew:
            self.reset()
        self._listen(replace(delta, text=self.take(delta.text)))

    @abstractmethod
    def reset(self) -> None:
        """Discard everything received so far, because the model begins a new answer."""

    @abstractmethod
    def take(self, text: str) -> str:
        """Take the next piece of an answer, and return the text that can now be forwarded to the listener."""


class ParsedAnswer(NamedTuple):
    """Text and tool calls that were read from a model's answer."""

    text: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments of each tool call in the answer, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCallModel(WrappedModel):
    """Model that writes its tool calls as text, so that the wrapped model needs no native tool calls.

    Thread-safe if the wrapped model is.
    """

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request and read the tool calls from the text of the answer.

        The listener receives reasoning and the text before the first call.

        Raises:
            ModelError: The wrapped model failed.
        """
        sent_request = Request(
            messages=render_messages(request.messages, request.tools), max_output_tokens=request.max_output_tokens
        )
        if not request.tools:
            return self.model.reply(sent_request, listen)
        call_filter = _CallFilter(listen)
        reply = self.model.reply(sent_request, call_filter)
        call_filter.flush()
        return replace(reply, message=_parse_reply(reply.message, request.messages))


def render_messages(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """Return a conversation in which tool descriptions, calls and results are written as text.

    Consecutive tool results and the user messages after them become one message.
    """
    rendered_messages: list[Message] = []
    follows_results = False
    for message in messages:
        text_message = _render_message(message)
        if follows_results and message.role in {"tool", "user"}:
            rendered_messages[-1] = user(f"{rendered_messages[-1].text}\n{text_message.text}")
        else:
            rendered_messages.append(text_message)
        follows_results = message.role == "tool" or (follows_results and message.role == "user")
    return tuple(_add_tool_section(rendered_messages, tools) if tools else rendered_messages)


def _add_tool_section(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[Message]:
    """Add a section on tools to the first part of the system prompt, which never changes in a session."""
    section = describe_tools(tools)
    if not messages or messages[0].role != "system":
        return [system(section), *messages]
    stable, *changing = messages[0].parts
    return [Message(role="system", parts=(Text(text=f"{extract_part_text(stable)}\n\n{section}"), *changing)), *messages[1:]]


def describe_tools(tools: Sequence[ToolSpec]) -> str:
    """Return the section of the system prompt that describes the tools and how to write a tool call."""
    return INSTRUCTIONS.format(
        tools="\n".join(json.dumps(encode_function(tool)) for tool in tools),
        example=f"{CALL_OPEN}\n{json.dumps(EXAMPLE)}\n{CALL_CLOSE}",
        result_open=RESULT_OPEN,
        result_close=RESULT_CLOSE,
    )


def _render_message(message: Message) -> Message:
    if message.role == "tool":
        return render_results(message, RESULT_TAG, escape_tags)
    if message.role == "system":
        return Message(role="system", parts=tuple(Text(text=escape_tags(extract_part_text(part))) for part in message.parts))
    return render_calls(message, render_call, escape_tags)


def escape_tags(text: str) -> str:
    """Escape every tag of the tool-call protocol in a text, so that the text cannot look like a call."""
    return _TAG.sub("&lt;", text)


def render_call(call: ToolCall) -> str:
    """Return a tool call as text between the tags `<call_tool>` and `</call_tool>`.

    Arguments that are not a JSON object are written as a JSON string, from which `parse_answer` recovers the same text.
    """
    arguments = call.arguments_json
    if not is_json_object(arguments) or arguments != arguments.strip():
        arguments = json.dumps(arguments)
    return f'{CALL_OPEN}\n{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}\n{CALL_CLOSE}'


def parse_answer(text: str) -> ParsedAnswer:
    """Return the text and the tool calls of an answer; an unfinished call extends to the end of the answer."""
    opening = _OPENING.search(text)
    if opening is None:
        return ParsedAnswer(text, ())
    return ParsedAnswer(text[: opening.start()].rstrip(), tuple(map(_parse_call, _find_blocks(text))))


def _find_blocks(text: str) -> Iterator[str]:
    opening = _OPENING.search(text)
    while opening is not None:
        closing = _CLOSING.search(text, opening.end())
        yield text[opening.end() : closing.start() if closing else len(text)].strip()
        if closing is None:
            return
        opening = _NEXT.match(text, closing.end())


def _parse_call(block: str) -> tuple[str, str]:
    """Return the tool name and the arguments in the text between the tags of a tool call.

    Text that `render_call` wrote gives back exactly the arguments of the call.
    """
    head = _HEAD.match(block)
    if head is not None and block.endswith("}") and is_json_object(raw := block[head.end() : -1].strip()):
        return str(json.loads(head[1])), raw
    try:
        block_value: Any = json.loads(block)
    except (ValueError, RecursionError):
        block_value = None
    if not isinstance(block_value, dict) or not isinstance(block_value.get("name"), str):
        name = _NAME.search(block)
        return (name[1] if name else UNREADABLE_CALL_NAME), block
    arguments = block_value.get("arguments", {})
    return block_value["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)


def _parse_reply(message: Message, conversation: Sequence[Message]) -> Message:
    answer, name_call = parse_answer(message.text), make_call_namer(conversation)
    reasoning = tuple(part for part in message.parts if isinstance(part, Reasoning))
    text = (Text(text=answer.text),) if answer.text or not answer.calls else ()
    calls = (ToolCall(call_id=name_call(""), name=name, arguments_json=arguments) for name, arguments in answer.calls)
    return Message(role="assistant", parts=(*reasoning, *text, *calls))


class _CallFilter(AnswerFilter):
    """Filter that forwards the text of an answer up to its first tool call.

    The beginning of a line is held back as long as it may turn out to be `<call_tool>`.
    """

    def reset(self) -> None:
        self._buffer, self._mid_line, self._finished = "", False, False

    def take(self, text: str) -> str:
        """Take the next piece of an answer, and return the new text that is certainly not part of a tool call."""
        return "".join(self._take_line(piece) for piece in text.splitlines(keepends=True))

    def _take_line(self, piece: str) -> str:
        if self._finished:
            return ""
        self._buffer += piece
        self._finished = not self._mid_line and self._buffer.startswith(CALL_OPEN)
        if self._finished or (not self._mid_line and CALL_OPEN.startswith(self._buffer)):
            return ""
        return self._release_buffer()

    def _release_buffer(self) -> str:
        text, self._buffer = self._buffer, ""
        self._mid_line = not text.endswith("\n")
        return text

    def flush(self) -> None:
        """At the end of the answer, forward the text that was held back as a possible tool call."""
        if self._buffer and not self._finished:
            self._listen(TextDelta(text=self._release_buffer()))
