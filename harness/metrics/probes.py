"""Probes: at every applied compaction, which facts of the task were in view, which still are, and what became of them.

A fact is in view if its value can be read, by the task's own patterns, in any message of the view: what a scripted agent could
use. Real summaries may tell it in other words. So of values of `DISTINCTIVE_CHARACTERS` or more it is also said whether they
stand in the view after the compaction as a whole token; shorter ones stand everywhere. The value of a fact is the newest
that was told so far, in the whole history: by the user, by a tool, or, for facts of the agent's own, by the agent. What a tool
shows is no telling if the agent had written it itself or if a later value had replaced it already. A fact that is in view on
neither side of a compaction has no row: nothing happened to it. A use is stale if its value was told earlier, by the patterns or
in the words of `Fact.former`, and another one has been told that holds. Source: RESEARCH 2.6.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from harness.events import Compaction, Entry, ItemId, MessageAdded
from harness.messages import Message
from harness.metrics.template_matcher import Uses
from harness.models.scripted.patterns import compile_fact_patterns
from harness.models.scripted.visible_state import extract_searchable_text
from harness.store.records import FactRecord, FactUse, ProbeRecord, Probes, SessionMetrics
from harness.task import Fact, Task
from harness.view import Item, View

DISTINCTIVE_CHARACTERS = 4
"""A shorter value may stand in a text for another reason."""


@dataclass(slots=True)
class _Known:
    """What the history has told of a fact."""

    fact: Fact
    key: str | None
    """Its value by the answer key."""
    told: list[str] = field(default_factory=list)
    """Every value in the order of telling."""
    former: set[str] = field(default_factory=set)
    """Older values that other words told, see `harness.task.Fact`."""
    written: set[str] = field(default_factory=set)
    """Values that the agent wrote before anybody told them."""
    waiting: list[int] = field(default_factory=list)
    """Numbers of the probes that wait for the next use."""

    @property
    def value(self) -> str | None:
        """The newest; before the first telling that of the key."""
        return self.told[-1] if self.told else self.key

    def hear(self, value: str, role: str) -> None:
        """Take note of a value that a message tells."""
        if role == "assistant" and not (self.fact.said_in == "own" and value == self.key):
            self.written.add(value)
        elif self.told[-1:] != [value] and (role != "tool" or value not in {*self.told, *self.written}):
            self.told.append(value)

    def hear_former(self, values: set[str], role: str) -> None:
        """Take note of older values that a message tells in other words."""
        if role == "assistant":
            self.written |= values - self.former
        else:
            self.former |= values - self.written

    def judged(self, value: str) -> FactUse:
        """What using a value now is."""
        if value == self.value:
            return "right"
        replaced = value in self.told or (bool(self.told) and value in self.former)
        return "stale" if replaced else "wrong"


class Prober:
    """Hears the entries of a log in order, each with the view before and after it."""

    def __init__(self, task: Task) -> None:
        self._facts = {fact.name: _Known(fact, task.values.get(fact.name)) for fact in task.facts}
        self._numbers = {name: number for number, name in enumerate(self._facts)}
        self._patterns, self._uses = compile_fact_patterns(task.facts), Uses(task.script)
        self._former = compile_fact_patterns(
            tuple(replace(fact, patterns=fact.former_patterns) for fact in task.facts if fact.former_patterns)
        )
        self._readings: dict[ItemId, dict[str, tuple[str, ...]]] = {}
        self._rows: list[ProbeRecord] = []
        self._used: list[tuple[Fact, FactUse]] = []

    def add(self, entry: Entry, before: View, after: View) -> None:
        """Take note of the next entry."""
        event = entry.event
        if isinstance(event, MessageAdded):
            self._add_uses(event.message, event.step)
            reading = self._read(after.items[-1])
            for name, values in reading.items():
                self._facts[name].hear(values[-1], event.message.role)
            for name, values in self._former.find_values(extract_searchable_text(event.message)):
                self._facts[name].hear_former(set(values), event.message.role)
        elif isinstance(event, Compaction) and event.status == "applied":
            self._add_compaction(entry.seq, before, after)

    def probes(self) -> Probes:
        """All probes, and the facts that they are about."""
        probed = {row.fact for row in self._rows}
        return Probes(facts=tuple(one for one in self._records() if one.number in probed), rows=tuple(self._rows))

    def summed(self, conduct: SessionMetrics) -> SessionMetrics:
        """The conduct with the uses of facts; as it is if no call could be recognised."""
        if not self._used:
            return conduct
        wrong = [(fact, use) for fact, use in self._used if use != "right"]
        return replace(
            conduct,
            fact_uses=len(self._used),
            wrong_uses=len(wrong),
            stale_uses=sum(use == "stale" for _, use in wrong),
            constraint_violations=sum(fact.kind == "constraint" for fact, _ in wrong),
        )

    def _records(self) -> Iterator[FactRecord]:
        for name, number in self._numbers.items():
            fact = self._facts[name].fact
            yield FactRecord(
                number=number,
                name=name,
                kind=fact.kind,
                said_in=fact.said_in,
                reacquisition_calls=fact.reacquisition_calls,
            )

    def _read(self, item: Item) -> dict[str, tuple[str, ...]]:
        reading = dict(self._patterns.find_values(extract_searchable_text(item.message)))
        if reading:
            self._readings[item.item_id] = reading
        else:
            self._readings.pop(item.item_id, None)
        return reading

    def _add_uses(self, message: Message, step: int) -> None:
        for call in message.calls:
            for name, value in self._uses.read(call, self._candidates).items():
                known = self._facts[name]
                use = known.judged(value)
                self._used.append((known.fact, use))
                for number in known.waiting:
                    self._rows[number] = replace(self._rows[number], used_step=step, used=use)
                known.waiting.clear()

    def _candidates(self, name: str) -> Iterable[str]:
        known = self._facts[name]
        return (*known.told, *known.former, known.fact.prior, *([known.key] if known.key is not None else []))

    def _add_compaction(self, seq: int, before: View, after: View) -> None:
        seen_before = self._seen(before)
        old = {item.item_id: item.message for item in before.items}
        for item in after.items:
            if old.get(item.item_id) is not item.message:
                self._read(item)
        seen_after = self._seen(after)
        text = "" if seen_before <= seen_after else "\n".join([extract_searchable_text(item.message) for item in after.items])
        for name in sorted(seen_before | seen_after, key=self._numbers.__getitem__):
            known = self._facts[name]
            known.waiting.append(len(self._rows))
            self._rows.append(
                ProbeRecord(
                    event=seq,
                    fact=self._numbers[name],
                    version=len(known.told),
                    seen_before=name in seen_before,
                    seen_after=name in seen_after,
                    stands_after=_stands(known.told[-1], text, read=name in seen_after),
                )
            )
        kept = {item.item_id for item in after.items}
        self._readings = {item_id: reading for item_id, reading in self._readings.items() if item_id in kept}

    def _seen(self, view: View) -> set[str]:
        """Facts whose newest told value stands in the view."""
        readings = (self._readings.get(item.item_id, {}) for item in view.items)
        facts = self._facts
        return {
            name
            for reading in readings
            for name, values in reading.items()
            if facts[name].told[-1:] and facts[name].told[-1] in values
        }


def _stands(value: str, text: str, *, read: bool) -> bool | None:
    """Whether a value is read from a text or stands in it as a whole token; None = nobody could tell."""
    if len(value) < DISTINCTIVE_CHARACTERS:
        return None
    at = -1
    while not read and (at := text.find(value, at + 1)) >= 0:
        end = at + len(value)
        read = not (_go_on(text[at - 1 : at], value[0]) or _go_on(value[-1], text[end : end + 1]))
    return read


def _go_on(left: str, right: str) -> bool:
    """Whether two neighbours are parts of one token."""
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")
