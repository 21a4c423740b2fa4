"""What of the messages a summarizer is shown, where a policy does not show it all. See `harness.plan.Excerpt`."""

from bisect import bisect_right
from dataclasses import dataclass, replace

from harness import transcript
from harness.messages import Message, ToolResult, user
from harness.tokens import Counter


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestFromUser:
    """The newest messages that hold no more than so many tokens, from the first message of the user among them.

    Where the message before them is the user's, its last lines are shown as far as there is room. Where no message of the user
    is among the newest, nothing is shown.
    """

    tokens: int
    counter: Counter

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """See `harness.plan.Excerpt`."""
        start, room = len(messages), self.tokens
        while start and (held := self.counter.count(messages[start - 1])) <= room:
            start, room = start - 1, room - held
        if start and messages[start - 1].role == "user" and (end := self._take_last_lines(messages[start - 1], room)):
            return (user(end), *messages[start:])
        while start < len(messages) and messages[start].role != "user":
            start += 1
        return messages[start:]

    def _take_last_lines(self, message: Message, room: int) -> str:
        """The last lines of a text that hold no more than so many tokens as a message."""
        lines = transcript.extract_text(message).split("\n")
        ends = ["\n".join(lines[len(lines) - count :]) for count in range(1, len(lines) + 1)]
        fitting = bisect_right(ends, room, key=lambda end: self.counter.count(user(end)))
        return ends[fitting - 1] if fitting else ""


CUT_MARK = "[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortResults:
    """Shows all messages, of each tool result no more than so many characters, the mark of the cut counted in."""

    characters: int

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """See `harness.plan.Excerpt`."""
        return tuple(self._shorten_message(message) if message.role == "tool" else message for message in messages)

    def _shorten_message(self, message: Message) -> Message:
        parts = (
            replace(part, output=self._cut_text(part.output)) if isinstance(part, ToolResult) else part for part in message.parts
        )
        return replace(message, parts=tuple(parts))

    def _cut_text(self, text: str) -> str:
        if len(text) <= self.characters:
            return text
        return f"{text[: max(0, self.characters - len(CUT_MARK))]}{CUT_MARK}"[: self.characters]
