"""The pathologies of a session: repeats, redundant calls, reacquisitions, thrash, doom loops, repeated dead ends.

Needs nothing but the log, so it holds for real models as for scripted ones. The log is gone through once; what is kept grows
with the number of different calls, not with their texts. Source of all definitions: RESEARCH 2.4.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from harness.events import Compaction, Entry, ItemId, MessageAdded, SessionStarted
from harness.messages import Message, ToolCall
from harness.metrics.calls import Act, Signature, Writes, acts_of
from harness.metrics.reacquisitions import Ledger
from harness.store.records import SessionMetrics, StepMetrics
from harness.tokens import Counter
from harness.view import View

LoopRule: TypeAlias = Literal["same call and answer", "same failing call", "alternation", "monologue"]

SAME_PAIRS = 4
SAME_FAILURES = 3
ALTERNATIONS = 6
MONOLOGUE = 3


class Loop(NamedTuple):
    """A loop: its rule, and the step of its first call or message."""

    rule: LoopRule
    onset_step: int


class LoopDetector:
    """Hears calls and messages in order and keeps the first loop."""

    def __init__(self) -> None:
        self.first: Loop | None = None
        self._acts: deque[Act] = deque(maxlen=ALTERNATIONS)
        self._replies: list[int] = []

    def add_user(self) -> None:
        """A user spoke: what came before is no loop with what follows."""
        self._acts.clear()
        self._replies.clear()

    def add_reply(self, step: int) -> None:
        """The agent spoke without calling a tool."""
        self._acts.clear()
        self._replies.append(step)
        if len(self._replies) >= MONOLOGUE:
            self._found("monologue", self._replies[-MONOLOGUE])

    def add_act(self, act: Act) -> None:
        """A call was answered."""
        self._replies.clear()
        self._acts.append(act)
        acts = list(self._acts)
        pairs = [(one.signature, one.observation) for one in acts]
        failures = acts[-SAME_FAILURES:]
        if len(acts) >= SAME_PAIRS and len(set(pairs[-SAME_PAIRS:])) == 1:
            self._found("same call and answer", acts[-SAME_PAIRS].step)
        if len(failures) == SAME_FAILURES and len({one.signature for one in failures}) == 1 and not any(o.well for o in failures):
            self._found("same failing call", failures[0].step)
        if len(acts) == ALTERNATIONS and len(set(pairs[::2])) == len(set(pairs[1::2])) == 1 and pairs[0] != pairs[1]:
            self._found("alternation", acts[0].step)

    def _found(self, rule: LoopRule, onset_step: int) -> None:
        if self.first is None:
            self.first = Loop(rule, onset_step)


@dataclass(slots=True)
class _Placed:
    """A text that stands in a file."""

    signature: Signature
    blamed: bool = False
    """Something failed while it was in place."""


class DeadEnds:
    """Hears calls in order and counts."""

    def __init__(self) -> None:
        self.repeated = 0
        self._failures: dict[tuple[Signature, str], tuple[int, int]] = {}
        self._changes = Writes()
        self._placed: dict[str, _Placed] = {}
        self._given_up: dict[Signature, int] = {}

    def add_act(self, number: int, act: Act, rounds: int) -> None:
        """Take note of a call.

        Args:
            number: of the call.
            act: the call.
            rounds: compactions applied so far.
        """
        if not act.well:
            self._add_failure(number, act, rounds)
        elif act.deed != "write" or self._add_write(act, rounds):
            self._changes.add(number, act)

    def _add_failure(self, number: int, act: Act, rounds: int) -> None:
        key = act.signature, act.failure
        earlier, rounds_then = self._failures.get(key, (number, rounds))
        self.repeated += rounds_then < rounds and self._last_change(act) < earlier
        self._failures[key] = number, rounds
        for placed in self._placed.values():
            placed.blamed = True

    def _last_change(self, act: Act) -> int:
        """Number of the last call that changed what a call rests on."""
        own = act.paths & self._placed.keys()
        return self._changes.last_named(act) if own else self._changes.last_touch(act)

    def _add_write(self, act: Act, rounds: int) -> bool:
        """Take note of a text that is written; whether it differs from what the agent wrote there last."""
        before = self._placed.get(act.target)
        if before is not None and before.signature == act.signature:
            return False
        if before is not None and before.blamed:
            self._given_up.setdefault(before.signature, rounds)
        self.repeated += self._given_up.get(act.signature, rounds) < rounds
        self._placed[act.target] = _Placed(act.signature)
        return True


FEWEST_STEPS = 3
"""Fewer steps than this between two compactions are thrash."""
NO_PROGRESS_SHARE = 0.9
"""A compaction that leaves this share of the threshold or more in view made no progress."""


class Watch:
    """Hears the entries of a log in order, each with the view before and after it."""

    def __init__(self, counter: Counter, retrievals: frozenset[Signature] = frozenset()) -> None:
        self._counter, self._retrievals = counter, retrievals
        self._pending: dict[str, tuple[ToolCall, ItemId]] = {}
        self._number = 0
        self._newest: dict[Signature, tuple[int, str]] = {}
        self._tallies: dict[int, dict[str, int]] = {}
        self._writes, self._ledger, self._loops, self._dead_ends = Writes(), Ledger(), LoopDetector(), DeadEnds()
        self._threshold_tokens: int | None = None
        self._compacted_before: list[int] = []
        self._evicted_tokens = self._close = self._full = 0

    def add(self, entry: Entry, before: View, after: View) -> None:
        """Take note of the next entry."""
        event = entry.event
        match event:
            case SessionStarted():
                self._threshold_tokens = event.threshold_tokens
            case MessageAdded():
                self._add_message(event.message, event.step)
                tokens = after.items[-1].tokens
                for act in acts_of(entry, self._pending, self._retrievals):
                    self._add_act(act, tokens, after.rounds)
            case Compaction() if event.status == "applied":
                self._add_compaction(event, before, after)
            case _:
                pass

    def conduct(self) -> SessionMetrics:
        """The sum over all entries so far."""
        loop = self._loops.first
        return SessionMetrics(
            evicted_tokens=self._evicted_tokens,
            close_compactions=self._close,
            full_compactions=self._full,
            evicted_again=self._ledger.evicted_again,
            repeated_dead_ends=self._dead_ends.repeated,
            loop_rule=loop.rule if loop else "",
            loop_onset_step=loop.onset_step if loop else None,
            loop_after_steps=self._steps_since_compaction(loop.onset_step) if loop else None,
            steps=tuple(StepMetrics(step=step, **tally) for step, tally in sorted(self._tallies.items())),
        )

    def _steps_since_compaction(self, step: int) -> int | None:
        place = bisect_right(self._compacted_before, step)
        return step - self._compacted_before[place - 1] + 1 if place else None

    def _add_message(self, message: Message, step: int) -> None:
        if message.role == "user":
            self._loops.add_user()
        elif message.role == "assistant" and not message.calls:
            self._loops.add_reply(step)

    def _add_act(self, act: Act, tokens: int, rounds: int) -> None:
        self._number += 1
        earlier, answer = self._newest.get(act.signature, (None, ""))
        untouched = earlier is not None and self._writes.last_touch(act) <= earlier
        fetched = self._ledger.add_act(self._number, act, self._writes, tokens)
        self._count(
            act.step,
            executions=act.deed != "retrieval",
            retrievals=act.deed == "retrieval",
            failures=not act.well,
            repeats=earlier is not None,
            redundant=untouched and answer == act.observation,
            reacquisitions=fetched is not None,
            reacquired_tokens=fetched.tokens if fetched else 0,
            reacquired_steps=fetched.steps_since if fetched else 0,
        )
        self._loops.add_act(act)
        self._dead_ends.add_act(self._number, act, rounds)
        self._writes.add(self._number, act)
        self._newest[act.signature] = self._number, act.observation

    def _count(self, step: int, **more: int) -> None:
        tally = self._tallies.setdefault(step, dict.fromkeys(more, 0))
        for name, count in more.items():
            tally[name] += count

    def _add_compaction(self, event: Compaction, before: View, after: View) -> None:
        kept = {item.item_id: item.tokens for item in after.items}
        self._evicted_tokens += sum(max(0, item.tokens - kept.get(item.item_id, 0)) for item in before.items)
        if self._compacted_before and event.step - self._compacted_before[-1] < FEWEST_STEPS:
            self._close += 1
        if self._threshold_tokens is not None and event.tokens_after >= NO_PROGRESS_SHARE * self._threshold_tokens:
            self._full += 1
        self._compacted_before.append(event.step)
        self._ledger.add_compaction(event)
