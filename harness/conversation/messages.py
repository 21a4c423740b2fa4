"""Messages that models read and write, and the parts of messages, as immutable values.

A tool call and its result are parts of two messages, in the order that every provider requires. The start and end of a step (one
model call) are no parts of a message; the event `StepFinished` records them. The SQL view `parts` of a journal lists both.
`harness.conversation.view.compute_tool_states` computes the state of a tool call from the log.
"""

from dataclasses import dataclass, replace
from operator import is_
from typing import Literal, TypeAlias

from harness.text import replace_surrogates

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Part of a message that is plain text; a message of any role may have it."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """Reasoning that a provider returned separately from the answer.

    It is logged and displayed, but never sent to a model.
    """

    text: str
    kind: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Part of a message in which the model calls a tool."""

    call_id: str
    name: str
    arguments_json: str
    """Arguments of the tool call as the model wrote them, which is a JSON object or invalid text that the tool will refuse."""
    kind: Literal["tool-call"] = "tool-call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """Result of one tool call.

    The output is sent to the model, even if the status is `error` or `interrupted`.
    """

    call_id: str
    name: str
    output: str
    status: Literal["completed", "error", "interrupted"] = "completed"
    clipped_characters: int = 0
    """Number of characters that were cut from the tool's output before it was logged; 0 if the output is complete."""
    clipped_bytes: int = 0
    """Number of UTF-8 bytes of these characters; 0 if the output is complete, or was logged by version 0.2 or older.

    Digests of messages leave this number out.
    """
    kind: Literal["tool-result"] = "tool-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """File that the user attached to a message; the model reads its path and content."""

    path: str
    content: str
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtask:
    """Prompt for a sub-agent, which has a context of its own, and the sub-agent's short answer."""

    prompt: str
    answer: str
    kind: Literal["subtask"] = "subtask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Image that belongs to a message or, in a tool message, to the result before it.

    Token counters and scripted models add `tokens`. Pixels are not stored. A real model that can see gets those of the drawing;
    every other reader, such as a scripted model or a summarizer, reads the text.
    """

    text: str
    """Text in place of the image, such as `(image shots/front.png)`."""
    tokens: int
    """Number of tokens that a provider charges for the image, at least 0."""
    drawing: str = ""
    """Image as SVG, as far as `harness.conversation.drawings` reads it; empty if the content of the image is not known."""
    kind: Literal["image"] = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMarker:
    """Part of a message that marks where a compaction has removed earlier messages from the conversation."""

    text: str
    round: int
    kind: Literal["compaction"] = "compaction"


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | File | Subtask | Image | CompactionMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Message of a conversation, which has a role and at least one part, such as a text or a tool call."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Text of the message without tool calls and results, which is its plain text parts joined by newlines."""
        return "\n".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def reasoning(self) -> str:
        """Reasoning of the model in the message, with its parts joined without a separator."""
        return "".join([part.text for part in self.parts if isinstance(part, Reasoning)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Tool calls of the message, in the order in which the model wrote them."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Tool results in the message, in the order of its parts."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


def system(text: str, session_context: str = "") -> Message:
    """Return a system message: the text that all sessions share, followed by the text of this session."""
    return Message(role="system", parts=(Text(text=text), *((Text(text=session_context),) if session_context else ())))


def user(text: str, *files: File) -> Message:
    """Return a message of the user with the given text, followed by the files that the user attached."""
    return Message(role="user", parts=(Text(text=text), *files))


def assistant(text: str = "", *calls: ToolCall, reasoning: str = "") -> Message:
    """Return an assistant message with reasoning, text and tool calls.

    Empty reasoning is left out, and so is an empty text if there are calls.
    """
    reasoning_parts = (Reasoning(text=reasoning),) if reasoning else ()
    return Message(role="assistant", parts=(*reasoning_parts, *((Text(text=text),) if text or not calls else ()), *calls))


def tool(result: ToolResult, *images: Image) -> Message:
    """Return a message with the role `tool` that contains the result of one tool call, with the images that the tool showed."""
    return Message(role="tool", parts=(result, *images))


def sanitize_message(message: Message) -> Message:
    """Return a message with every lone surrogate replaced by `?`; a message without any is returned as it is.

    Models and tools may write lone surrogates. UTF-8 cannot encode them, so no provider, file or hash accepts them.
    """
    parts = tuple([_sanitize_part(part) for part in message.parts])
    return message if all(map(is_, parts, message.parts)) else replace(message, parts=parts)


def _sanitize_part(part: Part) -> Part:
    mended: dict[str, str] = {}
    for name in part.__dataclass_fields__:
        value = getattr(part, name)
        if isinstance(value, str) and not value.isascii() and (text := replace_surrogates(value)) is not value:
            mended[name] = text
    return replace(part, **mended) if mended else part  # type: ignore[arg-type]


PART_TEXTS: dict[str, tuple[tuple[str, ...], str]] = {
    "text": (("text",), ""),
    "reasoning": (("text",), ""),
    "compaction": (("text",), ""),
    "tool-call": (("name", "arguments_json"), " "),
    "tool-result": (("output",), ""),
    "file": (("path", "content"), "\n"),
    "subtask": (("prompt", "answer"), "\n"),
    "image": (("text",), ""),
}
"""Fields that a model reads of each kind of message part, such as `file`, and the separator with which they are joined."""


def count_image_tokens(message: Message) -> int:
    """Return the number of tokens of the images in a message."""
    parts = message.parts
    if len(parts) == 1 and parts[0].kind != "image":  # nearly every message
        return 0
    return sum([part.tokens for part in parts if isinstance(part, Image)])


def extract_part_text(part: Part) -> str:
    """Return all text of a message part that a model reads, as one string; used to count tokens and to search."""
    names, separator = PART_TEXTS[part.kind]
    if not separator:
        return getattr(part, names[0])  # type: ignore[no-any-return]
    return separator.join([getattr(part, name) for name in names])
