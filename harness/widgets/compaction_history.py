"""One compaction as a person wants to see it: what was dropped, what was kept, the summary, which facts were lost.

Everything is read off the event and the views before and after it. Texts are cut short, since a panel shows them as lines.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.events import Compaction, Entry, RolledBack
from harness.inspection.disposition import MessageDisposition, classify_messages
from harness.inspection.sample_run import CompactionAttempt
from harness.messages import Message, extract_part_text
from harness.metrics.probes import FactProber
from harness.store.records import FactRecord
from harness.task import Task
from harness.text import shorten_line
from harness.tokens import Counter as TokenCounter
from harness.tokens import QuarterOfCharacters
from harness.transcript import find_key_argument
from harness.view import View, drop_rolled_back, fold

MAX_LINE_CHARACTERS = 160
MAX_LISTED_MESSAGES = 400
"""Messages that are told of one round; of more the first and the last half."""


class FactRetention(NamedTuple):
    """The facts of a task that were in view before a compaction."""

    lost_facts: tuple[FactRecord, ...]
    """Their newest value cannot be read in the view any more."""
    retained_facts: tuple[FactRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRound:
    """An attempt at a compaction, with the view before it and after it."""

    seq: int
    """Of its event in the log."""
    change: CompactionAttempt
    fact_retention: FactRetention | None
    """None = nobody knows the facts: the session has no scripted task, or nothing was applied."""

    def build_timeline_point(self) -> dict[str, object]:
        """What the timeline shows of it."""
        event = self.change.event
        return {
            "seq": self.seq,
            "round": event.round,
            "step": event.step,
            "status": event.status,
            "before": event.tokens_before,
            "after": event.tokens_after,
            "lost": None if self.fact_retention is None else len(self.fact_retention.lost_facts),
        }

    def build_details(self) -> dict[str, object]:
        """What is shown when a person asks for it; plain values, all texts hostile."""
        event, message_dispositions = self.change.event, classify_messages(self.change)
        shown = (
            message_dispositions
            if len(message_dispositions) <= MAX_LISTED_MESSAGES
            else (*message_dispositions[: MAX_LISTED_MESSAGES // 2], *message_dispositions[-MAX_LISTED_MESSAGES // 2 :])
        )
        return self.build_timeline_point() | {
            "moment": event.moment,
            "reason": event.reason,
            "failure": event.failure,
            "summary": event.summary,
            "summarizer": event.summarizer,
            "summarizer_cost_usd": event.summarizer_cost_usd,
            "messages_before": event.messages_before,
            "messages_after": event.messages_after,
            "counts": dict(Counter(one.disposition for one in message_dispositions)),
            "messages": [_encode_message(one) for one in shown],
            "left_out": len(message_dispositions) - len(shown),
            "facts": None
            if self.fact_retention is None
            else {
                "lost": _encode_facts(self.fact_retention.lost_facts),
                "kept": _encode_facts(self.fact_retention.retained_facts),
            },
        }


@dataclass(slots=True)
class CompactionHistory:
    """Hears the entries of a log in order; keeps its compactions and the view that they leave. Not thread-safe."""

    task: Task | None = None
    counter: TokenCounter = field(default_factory=QuarterOfCharacters)
    view: View = field(default_factory=View)
    rounds_by_seq: dict[int, CompactionRound] = field(default_factory=dict)
    """By the number of the event."""
    _entries: list[Entry] = field(default_factory=list)
    _prober: FactProber | None = field(init=False)

    def __post_init__(self) -> None:
        """Only a task with facts can tell which were lost."""
        self._prober = FactProber(self.task) if self.task and self.task.facts else None

    def receive(self, entry: Entry) -> CompactionRound | None:
        """Take note of the next entry; returns the round if it is one. After a rollback only what still counts is there."""
        self._entries.append(entry)
        if not isinstance(entry.event, RolledBack):
            return self._add(entry)
        self._entries, self.view, self.rounds_by_seq = drop_rolled_back(self._entries), View(), {}
        self.__post_init__()
        for one in self._entries:
            self._add(one)
        return None

    def _add(self, entry: Entry) -> CompactionRound | None:
        before, self.view = self.view, fold(self.view, entry, self.counter)
        if self._prober:
            self._prober.add_entry(entry, before, self.view)
        if not isinstance(entry.event, Compaction):
            return None
        found = CompactionRound(
            seq=entry.seq,
            change=CompactionAttempt(entry.event, before, self.view),
            fact_retention=self._find_fact_retention(entry),
        )
        self.rounds_by_seq[entry.seq] = found
        return found

    def _find_fact_retention(self, entry: Entry) -> FactRetention | None:
        if self._prober is None or not isinstance(entry.event, Compaction) or entry.event.status != "applied":
            return None
        probes = self._prober.build_probes()
        named = {fact.number: fact for fact in probes.facts}
        rows = [row for row in probes.rows if row.event == entry.seq and row.seen_before]
        lost = tuple(named[row.fact] for row in rows if not row.seen_after)
        return FactRetention(lost, tuple(named[row.fact] for row in rows if row.seen_after))


def format_message_line(message: Message) -> str:
    """A message in one line of at most 160 characters: its calls, or the beginning of its text."""
    calls = "; ".join(f"{call.name} {find_key_argument(call)}" for call in message.calls)
    text = calls or " ".join(extract_part_text(part) for part in message.parts)
    return shorten_line(text, MAX_LINE_CHARACTERS)


def _encode_message(one: MessageDisposition) -> dict[str, object]:
    return {
        "fate": one.disposition,
        "role": one.message.role,
        "text": format_message_line(one.message),
        "before": one.tokens_before,
        "after": one.tokens_after,
    }


def _encode_facts(records: tuple[FactRecord, ...]) -> list[dict[str, object]]:
    return [{"name": one.name, "kind": one.kind, "again_calls": one.reacquisition_calls} for one in records]
