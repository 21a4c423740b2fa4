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
from harness.messages import Message, ToolCall, extract_part_text
from harness.models.scripted import patterns
from harness.task import Fact, Script

MAX_CACHED_MESSAGES = 2_000
"""More than a window holds; a longer conversation is read as it grows and does not come back here."""
LISTING_LINE = re.compile(r"^(?:file|dir|link|other)  (\S+)", re.MULTILINE)
"""A line of `list_directory`."""


class Receipt(NamedTuple):
    """A call that was answered: on what, and whether it ended well."""

    tool: str
    key: str
    succeeded: bool


SUCCESS_OUTCOMES = frozenset({"ok", "exit code 0"})


@dataclass(frozen=True, slots=True)
class MessageReading:
    """What one message shows, whatever stands around it."""

    facts: tuple[patterns.FactMatch, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    output: str | None = None
    """Of an answered call; None where only a summary tells of it, so that a failure is not known by its output."""
    listed_paths: frozenset[str] = frozenset()
    named_steps: frozenset[int] = frozenset()
    """Indexes of the steps that a text or an output tells of as done."""
    highest_counts: tuple[tuple[int, int], ...] = ()
    """The highest number that a text or an output tells, by counter."""
    characters: int = 0
    """Of its text."""


class Failure(NamedTuple):
    """The newest receipt of a step that ended badly."""

    position: int
    """Position of the message."""
    output: str
    visible_count: int
    """How many are visible."""


@dataclass(slots=True)
class VisibleState:
    """The sum over all visible messages; what the model decides upon."""

    facts: dict[str, str] = field(default_factory=dict)
    """The newest visible value of each fact."""
    fact_offsets: dict[str, int] = field(default_factory=dict)
    """Where in `characters` each of these values stands."""
    characters: int = 0
    """Of all messages together."""
    fresh_offset: int = 0
    """What stands behind this character came in since anything but a look-up of facts was done."""
    look_up_keys: set[tuple[str, str]] = field(default_factory=set)
    """(tool, key) of the look-ups behind it."""
    success_positions: dict[tuple[str, str], int] = field(default_factory=dict)
    """Position of the newest receipt that ended well, by (tool, key)."""
    receipt_slots: set[patterns.ReceiptSlot] = field(default_factory=set)
    failures: dict[int, Failure] = field(default_factory=dict)
    """By index of the step."""
    done_steps: set[int] = field(default_factory=set)
    listed_paths: set[str] = field(default_factory=set)
    highest_counts: dict[int, int] = field(default_factory=dict)
    """The highest visible number of each counter."""
    call_ids: set[str] = field(default_factory=set)
    first_open_step: int = 0
    """Index of the first step that is not done; the number of steps when all are."""
    position: int = 0


class MessageReader:
    """Reads single messages with the patterns of one task; what it read before is remembered."""

    def __init__(self, facts: Sequence[Fact], script: Script) -> None:
        """Compile the patterns; nothing here holds a value."""
        self.counters = patterns.StepCounters(script.steps)
        self._facts = patterns.compile_fact_patterns(tuple(facts))
        self._done_patterns = patterns.compile_done_patterns(script.steps)
        self.read = lru_cache(maxsize=MAX_CACHED_MESSAGES)(self._read)
        """What a message shows, given the call that it answers if it is a tool's and the call is visible."""
        self.match_receipt = lru_cache(maxsize=MAX_CACHED_MESSAGES)(patterns.ReceiptPatterns(script.steps).match_receipt)
        """See `ReceiptPatterns.match_receipt`."""

    def _read(self, message: Message, call: ToolCall | None) -> MessageReading:
        text = extract_searchable_text(message)
        facts = self._facts.find_newest(text)
        if message.calls or (message.role == "tool" and call is None):
            return MessageReading(facts, characters=len(text))
        listed, output, report, done_patterns = frozenset[str](), None, text, self._done_patterns
        if call is None:
            receipts = tuple(_find_receipts(text))
        else:
            result = message.results[0]
            report = output = result.output
            succeeded = transcript.read_outcome(result) in SUCCESS_OUTCOMES
            receipts = (Receipt(call.name, transcript.find_key_argument(call), succeeded),)
            done_patterns = [pattern for pattern in done_patterns if pattern.in_output]
            if succeeded and call.name == "list_directory":
                listed = _parse_listing(receipts[0].key, output)
        named = frozenset(pattern.step for pattern in done_patterns if pattern.matches(report))
        counted = tuple(self.counters.read(report).items())
        return MessageReading(facts, receipts, output, listed, named, counted, len(text))


@lru_cache(maxsize=patterns.MAX_CACHED_TASKS)
def build_message_reader(facts: tuple[Fact, ...], script: Script) -> MessageReader:
    """The reader of a task's messages: one object for all its sessions in this process."""
    return MessageReader(facts, script)


class ConversationReader:
    """Reads conversations with the patterns of one task. Not thread-safe: a sight is good until the next one is asked for."""

    def __init__(self, facts: Sequence[Fact], script: Script) -> None:
        """Look at what the steps of the script leave behind; nothing here holds a value."""
        self._steps = script.steps
        self._message_reader = build_message_reader(tuple(facts), script)
        self._by_path: dict[str, list[int]] = {}
        for index, step in enumerate(script.steps):
            for path in step.done.listed_paths:
                self._by_path.setdefault(path, []).append(index)
        self._look_up_keys = {patterns.build_call_key(call) for fact in facts for call in patterns.list_look_ups(fact)}
        self._last: tuple[tuple[Message, ...], VisibleState] | None = None

    def read(self, messages: tuple[Message, ...]) -> VisibleState:
        """Everything that these messages show."""
        last, self._last = self._last, None
        seen, visible = last if last is not None and messages[: len(last[0])] == last[0] else ((), VisibleState())
        for message, reading in zip(messages[len(seen) :], self.read_each(messages, len(seen)), strict=True):
            self._add(visible, reading)
            if message.role == "assistant":
                self._add_calls(visible, message)
            visible.call_ids.update(call.call_id for call in message.calls)
        self._last = (messages, visible)
        return visible

    def read_each(self, messages: tuple[Message, ...], first: int = 0) -> Iterator[MessageReading]:
        """What each message from index `first` on shows."""
        calls: dict[str, ToolCall] = {}
        for index in range(_find_caller_index(messages, first), len(messages)):
            message = messages[index]
            calls.update((call.call_id, call) for call in message.calls)
            if index >= first:
                call = calls.get(message.results[0].call_id) if message.role == "tool" else None
                yield self._message_reader.read(message, call)

    def build_state(self, reading: MessageReading) -> VisibleState:
        """What would be seen if one message were all."""
        visible = VisibleState()
        self._add(visible, reading)
        return visible

    def _add(self, visible: VisibleState, reading: MessageReading) -> None:
        visible.position += 1
        for name, value, at in reading.facts:
            visible.facts[name], visible.fact_offsets[name] = value, visible.characters + at
        visible.characters += reading.characters
        visible.done_steps |= reading.named_steps
        self._add_listed(visible, reading.listed_paths - visible.listed_paths)
        for counter, number in reading.highest_counts:
            before = visible.highest_counts.get(counter, -1)
            if number > before:
                visible.highest_counts[counter] = number
                visible.done_steps.update(self._message_reader.counters.list_covered_steps(counter, number, before))
        for receipt in reading.receipts:
            self._add_receipt(visible, receipt, reading.output)
        while visible.first_open_step in visible.done_steps:
            visible.first_open_step += 1

    def _add_listed(self, visible: VisibleState, new: frozenset[str]) -> None:
        visible.listed_paths |= new
        touched = {index for path in new for index in self._by_path.get(path, ())}
        listed = visible.listed_paths
        visible.done_steps.update(index for index in touched if listed.issuperset(self._steps[index].done.listed_paths))

    def _add_calls(self, visible: VisibleState, message: Message) -> None:
        keys = {(call.name, transcript.find_key_argument(call)) for call in message.calls}
        if keys and keys <= self._look_up_keys:
            visible.look_up_keys |= keys
        else:
            visible.fresh_offset = visible.characters
            visible.look_up_keys.clear()

    def _add_receipt(self, visible: VisibleState, receipt: Receipt, output: str | None) -> None:
        slots = self._message_reader.match_receipt(receipt.tool, receipt.key)
        if not receipt.succeeded:
            for index, _ in slots if output is not None else ():
                times = visible.failures[index].visible_count + 1 if index in visible.failures else 1
                visible.failures[index] = Failure(visible.position, output or "", times)
            return
        visible.success_positions[receipt.tool, receipt.key] = visible.position
        visible.receipt_slots.update(slots)
        for index, _ in slots:
            wanted = range(len(self._steps[index].done.receipts))
            if all((index, slot) in visible.receipt_slots for slot in wanted):
                visible.done_steps.add(index)


def _find_caller_index(messages: tuple[Message, ...], index: int) -> int:
    """Index of the last message before `index` that is no tool message: its calls may still be answered."""
    index = min(index, len(messages))
    while index > 0 and messages[index - 1].role == "tool":
        index -= 1
    return max(0, index - 1)


def extract_searchable_text(message: Message) -> str:
    """The text of a message in which facts are looked for."""
    return "\n".join(_join_arguments(part) if isinstance(part, ToolCall) else extract_part_text(part) for part in message.parts)


def _join_arguments(call: ToolCall) -> str:
    """The arguments of a call as the text that they stand for, not as escaped JSON."""
    return "\n".join(value for value in transcript.parse_arguments(call).values() if isinstance(value, str))


def _find_receipts(text: str) -> list[Receipt]:
    return [Receipt(tool, key, outcome in SUCCESS_OUTCOMES) for tool, key, outcome in transcript.RECEIPT.findall(text)]


def _parse_listing(folder: str, text: str) -> frozenset[str]:
    prefix = "" if folder in {".", "", "/workspace"} else folder.removeprefix("./").rstrip("/") + "/"
    return frozenset(prefix + name for name in LISTING_LINE.findall(text))
