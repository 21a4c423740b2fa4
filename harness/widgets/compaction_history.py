"""History of a session's compactions for display: dropped and kept messages, the summary, and lost facts.

Everything is computed from the log entry of a compaction and from the view before and after it. Message texts are shortened to
one line.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.conversation.events import Compaction, Entry, RolledBack, StepFinished
from harness.conversation.tokens import Counter as TokenCounter
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import View, drop_rolled_back, fold
from harness.inspection.autopsy import SessionAutopsy, build_autopsy
from harness.inspection.autopsy_page import encode_compaction, encode_session
from harness.inspection.disposition import MessageDisposition, classify_messages
from harness.inspection.sample_run import CompactionAttempt
from harness.inspection.session_steps import format_message_line
from harness.metrics.session_metrics import FactProber
from harness.models.scripted.profiles import EXACT, Reader
from harness.store.records import FactRecord
from harness.task import Task

MAX_LISTED_MESSAGES = 400
"""Maximum number of messages listed for one compaction; a longer list is cut in the middle."""


class FactRetention(NamedTuple):
    """Facts that the model saw before a compaction, split into lost and retained ones."""

    lost_facts: tuple[FactRecord, ...]
    """Facts whose newest value can no longer be read in the messages that the model sees after the compaction."""
    retained_facts: tuple[FactRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRound:
    """Record of an attempted compaction: the messages before and after it, and the facts that it lost."""

    seq: int
    """Sequence number of the compaction event in the session log."""
    change: CompactionAttempt
    fact_retention: FactRetention | None
    """Facts of the task that the compaction lost and kept; None if the task has no facts or the compaction was not applied."""

    def build_timeline_point(self) -> dict[str, object]:
        """Return the compaction as a point of the timeline: step, status, tokens and number of lost facts."""
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
        """Return the details shown when a person opens the compaction: summary, messages, facts and so on.

        The texts are not escaped.
        """
        event, messages, facts = self.change.event, classify_messages(self.change), self.fact_retention
        half = MAX_LISTED_MESSAGES // 2
        shown = messages if len(messages) <= MAX_LISTED_MESSAGES else (*messages[:half], *messages[-half:])
        return self.build_timeline_point() | {
            "moment": event.moment,
            "reason": event.explanation,
            "failure": event.failure,
            "summary": event.summary,
            "summarizer": event.summarizer,
            "summarizer_cost_usd": event.summarizer_cost_usd,
            "messages_before": event.messages_before,
            "messages_after": event.messages_after,
            "messages_removed": event.messages_removed,
            "counts": dict(Counter(message.disposition for message in messages)),
            "messages": [_encode_message(message) for message in shown],
            "left_out": len(messages) - len(shown),
            "facts": facts and {"lost": _encode_facts(facts.lost_facts), "kept": _encode_facts(facts.retained_facts)},
        }


@dataclass(slots=True)
class CompactionHistory:
    """History of a session's compactions, and the view.

    The history is updated by receiving every log entry in order. Not thread-safe.
    """

    task: Task | None = None
    counter: TokenCounter = field(default_factory=QuarterOfCharacters)
    reader: Reader = EXACT
    """Rule by which a scripted model finds values in texts."""
    view: View = field(default_factory=View)
    rounds_by_seq: dict[int, CompactionRound] = field(default_factory=dict)
    """Attempted compactions, each by the sequence number of its event in the session log."""
    _entries: list[Entry] = field(default_factory=list)
    _prober: FactProber | None = field(init=False)
    _autopsy: SessionAutopsy | None = field(init=False, default=None)
    """Autopsy of the session so far; None until it is shown again after a new entry."""

    def __post_init__(self) -> None:
        self._prober = FactProber(self.task, self.reader) if self.task and self.task.facts else None

    def receive(self, entry: Entry) -> CompactionRound | None:
        """Process the session's next log entry; return the compaction that it records, or None.

        Attempted compactions count too. If the entry rolls the session back to an earlier step, the compactions after this step
        are removed.
        """
        self._entries.append(entry)
        self._autopsy = None
        if not isinstance(entry.event, RolledBack):
            return self._add(entry)
        self._entries, self.view, self.rounds_by_seq = drop_rolled_back(self._entries), View(), {}
        self.__post_init__()
        for kept_entry in self._entries:
            self._add(kept_entry)
        return None

    def build_autopsy(self, seq: int) -> dict[str, object] | None:
        """Return the autopsy of an applied compaction as plain JSON, with token curve and facts of the session so far.

        The result is None if the compaction was not applied, or if the facts of the session are not known.

        Args:
            seq: Number of the compaction's event in the session log.
        """
        if self._autopsy is None:
            self._autopsy = build_autopsy(self._entries, self.task, self.counter, reader=self.reader)
        autopsy = self._autopsy
        compaction = next((one for one in autopsy.compactions if one.event == seq), None)
        if compaction is None or autopsy.notice:
            return None
        ended = [entry.event for entry in self._entries if isinstance(entry.event, StepFinished)]
        session = {
            "steps": [event.step for event in ended],
            "curve": [event.view_tokens for event in ended],
            "attempts": [
                (one.step, one.tokens_before, one.tokens_after, one.status, one.reason, one.round)
                for one in (entry.event for entry in self._entries)
                if isinstance(one, Compaction) and one.status == "applied"
            ],
            **encode_session(autopsy),
        }
        return {"session": session, "compaction": encode_compaction(autopsy, compaction)}

    def _add(self, entry: Entry) -> CompactionRound | None:
        before, self.view = self.view, fold(self.view, entry, self.counter)
        if self._prober:
            self._prober.add_entry(entry, before, self.view)
        if not isinstance(entry.event, Compaction):
            return None
        change = CompactionAttempt(entry.event, before, self.view)
        compaction_round = CompactionRound(seq=entry.seq, change=change, fact_retention=self._find_fact_retention(entry))
        self.rounds_by_seq[entry.seq] = compaction_round
        return compaction_round

    def _find_fact_retention(self, entry: Entry) -> FactRetention | None:
        if self._prober is None or not isinstance(entry.event, Compaction) or entry.event.status != "applied":
            return None
        probes = self._prober.build_probes_of_newest(entry.seq)
        facts = {fact.number: fact for fact in probes.facts}
        rows = [row for row in probes.rows if row.seen_before]
        lost = tuple(facts[row.fact] for row in rows if not row.seen_after)
        return FactRetention(lost, tuple(facts[row.fact] for row in rows if row.seen_after))


def _encode_message(message: MessageDisposition) -> dict[str, object]:
    text = format_message_line(message.message)
    sizes = {"before": message.tokens_before, "after": message.tokens_after}
    return {"disposition": message.disposition, "role": message.message.role, "text": text, **sizes}


def _encode_facts(records: tuple[FactRecord, ...]) -> list[dict[str, object]]:
    return [{"name": record.name, "kind": record.kind, "again_calls": record.reacquisition_calls} for record in records]
