"""A conversation as a list of events, each cut to a length: what the summarizer of OpenHands reads.

An event is a message, one call, or one result. The first call of an answer carries the text of the answer.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from harness import transcript
from harness.messages import Message, Part, Reasoning, Text, ToolCall, user
from harness.plan import SummaryRequest


class Event(NamedTuple):
    """One event as a summarizer is told of it."""

    kind: Literal["message", "call", "result"]
    who: str
    """A role, or the name of the tool."""
    text: str
    """What was said, thought, or came back."""
    arguments: str = ""
    """Of a call; empty where they are not told."""

    def line(self) -> str:
        """The event in words."""
        if self.kind == "message":
            return f"{self.who} says: {self.text}"
        if self.kind == "result":
            return f"{self.who} answered: {self.text}"
        return f"assistant thinks: {self.text}\nassistant calls {self.who} {self.arguments}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """Named sections over a list of events; the answer goes into view as it is.

    Source of the cuts: openhands-sdk 1.58.0 `event/`, V0 `memory/condenser`.
    """

    titles: tuple[str, ...]
    """Of the sections, in order."""
    characters: int | None
    """Longest text of an event that is told whole; of a longer one its beginning is; None = all is told."""
    middle_out: bool = False
    """Whether of a longer text beginning and end are told, half each."""
    with_arguments: bool = False
    """Whether the arguments of calls are told."""

    def prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message with the sections, a former summary that is told apart, and the events."""
        titles = "\n".join(f"{title}:" for title in self.titles)
        former = f"\n\n<PREVIOUS SUMMARY>\n{self._cut(request.previous_summary)}\n</PREVIOUS SUMMARY>"
        events = "\n".join(f"<EVENT>\n{event.line()}\n</EVENT>" for event in self.events(request.to_summarize))
        asked = (
            "You keep the memory of a coding agent. Bring it up to date with the events below, so that the agent can go on "
            f"without them. Write under these headings, and leave out those for which there is nothing:\n\n{titles}"
        )
        return (user(f"{asked}{former if request.previous_summary else ''}\n\n{events}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The answer."""
        return text.strip()

    def events(self, messages: Sequence[Message]) -> tuple[Event, ...]:
        """What is told of some messages, in order."""
        return tuple(event for message in messages for event in self._events(message))

    def _events(self, message: Message) -> Iterator[Event]:
        if message.role == "tool":
            yield from (Event("result", result.name, self._cut(result.output)) for result in message.results)
        elif not message.calls:
            yield Event("message", message.role, self._cut(transcript.said(message), mark_inside=True))
        else:
            thought = self._cut(transcript.said(message))
            for index, call in enumerate(message.calls):
                yield Event("call", call.name, "" if index else thought, self._arguments(call))

    def _arguments(self, call: ToolCall) -> str:
        return json.dumps(dict(transcript.arguments(call)), ensure_ascii=False) if self.with_arguments else ""

    def _cut(self, text: str, *, mark_inside: bool = False) -> str:
        """Of a text that is too long, the beginning and three dots; of what a person says the dots are counted in."""
        if self.characters is None or len(text) <= self.characters:
            return text
        if self.middle_out:
            half = self.characters // 2
            return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[len(text) - half :]}"
        return text[: max(0, self.characters - 3 if mark_inside else self.characters)] + "..."


CUT = "[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShorterEvents:
    """Of events longer than a share of the longest one only both ends, that share again smaller in each attempt.

    See `harness.plan.Shorter`. Arguments of calls stay as they are.
    """

    characters: int | None
    """Longest text of an event that is told whole anyway; None = any."""
    share: float
    """Of the length that the attempt before allowed, above 0 and below 1."""
    attempts: int
    """Then there is nothing more to leave out."""

    def of(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """The messages with their texts cut."""
        if attempt > self.attempts:
            return ()
        longest = max(len(text) for message in messages for text in _texts(message))
        limit = longest if self.characters is None else min(longest, self.characters)
        for _ in range(attempt):
            limit = int(limit * self.share)
        return tuple(_ends(message, limit) for message in messages)


def _texts(message: Message) -> tuple[str, ...]:
    if message.role == "tool":
        return tuple(result.output for result in message.results)
    return (transcript.said(message),)


def _ends(message: Message, limit: int) -> Message:
    """The message with both ends of its text, the mark between them counted in."""
    if all(len(text) <= limit for text in _texts(message)):
        return message
    if message.role == "tool":
        parts = tuple(replace(result, output=_both(result.output, limit)) for result in message.results)
        return replace(message, parts=parts)
    calls: tuple[Part, ...] = tuple(part for part in message.parts if isinstance(part, ToolCall | Reasoning))
    return replace(message, parts=(Text(text=_both(transcript.said(message), limit)), *calls))


def _both(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    room = max(0, limit - len(CUT))
    return f"{text[: room - room // 2]}{CUT}{text[len(text) - room // 2 :]}"[:limit]
