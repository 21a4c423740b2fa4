"""The pathologies of a session: repeats, redundant calls, reacquisitions, thrash, doom loops, repeated dead ends.

Needs nothing but the log, so it holds for real models as for scripted ones. The log is gone through once; what is kept grows
with the number of different calls, not with their texts. Source of all definitions: RESEARCH 2.4.
"""

from bisect import bisect_right

from harness.events import Compaction, Entry, ItemId, MessageAdded, SessionStarted
from harness.experiment.behaviour.calls import Act, Signature, acts_of
from harness.experiment.behaviour.dead_ends import DeadEnds
from harness.experiment.behaviour.ledger import Ledger
from harness.experiment.behaviour.loops import LoopDetector
from harness.experiment.behaviour.writes import Writes
from harness.messages import Message, ToolCall
from harness.store.records import SessionConduct, StepConduct
from harness.tokens import Counter
from harness.view import View

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

    def conduct(self) -> SessionConduct:
        """The sum over all entries so far."""
        loop = self._loops.first
        return SessionConduct(
            evicted_tokens=self._evicted_tokens,
            close_compactions=self._close,
            full_compactions=self._full,
            evicted_again=self._ledger.evicted_again,
            repeated_dead_ends=self._dead_ends.repeated,
            loop_rule=loop.rule if loop else "",
            loop_onset_step=loop.onset_step if loop else None,
            loop_after_steps=self._steps_since_compaction(loop.onset_step) if loop else None,
            steps=tuple(StepConduct(step=step, **tally) for step, tally in sorted(self._tallies.items())),
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
