"""Readers that find what a scripted model can see in messages: facts, tool results, listings of folders, and finished steps.

A tool result is read together with its call, and only if the call is visible as well. A file may contain any text. In tool
output, records of tool calls are therefore ignored, and so are reports of finished steps that the script does not expect there.

Two caches save time and change no answer. The first holds what was read in a message, by its content. The second holds the state
after a conversation, which is extended if the next conversation begins with the same messages, and the state before the last
change, from which a conversation with a changed message is read on.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from harness.conversation import transcript
from harness.conversation.growing_sequence import find_difference, has_prefix
from harness.conversation.messages import Message, Part, Text, ToolCall, extract_part_text
from harness.models.scripted import patterns
from harness.models.scripted.profiles import EXACT, Reader
from harness.models.scripted.tolerant import TolerantStatements, compile_tolerant_statements
from harness.task import Fact, Script, Step

MAX_CACHED_MESSAGES = 2_000
"""Maximum number of messages for which the information read is cached; more than fit into a context window."""
LISTING_LINE = re.compile(r"^(?:file|dir|link|other)  (\S+)", re.MULTILINE)
"""Regular expression for a line in the output of the tool `list_directory`."""
LOOK_UP_TEXT = "I need the {} for this and no longer have it in view; looking it up."
"""Text of the agent's message that looks up a forgotten fact; the braces stand for the name of the fact."""
_LOOK_UP_ENDING = LOOK_UP_TEXT.partition("{}")[2]


class Receipt(NamedTuple):
    """Record of an answered tool call: the tool, the argument that identifies the call, and its success."""

    tool: str
    key: str
    succeeded: bool


SUCCESS_OUTCOMES = frozenset({"ok", "exit code 0"})
"""Outcomes of tool calls that count as successful."""


