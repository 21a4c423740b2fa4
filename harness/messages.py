"""A message and its parts: what a model reads and writes, as frozen values without any I/O.

The parts follow S3.6. What S3.6 stores as step-start and step-finish parts are facts about a step, not text that a model
reads: here they are the event `StepFinished`, and the seeds' `parts` table is a SQL view over both. A tool call and
its result are two parts in two messages, in the order in which every provider wants them (S1.1); the state machine of
S3.7 is read off the log by `harness.view.compute_tool_states`.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.text import replace_surrogates

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Plain text of any role."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """Thinking that a provider returned apart from the answer: logged and shown, never sent back."""

    text: str
    kind: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The model asks for a tool."""

    call_id: str
    name: str
    arguments_json: str
    """The arguments as the model wrote them: a JSON object, or broken text that the tool will refuse."""
    kind: Literal["tool-call"] = "tool-call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer to one call. `error` and `interrupted` results are text that the model may act on."""

    call_id: str
    name: str
    output: str
    status: Literal["completed", "error", "interrupted"] = "completed"
    clipped_characters: int = 0
    """Characters cut from the middle or the end before the output was logged; 0 = whole."""
    kind: Literal["tool-result"] = "tool-result"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the user attached; the model reads its path and content."""

    path: str
    content: str
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtask:
    """A question given to a sub-agent with a context of its own, and its short answer (S3.20)."""

    prompt: str
    answer: str
    kind: Literal["subtask"] = "subtask"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMarker:
    """Stands where a compaction took place; the parent of a summary in S3.3."""

    text: str
    round: int
    kind: Literal["compaction"] = "compaction"


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | File | Subtask | CompactionMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation: a role and at least one part."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All plain text parts, one after the other on lines of their own."""
        return "\n".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def reasoning(self) -> str:
        """All reasoning parts, one right after the other."""
        return "".join([part.text for part in self.parts if isinstance(part, Reasoning)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order in which they were written."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of a tool message."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])


def system(text: str, session_text: str = "") -> Message:
    """A system message of a text that is the same in every session and, behind it, what is particular to this one (S3.5)."""
    return Message(role="system", parts=(Text(text=text), *((Text(text=session_text),) if session_text else ())))


def user(text: str) -> Message:
    """A user message of one text."""
    return Message(role="user", parts=(Text(text=text),))


def assistant(text: str = "", *calls: ToolCall, reasoning: str = "") -> Message:
    """An assistant message of reasoning and a text (both left out when empty) and calls; at least an empty text."""
    thought = (Reasoning(text=reasoning),) if reasoning else ()
    return Message(role="assistant", parts=(*thought, *((Text(text=text),) if text or not calls else ()), *calls))


def tool(result: ToolResult) -> Message:
    """The tool message that answers one call."""
    return Message(role="tool", parts=(result,))


def sanitize_message(message: Message) -> Message:
    """The message with every lone surrogate replaced by `?`: text that no provider, file or hash could take.

    A model or a tool may write such text; it is mended where it enters a session. Other messages are returned as they are.
    """
    parts = tuple(_sanitize_part(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _sanitize_part(part: Part) -> Part:
    texts = {name: value for name in part.__dataclass_fields__ if isinstance(value := getattr(part, name), str)}
    broken = {name: replace_surrogates(text) for name, text in texts.items() if text != replace_surrogates(text)}
    return replace(part, **broken) if broken else part  # type: ignore[arg-type]


PART_TEXTS: dict[str, tuple[tuple[str, ...], str]] = {
    "text": (("text",), ""),
    "reasoning": (("text",), ""),
    "compaction": (("text",), ""),
    "tool-call": (("name", "arguments_json"), " "),
    "tool-result": (("output",), ""),
    "file": (("path", "content"), "\n"),
    "subtask": (("prompt", "answer"), "\n"),
}
"""By kind of part: the fields that a model reads, and the text between them."""


def extract_part_text(part: Part) -> str:
    """Return everything of a part that a model reads, as one string: what is counted, matched and searched."""
    names, separator = PART_TEXTS[part.kind]
    if not separator:
        return getattr(part, names[0])  # type: ignore[no-any-return]
    return separator.join([getattr(part, name) for name in names])
