"""What can be read out of visible text: facts, receipts, listings, and which steps they show to be done.

Everything is matched message by message and remembered under the message's content, so a growing conversation is read once;
and the sum over a conversation is extended when the next one begins with the same messages. Both are caches of pure
functions: without them every answer is the same. A tool result is read together with the call that it answers, and only if
that call is visible too. Receipts and tales of steps inside tool output are not believed: a file may hold anything.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from harness import transcript
from harness.messages import Message, ToolCall, ToolResult, part_text
from harness.models.scripted.patterns import (
    REMEMBERED_TASKS,
    Counters,
    Found,
    ReceiptPatterns,
    Sign,
    call_key,
    fact_patterns,
    look_ups,
)
from harness.task import Fact, Script, Step

REMEMBERED_MESSAGES = 2_000
"""More than a window holds; a longer conversation is read as it grows and does not come back here."""
LISTED = re.compile(r"^(?:file|dir|link|other)  (\S+)", re.MULTILINE)
"""A line of `list_directory`."""


class Receipt(NamedTuple):
    """A call that was answered: on what, and whether it ended well."""

    tool: str
    key: str
    well: bool


ENDED_WELL = frozenset({"ok", "exit code 0"})


@dataclass(frozen=True, slots=True)
class MessageReading:
    """What one message shows, whatever stands around it."""

    facts: tuple[Found, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    output: str | None = None
    """Of an answered call; None where only a summary tells of it, so that a failure is not known by its output."""
    listed: frozenset[str] = frozenset()
    named: frozenset[int] = frozenset()
    """Indexes of the steps that a text or an output tells of as done."""
    counted: tuple[tuple[int, int], ...] = ()
    """The highest number that a text or an output tells, by counter."""
    characters: int = 0
    """Of its text."""


class Failure(NamedTuple):
    """The newest receipt of a step that ended badly."""

    at: int
    """Position of the message."""
    output: str
    times: int
    """How many are visible."""


@dataclass(slots=True)
class Sight:
    """The sum over all visible messages; what the model decides upon."""

    facts: dict[str, str] = field(default_factory=dict)
    """The newest visible value of each fact."""
    places: dict[str, int] = field(default_factory=dict)
    """Where in `characters` each of these values stands."""
    characters: int = 0
    """Of all messages together."""
    fresh_from: int = 0
    """What stands behind this character came in since anything but a look-up of facts was done."""
    looked_up: set[tuple[str, str]] = field(default_factory=set)
    """(tool, key) of the look-ups behind it."""
    well: dict[tuple[str, str], int] = field(default_factory=dict)
    """Position of the newest receipt that ended well, by (tool, key)."""
    signs: set[Sign] = field(default_factory=set)
    failures: dict[int, Failure] = field(default_factory=dict)
    """By index of the step."""
    done: set[int] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    counted: dict[int, int] = field(default_factory=dict)
    """The highest visible number of each counter."""
    call_ids: set[str] = field(default_factory=set)
    first_open: int = 0
    """Index of the first step that is not done; the number of steps when all are."""
    position: int = 0


class MessageReader:
    """Reads single messages with the patterns of one task; what it read before is remembered."""

    def __init__(self, facts: Sequence[Fact], script: Script) -> None:
        """Compile the patterns; nothing here holds a value."""
        self.counters = Counters(script.steps)
        self._facts = fact_patterns(tuple(facts))
        self._tales = [_Tale.of(index, step) for index, step in enumerate(script.steps) if step.done.named]
        self.read = lru_cache(maxsize=REMEMBERED_MESSAGES)(self._read)
        """What a message shows, given the call that it answers if it is a tool's and the call is visible."""
        self.signs = lru_cache(maxsize=REMEMBERED_MESSAGES)(ReceiptPatterns(script.steps).signs)
        """See `ReceiptPatterns.signs`."""

    def _read(self, message: Message, call: ToolCall | None) -> MessageReading:
        text = readable(message)
        facts = self._facts.newest(text)
        if message.role == "tool":
            if call is None:
                return MessageReading(facts, characters=len(text))
            return self._read_result(facts, call, message.results[0], len(text))
        if message.calls:
            return MessageReading(facts, characters=len(text))
        named = frozenset(tale.step for tale in self._tales if tale.told_in(text))
        counted = tuple(self.counters.read(text).items())
        receipts = tuple(_told_receipts(text))
        return MessageReading(facts, receipts, named=named, counted=counted, characters=len(text))

    def _read_result(self, facts: tuple[Found, ...], call: ToolCall, result: ToolResult, characters: int) -> MessageReading:
        receipt = Receipt(call.name, transcript.key_argument(call), transcript.outcome(result) in ENDED_WELL)
        listed = _listed(receipt.key, result.output) if call.name == "list_directory" and receipt.well else frozenset()
        told = (tale for tale in self._tales if tale.in_output)
        named = frozenset(tale.step for tale in told if tale.told_in(result.output))
        counted = tuple(self.counters.read(result.output).items())
        return MessageReading(facts, (receipt,), result.output, listed, named, counted, characters)


@lru_cache(maxsize=REMEMBERED_TASKS)
def message_reader(facts: tuple[Fact, ...], script: Script) -> MessageReader:
    """The reader of a task's messages: one object for all its sessions in this process."""
    return MessageReader(facts, script)