@dataclass(frozen=True, slots=True)
class MessageReading:
    """Information that the scripted model reads from one message, independent of the other messages."""

    facts: tuple[patterns.FactMatch, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    output: str | None = None
    """Output of an answered tool call.

    It is None for a call that a summary reports, so that no failure is recognized from the output of such a call.
    """
    listed_paths: frozenset[str] = frozenset()
    listed_folder: str | None = None
    """Path of the folder that a complete directory listing shows, `.` for the workspace; None for every other message."""
    named_steps: frozenset[int] = frozenset()
    """Indexes of the steps of the task's script that the message reports as done."""
    missing_steps: frozenset[int] = frozenset()
    """Indexes of the steps that the output of a status call reports as not done."""
    highest_counts: tuple[tuple[int, int], ...] = ()
    """Highest count of finished steps that the message states, as pairs (index of the counter, count).

    A counter is a text pattern that finds the count, e.g. in "7 of 20 files renamed".
    """
    characters: int = 0
    """Length of the message's text in characters."""


class Failure(NamedTuple):
    """Newest visible failure of a step of the task's script: one of the step's tool calls failed."""

    position: int
    """Index in the conversation of the message that shows the failure."""
    output: str
    visible_count: int
    """Number of failed tool calls of the step that the model can still see."""


@dataclass(slots=True)
class VisibleState:
    """Information in all visible messages together, from which the scripted model decides its next action."""

    facts: dict[str, str] = field(default_factory=dict)
    """Newest visible value of each fact, by name of the fact."""
    fact_offsets: dict[str, int] = field(default_factory=dict)
    """Position of each fact's newest visible value, in characters from the beginning of the conversation."""
    characters: int = 0
    """Total length of all messages of the conversation in characters."""
    fresh_offset: int = 0
    """Position in the conversation, in characters, after which the scripted agent overlooks no fact.

    It is the position after the agent's last tool calls, not counting calls that only look up facts or make notes.
    """
    look_up_keys: set[tuple[str, str]] = field(default_factory=set)
    """Tool and identifying argument of each call that looked up a fact since the agent's last call of another kind."""
    success_positions: dict[tuple[str, str], int] = field(default_factory=dict)
    """Index of the message with the newest successful tool call, by the call's tool and identifying argument."""
    receipt_slots: set[patterns.ReceiptSlot] = field(default_factory=set)
    failures: dict[int, Failure] = field(default_factory=dict)
    """Newest visible failure of each step that has failed, by index of the step."""
    done_steps: set[int] = field(default_factory=set)
    """Indexes of the steps for which a sign of their own is visible: a tool result, a listing, or a line that reports it."""
    frontier: int = -1
    """Index of the furthest step that visible tool results show as done; -1 if there is none.

    The text of a summary never counts, since its author may name a step that is not done.
    """
    missing_steps: set[int] = field(default_factory=set)
    """Indexes of the steps before the frontier that a tool result has shown as not done, and that were not done since then."""
    listed_paths: set[str] = field(default_factory=set)
    call_ids: set[str] = field(default_factory=set)
    call_keys: set[tuple[str, str]] = field(default_factory=set)
    """Tool and identifying argument of each visible call of the agent."""
    look_up_ids: set[str] = field(default_factory=set)
    """Ids of the visible calls that look up a forgotten fact."""
    position: int = 0

    def copy(self) -> "VisibleState":
        """Return an equal state that can be extended without a change of this one."""
        return replace(
            self,
            facts=dict(self.facts),
            fact_offsets=dict(self.fact_offsets),
            look_up_keys=set(self.look_up_keys),
            success_positions=dict(self.success_positions),
            receipt_slots=set(self.receipt_slots),
            failures=dict(self.failures),
            done_steps=set(self.done_steps),
            missing_steps=set(self.missing_steps),
            listed_paths=set(self.listed_paths),
            call_ids=set(self.call_ids),
            call_keys=set(self.call_keys),
            look_up_ids=set(self.look_up_ids),
        )

    def list_open_steps(self, steps: Sequence[Step]) -> Iterator[int]:
        """Yield the indexes of the steps that are not done, as far as the agent can see, in the order of the script.

        A step before the frontier is open only if it is shown as missing or has visibly failed. Tests at the frontier that only a
        count or a listing shows as done are open, too, since their result is not visible.
        """
        behind = {index for index in (*self.missing_steps, *self.failures) if index < self.frontier}
        yield from sorted(behind - self.done_steps | self.missing_steps)
        if self.frontier >= 0 and steps[self.frontier].effect == "test" and self.frontier not in self.done_steps:
            yield self.frontier
        yield from (index for index in range(self.frontier + 1, len(steps)) if index not in self.done_steps)


class FactReader:
    """Reader that finds the values of facts in single messages, by one of two rules.

    The rule `exact` uses the text patterns of the facts. The rule `tolerant` also finds statements in other words in the text of
    messages. In tool outputs and arguments of tool calls, which are program text, both rules find the same values.
    """

    def __init__(self, facts: tuple[Fact, ...], reader: Reader) -> None:
        self._patterns = patterns.compile_fact_patterns(facts)
        self._statements: TolerantStatements | None = None if reader == EXACT else compile_tolerant_statements(facts)

    def find_newest(self, message: Message) -> tuple[patterns.FactMatch, ...]:
        """Return the last value of each fact in a message; facts without a value in the message are left out."""
        text = extract_searchable_text(message)
        if self._statements is None or message.role == "tool":
            return self._patterns.find_newest(text)
        newest: dict[str, patterns.FactMatch] = {}
        for match in self._find_stated(self._statements, message, text):
            newest[match.name] = match
        return tuple(newest.values())

    def find_values(self, message: Message) -> dict[str, tuple[str, ...]]:
        """Return all values in a message, in order, by name of the fact; facts without a value are left out."""
        text = extract_searchable_text(message)
        if self._statements is None or message.role == "tool":
            return dict(self._patterns.find_values(text))
        values_by_fact: dict[str, list[str]] = {}
        for match in self._find_stated(self._statements, message, text):
            values_by_fact.setdefault(match.name, []).append(match.value)
        return {name: tuple(values) for name, values in values_by_fact.items()}

    def _find_stated(self, statements: TolerantStatements, message: Message, text: str) -> list[patterns.FactMatch]:
        """Return the values that a message states in the words of the task or in others, in order.

        Offsets refer to the searchable text of the message. Arguments of tool calls are read only in the words of the task.
        """
        exact = self._patterns.find_matches(text)
        matches, offset = list[patterns.FactMatch](), 0
        for part in message.parts:
            end = offset + len(_extract_part_text(part)) + 1
            inside = [match for match in exact if offset <= match.offset < end]
            if isinstance(part, Text):
                inside = [match for match in inside if not statements.is_only_mentioned(text, match)]
                matches += [
                    patterns.FactMatch(name, value, position + offset) for name, value, position in statements.find(part.text)
                ]
            matches += inside
            offset = end
        return sorted(matches, key=lambda match: match.offset)


class MessageReader:
    """Reader that finds facts, tool calls and finished steps of one task in single messages, with a cache."""

    def __init__(self, facts: Sequence[Fact], script: Script, reader: Reader = EXACT) -> None:
        self.counters = patterns.StepCounters(script.steps)
        self._read_facts, self._steps, self._reader = tuple(facts), script.steps, reader
        self._status_patterns = [(call.tool, patterns.compile_call_pattern(call)) for call in script.status_calls]
        self._missing_patterns = [
            (index, re.compile(step.done.missing_pattern, re.MULTILINE))
            for index, step in enumerate(script.steps)
            if step.done.missing_pattern
        ]
        self.read = lru_cache(maxsize=MAX_CACHED_MESSAGES)(self._read)
        """Function that extracts facts, tool calls and reports of finished steps from a message.

        The argument `call` is the visible call that a tool message answers, otherwise None.
        """
        self.match_receipt = lru_cache(maxsize=MAX_CACHED_MESSAGES)(patterns.ReceiptPatterns(script.steps).match_receipt)
        """Function that returns the steps, and in each step the call pattern, that match a successful tool call."""

    # compiled when the first message is read: to check a plan opens models of many tasks and reads none
    @cached_property
    def _facts(self) -> FactReader:
        return FactReader(self._read_facts, self._reader)

    @cached_property
    def _done_patterns(self) -> list[patterns.DonePattern]:
        return patterns.compile_done_patterns(self._steps)

    def _read(self, message: Message, call: ToolCall | None) -> MessageReading:
        text = extract_searchable_text(message)
        facts = self._facts.find_newest(message)
        if message.calls or (message.role == "tool" and call is None):
            return MessageReading(facts, characters=len(text))
        listed, folder, missing = frozenset[str](), None, frozenset[int]()
        output, report, done_patterns = None, text, self._done_patterns
        if call is None:  # the user's message or a summary, which may report several calls
            receipts = tuple(
                Receipt(tool, key, outcome in SUCCESS_OUTCOMES) for tool, key, outcome in transcript.RECEIPT.findall(text)
            )
        else:
            result = message.results[0]
            report = output = result.output
            succeeded = transcript.read_outcome(result) in SUCCESS_OUTCOMES
            receipts = (Receipt(call.name, transcript.find_key_argument(call), succeeded),)
            done_patterns = [pattern for pattern in done_patterns if pattern.in_output]
            if succeeded and call.name == "list_directory":
                path = receipts[0].key
                prefix = "" if path in {".", "", "/workspace"} else path.removeprefix("./").rstrip("/") + "/"
                names = LISTING_LINE.findall(output)
                listed = frozenset(prefix + name for name in names)
                if len(names) == len(output.splitlines()):  # nothing was cut or masked
                    folder = prefix.rstrip("/") or "."
            if succeeded and self._is_status_call(call):
                missing = frozenset(index for index, pattern in self._missing_patterns if pattern.search(output))
        named = frozenset(pattern.step for pattern in done_patterns if pattern.about in report and pattern.matches(report))
        return MessageReading(
            facts=facts,
            receipts=receipts,
            output=output,
            listed_paths=listed,
            listed_folder=folder,
            named_steps=named,
            missing_steps=missing,
            highest_counts=tuple(self.counters.read(report).items()),
            characters=len(text),
        )

    def _is_status_call(self, call: ToolCall) -> bool:
        key = transcript.find_key_argument(call)
        return any(tool == call.name and pattern.search(key) for tool, pattern in self._status_patterns)


@lru_cache(maxsize=patterns.MAX_CACHED_TASKS)
def build_message_reader(facts: tuple[Fact, ...], script: Script, reader: Reader = EXACT) -> MessageReader:
    """Return the reader of single messages for a task; all sessions of this process share one object."""
    return MessageReader(facts, script, reader)


class ConversationReader:
    """Reader that finds in a conversation what the scripted agent can see: facts, failures and finished steps.

    Not thread-safe, because each state is valid only until the next call of `read`.
    """

    def __init__(self, facts: Sequence[Fact], script: Script, reader: Reader = EXACT) -> None:
        self._steps = script.steps
        self._message_reader = build_message_reader(tuple(facts), script, reader)
        self._by_path: dict[str, list[int]] = {}
        self._by_folder: dict[str, list[tuple[str, int]]] = {}
        for index, step in enumerate(script.steps):
            for path in step.done.listed_paths:
                self._by_path.setdefault(path, []).append(index)
                self._by_folder.setdefault(path.rpartition("/")[0] or ".", []).append((path, index))
        self._look_up_keys = {patterns.build_call_key(call) for fact in facts for call in patterns.list_look_ups(fact)}
        self._last: tuple[Sequence[Message], VisibleState] = (), VisibleState()
        self._unchanged: tuple[int, VisibleState] = 0, VisibleState()
        """Number of first messages that the last change of the conversation left as they were, and the state after them."""

    def read(self, messages: Sequence[Message]) -> VisibleState:
        """Return what is visible after all messages of a conversation: facts, failures and finished steps."""
        (last_messages, visible), self._last = self._last, ((), VisibleState())  # an error leaves no half-read state
        count = len(last_messages)
        if not has_prefix(messages, last_messages):
            count = find_difference(messages, last_messages)
            visible = self._read_unchanged(messages, count)
        self._extend(visible, messages, count)
        self._last = messages, visible
        return visible

    def _read_unchanged(self, messages: Sequence[Message], count: int) -> VisibleState:
        """Return a new state after the first `count` messages, which the last conversation had, too."""
        (read_count, visible), self._unchanged = self._unchanged, (0, VisibleState())
        if read_count > count:
            read_count, visible = 0, VisibleState()
        self._extend(visible, messages[:count], read_count)
        self._unchanged = count, visible
        return visible.copy()

    def _extend(self, visible: VisibleState, messages: Sequence[Message], first: int) -> None:
        """Add all messages from index `first` on to a state."""
        for message, reading in zip(messages[first:], self.read_each(messages, first), strict=True):
            is_look_up = message.role == "tool" and message.results[0].call_id in visible.look_up_ids
            self._add(visible, reading, is_look_up=is_look_up)
            if message.role == "assistant":
                self._add_calls(visible, message)
            visible.call_ids.update(call.call_id for call in message.calls)

    def read_each(self, messages: Sequence[Message], first: int = 0) -> Iterator[MessageReading]:
        """Yield the facts, tool calls and reports of finished steps in each message from index `first` on."""
        calls: dict[str, ToolCall] = {}
        for index in range(_find_caller_index(messages, first), len(messages)):
            message = messages[index]
            calls.update((call.call_id, call) for call in message.calls)
            if index >= first:
                call = calls.get(message.results[0].call_id) if message.role == "tool" else None
                yield self._message_reader.read(message, call)

    def list_missing_steps(self, reading: MessageReading) -> frozenset[int]:
        """Return the indexes of the steps that a status call or a complete directory listing shows as not done."""
        files = self._by_folder.get(reading.listed_folder or "", ())
        return reading.missing_steps | {index for path, index in files if path not in reading.listed_paths}

    def build_state(self, reading: MessageReading) -> VisibleState:
        """Return what is visible after a single message: facts, failures and finished steps."""
        visible = VisibleState()
        self._add(visible, reading)
        return visible

    def _add(self, visible: VisibleState, reading: MessageReading, *, is_look_up: bool = False) -> None:
        visible.position += 1
        for name, value, offset in reading.facts:
            visible.facts[name], visible.fact_offsets[name] = value, visible.characters + offset
        visible.characters += reading.characters
        is_output = reading.output is not None
        for index in reading.named_steps:
            self._mark_done(visible, index, moves_frontier=is_output)
        for counter, number in reading.highest_counts:
            self._add_count(visible, counter, number, is_output=is_output)
        for receipt in reading.receipts:
            self._add_receipt(visible, receipt, reading.output, moves_frontier=is_output and not is_look_up)
        self._add_listed(visible, reading)
        visible.missing_steps.update(index for index in self.list_missing_steps(reading) if index < visible.frontier)

    def _mark_done(self, visible: VisibleState, index: int, *, moves_frontier: bool) -> None:
        visible.done_steps.add(index)
        visible.missing_steps.discard(index)
        if moves_frontier:
            visible.frontier = max(visible.frontier, index)

    def _add_count(self, visible: VisibleState, counter: int, number: int, *, is_output: bool) -> None:
        """Add a count of finished steps: a tool result shows all steps up to it, a summary only the last one that it names."""
        covered = self._message_reader.counters.list_covered_steps(counter, number)
        if covered and is_output:
            visible.frontier = max(visible.frontier, covered[-1])
        elif covered:
            visible.done_steps.add(covered[-1])

    def _add_listed(self, visible: VisibleState, reading: MessageReading) -> None:
        """Add the files of a directory listing."""
        new = reading.listed_paths - visible.listed_paths
        visible.listed_paths |= new
        for index in sorted({index for path in new for index in self._by_path.get(path, ())}):
            if visible.listed_paths.issuperset(self._steps[index].done.listed_paths):
                self._mark_done(visible, index, moves_frontier=True)

    def _add_calls(self, visible: VisibleState, message: Message) -> None:
        keys = {(call.name, transcript.find_key_argument(call)) for call in message.calls}
        visible.call_keys |= keys
        if message.text.endswith(_LOOK_UP_ENDING):
            visible.look_up_ids.update(call.call_id for call in message.calls)
        if keys and all(key in self._look_up_keys or patterns.is_notes_call(*key) for key in keys):
            visible.look_up_keys |= keys
        else:
            visible.fresh_offset = visible.characters
            visible.look_up_keys.clear()

    def _add_receipt(self, visible: VisibleState, receipt: Receipt, output: str | None, *, moves_frontier: bool) -> None:
        slots = self._message_reader.match_receipt(receipt.tool, receipt.key)
        if not receipt.succeeded:
            if output is None:  # a summary reports the call, so the agent has no error message to react to
                return
            for index, _ in slots:
                times = visible.failures[index].visible_count + 1 if index in visible.failures else 1
                visible.failures[index] = Failure(visible.position, output, times)
            return
        visible.success_positions[receipt.tool, receipt.key] = visible.position
        visible.receipt_slots.update(slots)
        for index, _ in slots:
            all_slots = range(len(self._steps[index].done.receipts))
            if all((index, slot) in visible.receipt_slots for slot in all_slots):
                self._mark_done(visible, index, moves_frontier=moves_frontier)


def _find_caller_index(messages: Sequence[Message], index: int) -> int:
    """Return the index of the message whose tool calls the results before `index` answer.

    It is the last message before `index` that is not a tool message.
    """
    index = min(index, len(messages))
    while index > 0 and messages[index - 1].role == "tool":
        index -= 1
    return max(0, index - 1)


def extract_searchable_text(message: Message) -> str:
    """Return the text of a message in which the scripted model searches for facts."""
    return "\n".join(map(_extract_part_text, message.parts))


def _extract_part_text(part: Part) -> str:
    return _join_arguments(part) if isinstance(part, ToolCall) else extract_part_text(part)


def _join_arguments(call: ToolCall) -> str:
    return "\n".join(value for value in transcript.parse_arguments(call).values() if isinstance(value, str))
