"""Tool calls and results as plain text: the parts that the protocols of `text_calls` and `local.schema_calls` share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from harness.events import TextDelta
from harness.messages import Message, Reasoning, Text, ToolCall, ToolResult, extract_part_text, user


def render_results(message: Message, tag: str, escape: Callable[[str], str]) -> Message:
    """Return the user message that stands for tool results, each between the opening and the closing tag."""
    return user("\n".join(f"<{tag}>\n{escape(result.output)}\n</{tag}>" for result in message.results))


def render_calls(message: Message, render_call: Callable[[ToolCall], str], escape: Callable[[str], str] = str) -> Message:
    """Return a message with its texts and, below them, its calls as one text; reasoning is left out."""
    others = (part for part in message.parts if not isinstance(part, Reasoning | ToolCall | ToolResult))
    texts = (text for part in others if (text := escape(extract_part_text(part))))
    return Message(role=message.role, parts=(Text(text="\n".join([*texts, *map(render_call, message.calls)])),))


class AnswerFilter(ABC):
    """A listener that passes on the reasoning and the readable text of an answer while the answer is being written.

    For every piece it hears, it passes on a piece, if only an empty one, so that the listener notices progress.
    """

    def __init__(self, listen: Callable[[TextDelta], None]) -> None:
        """Pass on to `listen`."""
        self._listen = listen
        self.reset()

    def __call__(self, delta: TextDelta) -> None:
        """Hear the next piece; the beginning of a new answer is passed on."""
        if delta.part == "reasoning":
            self._listen(delta)
            return
        if delta.anew:
            self.reset()
        self._listen(replace(delta, text=self.take(delta.text)))

    @abstractmethod
    def reset(self) -> None:
        """Forget the answer so far."""

    @abstractmethod
    def take(self, text: str) -> str:
        """Return the readable text that is complete once this piece has come."""