class Reader:
    """Reads conversations with the patterns of one task. Not thread-safe: a sight is good until the next one is asked for."""

    def __init__(self, facts: Sequence[Fact], script: Script) -> None:
        """Look at what the steps of the script leave behind; nothing here holds a value."""
        self._steps = script.steps
        self._messages = message_reader(tuple(facts), script)
        self._by_path: dict[str, list[int]] = {}
        for index, step in enumerate(script.steps):
            for path in step.done.listed:
                self._by_path.setdefault(path, []).append(index)
        self._look_ups = {call_key(call) for fact in facts for call in look_ups(fact)}
        self._last: tuple[tuple[Message, ...], Sight] | None = None

    def sight(self, messages: tuple[Message, ...]) -> Sight:
        """Everything that these messages show."""
        last, self._last = self._last, None
        seen, sight = last if last is not None and messages[: len(last[0])] == last[0] else ((), Sight())
        for message, reading in zip(messages[len(seen) :], self.readings(messages, len(seen)), strict=True):
            self._add(sight, reading)
            if message.role == "assistant":
                self._add_act(sight, message)
            sight.call_ids.update(call.call_id for call in message.calls)
        self._last = (messages, sight)
        return sight

    def readings(self, messages: tuple[Message, ...], first: int = 0) -> Iterator[MessageReading]:
        """What each message from index `first` on shows."""
        calls: dict[str, ToolCall] = {}
        for index in range(_newest_speaker(messages, first), len(messages)):
            message = messages[index]
            calls.update((call.call_id, call) for call in message.calls)
            if index >= first:
                yield self._messages.read(message, calls.get(message.results[0].call_id) if message.role == "tool" else None)

    def alone(self, reading: MessageReading) -> Sight:
        """What would be seen if one message were all."""
        sight = Sight()
        self._add(sight, reading)
        return sight

    def _add(self, sight: Sight, reading: MessageReading) -> None:
        sight.position += 1
        for name, value, at in reading.facts:
            sight.facts[name], sight.places[name] = value, sight.characters + at
        sight.characters += reading.characters
        sight.done |= reading.named
        self._add_listed(sight, reading.listed - sight.listed)
        for counter, number in reading.counted:
            before = sight.counted.get(counter, -1)
            if number > before:
                sight.counted[counter] = number
                sight.done.update(self._messages.counters.covered(counter, number, before))
        for receipt in reading.receipts:
            self._add_receipt(sight, receipt, reading.output)
        while sight.first_open in sight.done:
            sight.first_open += 1

    def _add_listed(self, sight: Sight, new: frozenset[str]) -> None:
        sight.listed |= new
        touched = {index for path in new for index in self._by_path.get(path, ())}
        sight.done.update(index for index in touched if sight.listed.issuperset(self._steps[index].done.listed))

    def _add_act(self, sight: Sight, message: Message) -> None:
        made = {(call.name, transcript.key_argument(call)) for call in message.calls}
        if made and made <= self._look_ups:
            sight.looked_up |= made
        else:
            sight.fresh_from = sight.characters
            sight.looked_up.clear()

    def _add_receipt(self, sight: Sight, receipt: Receipt, output: str | None) -> None:
        signs = self._messages.signs(receipt.tool, receipt.key)
        if not receipt.well:
            for index, _ in signs if output is not None else ():
                times = sight.failures[index].times + 1 if index in sight.failures else 1
                sight.failures[index] = Failure(sight.position, output or "", times)
            return
        sight.well[receipt.tool, receipt.key] = sight.position
        sight.signs.update(signs)
        for index, _ in signs:
            wanted = range(len(self._steps[index].done.receipts))
            if all((index, slot) in sight.signs for slot in wanted):
                sight.done.add(index)


class _Tale(NamedTuple):
    """How a text tells that a step is done."""

    step: int
    pattern: re.Pattern[str]
    about: str
    in_output: bool

    @classmethod
    def of(cls, index: int, step: Step) -> "_Tale":
        return cls(index, re.compile(step.done.named), step.done.about, step.done.in_output)

    def told_in(self, text: str) -> bool:
        """Whether a line of the text tells of the step as done."""
        if self.about not in text:
            return False
        return any(self.pattern.search(line) for line in text.splitlines() if self.about in line)


def _newest_speaker(messages: tuple[Message, ...], index: int) -> int:
    """Index of the last message before `index` that is no tool message: its calls may still be answered."""
    index = min(index, len(messages))
    while index > 0 and messages[index - 1].role == "tool":
        index -= 1
    return max(0, index - 1)


def readable(message: Message) -> str:
    """The text of a message in which facts are looked for."""
    return "\n".join(_written(part) if isinstance(part, ToolCall) else part_text(part) for part in message.parts)


def _written(call: ToolCall) -> str:
    """The arguments of a call as the text that they stand for, not as escaped JSON."""
    return "\n".join(value for value in transcript.arguments(call).values() if isinstance(value, str))


def _told_receipts(text: str) -> list[Receipt]:
    return [Receipt(tool, key, outcome in ENDED_WELL) for tool, key, outcome in transcript.RECEIPT.findall(text)]


def _listed(folder: str, text: str) -> frozenset[str]:
    prefix = "" if folder in {".", "", "/workspace"} else folder.removeprefix("./").rstrip("/") + "/"
    return frozenset(prefix + name for name in LISTED.findall(text))
