"""Metrics of the calls of a session, which show unproductive behaviour, such as repeated calls, loops and dead ends.

The session is thrashing if it compacts all the time, and in a doom loop if the agent repeats itself without progress.

All metrics are computed from the session's log alone, so they apply to real and to scripted models. The log is read once, and
memory use is proportional to the number of different calls.

A target is content that the agent has seen: a file, or the result of a call that only reads (a retrieval). The model sees a
target as long as it sees a message that shows all of it: the result of the retrieval, or the call that wrote the file. Summaries
do not count. A reacquisition is the first retrieval of an unchanged target after a compaction has removed it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded, SessionStarted
from harness.conversation.growing_sequence import find_difference
from harness.conversation.messages import ToolCall
from harness.conversation.tokens import Counter
from harness.conversation.view import Item, View
from harness.metrics.calls import AnsweredCall, Signature, WriteHistory, iter_answered_calls
from harness.store.records import SessionMetrics, StepMetrics


class Reacquisition(NamedTuple):
    """Tool call that fetches unchanged content again after a compaction removed it from view."""

    step: int
    steps_since: int
    """Number of steps from the compaction that removed the content to this call; 1 is the first step after the compaction."""
    tokens: int
    """Estimated number of tokens in the message with the fetched result, counted as the compaction policy counts."""


@dataclass(slots=True)
class _Target:
    carriers: set[ItemId] = field(default_factory=set)
    content: str = ""
    seen_call: int = 0
    """Number of the last tool call that showed or wrote the file, or that fetched the result."""
    eviction_step: int | None = None
    """Step of the compaction that removed the file or the result from view; None while the model can see it."""
    is_reacquired: bool = False


class ReacquisitionTracker:
    """Detector of tool calls that fetch content again which a compaction removed (reacquisitions).

    The detector tracks which files and tool results the model can see, and which ones compactions removed.
    """

    def __init__(self) -> None:
        self.repeated_evictions = 0
        """Number of times that a file or result was removed from view, fetched again and removed again by a compaction."""
        self._targets: dict[str, _Target] = {}
        self._carried: dict[ItemId, set[str]] = {}

    def add_call(self, number: int, call: AnsweredCall, write_history: WriteHistory, tokens: int) -> Reacquisition | None:
        """Record a tool call; return a reacquisition if it fetches unchanged content that a compaction removed.

        Args:
            number: Number of the call in the session.
            call: Tool call with its answer.
            write_history: Record of the earlier calls that may have changed each path.
            tokens: Estimated tokens of the message with the result.
        """
        if call.effect == "execution" or not call.succeeded:
            return None
        target = self._targets.setdefault(call.target, _Target())
        reacquisition = None
        if call.effect == "retrieval" and target.eviction_step is not None:
            is_unchanged = call.content_digest == target.content or write_history.find_last_touch(call) <= target.seen_call
            target.is_reacquired = is_unchanged
            if is_unchanged:
                reacquisition = Reacquisition(call.step, call.step - target.eviction_step + 1, tokens)
        item = call.call_item if call.effect == "write" else call.result_item
        if call.effect == "write":
            self._drop_carriers(target, call.target)
            target.is_reacquired = False
        target.carriers.add(item)
        self._carried.setdefault(item, set()).add(call.target)
        target.content, target.seen_call, target.eviction_step = call.content_digest, number, None
        return reacquisition

    def _drop_carriers(self, target: _Target, name: str) -> None:
        # after a new write, the messages that show the file are outdated
        for item in target.carriers:
            self._carried[item].discard(name)
        target.carriers.clear()

    def add_compaction(self, event: Compaction) -> None:
        """Record a compaction, and mark as removed all files and tool results that the model can no longer see."""
        for item in event.patch.changed_ids:
            for name in self._carried.pop(item, ()):
                target = self._targets[name]
                target.carriers.discard(item)
                if not target.carriers:
                    target.eviction_step = event.step
                    self.repeated_evictions += target.is_reacquired
                    target.is_reacquired = False


LoopRule: TypeAlias = Literal["same call and answer", "same failing call", "alternation", "monologue"]

SAME_PAIR_LIMIT = 4
SAME_FAILURE_LIMIT = 3
ALTERNATION_CALLS = 6
MONOLOGUE_LIMIT = 3


class Loop(NamedTuple):
    """Loop in which an agent repeats itself without progress: the rule that found it, and the step where it began."""

    rule: LoopRule
    onset_step: int


class DoomLoopDetector:
    """Detector of the first doom loop, in which the agent repeats tool calls or messages without progress.

    Source: rules and limits of `stuck_detector.py` in OpenHands SDK 1.58.0.
    """

    def __init__(self) -> None:
        self.first_loop: Loop | None = None
        self._acts: deque[AnsweredCall] = deque(maxlen=ALTERNATION_CALLS)
        self._replies: list[int] = []

    def add_user_message(self) -> None:
        """Record a user message; tool calls before the message form no loop with tool calls after it."""
        self._acts.clear()
        self._replies.clear()

    def add_reply(self, step: int) -> None:
        """Record a message in which the agent calls no tool; several of them in a row count as a loop."""
        self._acts.clear()
        self._replies.append(step)
        if len(self._replies) >= MONOLOGUE_LIMIT:
            self._record_loop("monologue", self._replies[-MONOLOGUE_LIMIT])

    def add_call(self, call: AnsweredCall) -> None:
        """Record a tool call with its result; also record a loop if the latest calls are repetitions."""
        self._replies.clear()
        self._acts.append(call)
        calls = list(self._acts)
        pairs = [(call.signature, call.observation) for call in calls]
        failures = calls[-SAME_FAILURE_LIMIT:]
        if len(calls) >= SAME_PAIR_LIMIT and len(set(pairs[-SAME_PAIR_LIMIT:])) == 1:
            self._record_loop("same call and answer", calls[-SAME_PAIR_LIMIT].step)
        is_same_call = len(failures) == SAME_FAILURE_LIMIT and len({failure.signature for failure in failures}) == 1
        if is_same_call and not any(failure.succeeded for failure in failures):
            self._record_loop("same failing call", failures[0].step)
        if len(calls) == ALTERNATION_CALLS and len(set(pairs[::2])) == len(set(pairs[1::2])) == 1 and pairs[0] != pairs[1]:
            self._record_loop("alternation", calls[0].step)

    def _record_loop(self, rule: LoopRule, onset_step: int) -> None:
        if self.first_loop is None:
            self.first_loop = Loop(rule, onset_step)


@dataclass(slots=True)
class _PlacedText:
    """Content that the agent last wrote into a file, identified by a digest of the tool call."""

    signature: Signature
    is_blamed: bool = False
    """Whether any tool call failed after the agent wrote this content and before it wrote the file again."""


class DeadEndDetector:
    """Counter of dead ends (failures) that an agent repeats after a compaction.

    A repeated dead end is either a failed tool call that the agent makes again, or file content that the agent replaced after a
    failure and then writes again.
    """

    def __init__(self) -> None:
        self.repeated_count = 0
        self._failures: dict[tuple[Signature, str], tuple[int, int]] = {}
        self._write_history = WriteHistory()
        self._placed: dict[str, _PlacedText] = {}
        self._given_up: dict[Signature, int] = {}

    def add_call(self, number: int, call: AnsweredCall, rounds: int) -> None:
        """Record a tool call, and count it if it repeats a failure from before a compaction.

        Args:
            number: Number of the call in the session.
            call: Tool call with its answer.
            rounds: Number of compactions that were applied so far.
        """
        if not call.succeeded:
            self._add_failure(number, call, rounds)
        elif call.effect != "write" or self._add_write(call, rounds):
            self._write_history.add_call(number, call)

    def _add_failure(self, number: int, call: AnsweredCall, rounds: int) -> None:
        key = call.signature, call.failure_digest
        earlier, rounds_then = self._failures.get(key, (number, rounds))
        self.repeated_count += rounds_then < rounds and self._find_last_change(call) < earlier
        self._failures[key] = number, rounds
        for placed in self._placed.values():
            placed.is_blamed = True

    def _find_last_change(self, call: AnsweredCall) -> int:
        written_paths = call.paths & self._placed.keys()
        return self._write_history.find_last_named_touch(call) if written_paths else self._write_history.find_last_touch(call)

    def _add_write(self, call: AnsweredCall, rounds: int) -> bool:
        """Record the content that a call writes into a file; return whether it differs from what was last written there."""
        previous_text = self._placed.get(call.target)
        if previous_text is not None and previous_text.signature == call.signature:
            return False
        if previous_text is not None and previous_text.is_blamed:
            self._given_up.setdefault(previous_text.signature, rounds)
        self.repeated_count += self._given_up.get(call.signature, rounds) < rounds
        self._placed[call.target] = _PlacedText(call.signature)
        return True


MIN_STEPS_BETWEEN_COMPACTIONS = 3
"""Minimum number of steps between two compactions; with fewer steps the session is thrashing (compacting all the time)."""
NO_PROGRESS_SHARE = 0.9
"""Share (0 to 1) of the compaction threshold. A compaction was futile if the model still sees at least that many tokens."""


class CallMetricsBuilder:
    """Collector of metrics of unproductive behaviour, such as loops, from the log entries of a session."""

    def __init__(self, counter: Counter, retrievals: Container[Signature] = ()) -> None:
        self._counter, self._retrievals = counter, retrievals
        self._pending: dict[str, tuple[ToolCall, ItemId]] = {}
        self._call_number = 0
        self._trajectory = blake2b(digest_size=12)
        self._newest: dict[Signature, tuple[int, str]] = {}
        self._tallies: dict[int, dict[str, int]] = {}
        self._write_history, self._reacquisitions = WriteHistory(), ReacquisitionTracker()
        self._doom_loops, self._dead_ends = DoomLoopDetector(), DeadEndDetector()
        self._threshold_tokens: int | None = None
        self._compacted_before: list[int] = []
        self._evicted_tokens = self._close_compactions = self._full_compactions = 0

    def add_entry(self, entry: Entry, before: View, after: View) -> None:
        """Update all metrics with the next log entry, and what the model sees before and after this entry."""
        event = entry.event
        match event:
            case SessionStarted():
                self._threshold_tokens = event.threshold_tokens
            case MessageAdded():
                self.add_message(entry, event, after.items[-1], after.rounds)
            case Compaction() if event.status == "applied":
                self._add_compaction(event, before, after)

    def add_message(self, entry: Entry, event: MessageAdded, item: Item, rounds: int) -> None:
        """Update all metrics with the next message.

        Args:
            entry: Log entry of the message.
            event: Event of the log entry.
            item: Message as an item of the view.
            rounds: Number of compactions that were applied before the message.
        """
        message = event.message
        if message.role == "user":
            self._doom_loops.add_user_message()
        elif message.role == "assistant" and not message.calls:
            self._doom_loops.add_reply(event.step)
        for call in iter_answered_calls(entry, self._pending, self._retrievals):
            self._add_call(call, item.tokens, rounds)

    def build_metrics(self) -> SessionMetrics:
        """Return the metrics of the session, such as repeated calls and loops, for all log entries added so far."""
        loop = self._doom_loops.first_loop
        return SessionMetrics(
            trajectory=self._trajectory.hexdigest(),
            evicted_tokens=self._evicted_tokens,
            close_compactions=self._close_compactions,
            full_compactions=self._full_compactions,
            evicted_again=self._reacquisitions.repeated_evictions,
            repeated_dead_ends=self._dead_ends.repeated_count,
            loop_rule=loop.rule if loop else "",
            loop_onset_step=loop.onset_step if loop else None,
            loop_after_steps=self._count_steps_since_compaction(loop.onset_step) if loop else None,
            steps=tuple(StepMetrics(step=step, counts=dict(tally)) for step, tally in sorted(self._tallies.items())),
        )

    def _count_steps_since_compaction(self, step: int) -> int | None:
        place = bisect_right(self._compacted_before, step)
        return step - self._compacted_before[place - 1] + 1 if place else None

    def _add_call(self, call: AnsweredCall, tokens: int, rounds: int) -> None:
        self._call_number += 1
        self._trajectory.update(f"{call.shape}\n".encode(errors="replace"))
        earlier, answer = self._newest.get(call.signature, (None, ""))
        is_untouched = earlier is not None and self._write_history.find_last_touch(call) <= earlier
        reacquisition = self._reacquisitions.add_call(self._call_number, call, self._write_history, tokens)
        self._add_counts(
            call.step,
            executions=call.effect != "retrieval",
            retrievals=call.effect == "retrieval",
            failures=not call.succeeded,
            repeats=earlier is not None,
            redundant=is_untouched and answer == call.observation,
            reacquisitions=reacquisition is not None,
            reacquired_tokens=reacquisition.tokens if reacquisition else 0,
            reacquired_steps=reacquisition.steps_since if reacquisition else 0,
        )
        self._doom_loops.add_call(call)
        self._dead_ends.add_call(self._call_number, call, rounds)
        self._write_history.add_call(self._call_number, call)
        self._newest[call.signature] = self._call_number, call.observation

    def _add_counts(self, step: int, **counts: int) -> None:
        tally = self._tallies.setdefault(step, dict.fromkeys(counts, 0))
        for name, count in counts.items():
            tally[name] += count

    def _add_compaction(self, event: Compaction, before: View, after: View) -> None:
        first, changed_ids = find_difference(before.items, after.items), event.patch.changed_ids
        tokens_after = {item.item_id: item.tokens for item in after.items[first:] if item.item_id in changed_ids}
        removed = [item for item in before.items[first:] if item.item_id in changed_ids]
        self._evicted_tokens += sum([max(0, item.tokens - tokens_after.get(item.item_id, 0)) for item in removed])
        if self._compacted_before and event.step - self._compacted_before[-1] < MIN_STEPS_BETWEEN_COMPACTIONS:
            self._close_compactions += 1
        if self._threshold_tokens is not None and event.tokens_after >= NO_PROGRESS_SHARE * self._threshold_tokens:
            self._full_compactions += 1
        self._compacted_before.append(event.step)
        self._reacquisitions.add_compaction(event)
