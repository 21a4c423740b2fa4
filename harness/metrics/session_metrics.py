"""Metrics of a session, computed from its log: how the agent behaved, and which facts it could still see.

For each fact and each applied compaction, a record (probe) says whether the model could see the value of the fact before the
compaction and after it. If it could not in either case, there is no probe. If the compaction called a summarizer, the probe also
says whether a kept message shows the value; if none does, only the summary could keep it.

The value of a fact is the newest one that was stated by the user, by a tool or, if the agent itself chooses the value, by the
agent. A tool output that only repeats a value which the agent wrote, or a value that was replaced earlier, is not a statement.

The model can see a value if the task's regular expressions for the fact match in a message that is sent to the model. A real
summary may use other words, so values of at least `MIN_DISTINCTIVE_CHARACTERS` characters are also searched as whole words.

A use of a fact is called stale if the agent used a value that was valid earlier and has been replaced since.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from harness.conversation.codec import copy_fields
from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded
from harness.conversation.growing_sequence import find_difference
from harness.conversation.messages import Message, ToolCall
from harness.conversation.tokens import Counter
from harness.conversation.view import Item, View, fold, fold_entries
from harness.metrics.call_metrics import CallMetricsBuilder
from harness.metrics.calls import TemplateSignatures
from harness.metrics.compaction_effects import EffectsBuilder, summarize_effects
from harness.metrics.template_matcher import TemplateMatcher, build_template_matcher
from harness.models.scripted.patterns import compile_fact_patterns
from harness.models.scripted.profiles import EXACT, Reader
from harness.models.scripted.visible_state import FactReader, extract_searchable_text
from harness.store.records import FactRecord, FactUse, ProbeRecord, Probes, SessionMetrics
from harness.task import Fact, Task

MIN_DISTINCTIVE_CHARACTERS = 4
"""Minimum length in characters of a value that is searched in texts; a shorter value may occur in a text by chance."""


@dataclass(slots=True)
class _FactState:
    """Values of one fact of the task so far, and the records that wait for its next use."""

    fact: Fact
    key_value: str | None
    """Value of the fact in the task's answer key; None if the key has none."""
    stated_values: list[str] = field(default_factory=list)
    """Values of the fact that messages of the session stated, oldest first."""
    former_values: set[str] = field(default_factory=set)
    """Outdated values of the fact, as found in messages by the fact's patterns for former values."""
    written_values: set[str] = field(default_factory=set)
    """Values of the fact that the agent wrote itself. A tool output that shows such a value does not count as a statement."""
    waiting_probes: list[int] = field(default_factory=list)
    """Indexes of the probes (records of visibility) that will state whether the agent's next use of the fact is right."""

    @property
    def current_value(self) -> str | None:
        """Newest value that a message stated; before the first statement, the value in the answer key."""
        return self.stated_values[-1] if self.stated_values else self.key_value

    def add_value(self, value: str, role: str) -> None:
        # only the user, a tool, or an agent that chooses the value itself can state a value
        if role == "assistant" and not (self.fact.said_in == "own" and value == self.key_value):
            self.written_values.add(value)
        elif self.stated_values[-1:] != [value] and (role != "tool" or value not in {*self.stated_values, *self.written_values}):
            self.stated_values.append(value)

    def add_former_values(self, values: set[str], role: str) -> None:
        """Record outdated values of the fact, which the task has replaced since, in a message of the given role."""
        if role == "assistant":
            self.written_values |= values - self.former_values
        else:
            self.former_values |= values - self.written_values

    def classify_use(self, value: str) -> FactUse:
        """Return whether a value that the agent uses is `right`, `stale` (was valid earlier) or `wrong`."""
        if value == self.current_value:
            return "right"
        is_replaced = value in self.stated_values or (bool(self.stated_values) and value in self.former_values)
        return "stale" if is_replaced else "wrong"


class _VisibleWords:
    """Texts of the messages in view, in which values are searched as whole words. Each text is read once for a value.

    Messages are numbered. All texts before the number that is kept for a value are without it.
    """

    def __init__(self) -> None:
        self._numbers: dict[ItemId, int] = {}
        self._messages: dict[int, Message] = {}
        self._texts: dict[int, str] = {}
        self._added_count = 0
        self._next_by_value: dict[str, int] = {}

    def add(self, item_id: ItemId, message: Message) -> None:
        self._numbers[item_id] = self._added_count
        self._messages[self._added_count] = message
        self._added_count += 1

    def remove(self, item_id: ItemId) -> None:
        number = self._numbers.pop(item_id, -1)
        self._messages.pop(number, None)
        self._texts.pop(number, None)

    def contains(self, value: str) -> bool:
        number = self._next_by_value.get(value, 0)
        while number < self._added_count and find_token(self._read_text(number), value) < 0:
            number += 1
        self._next_by_value[value] = number
        return number < self._added_count

    def _read_text(self, number: int) -> str:
        message = self._messages.get(number)
        if message is None:
            return ""
        if number not in self._texts:
            self._texts[number] = extract_searchable_text(message)
        return self._texts[number]


class ToolCallUse(NamedTuple):
    """Use of a fact of the task in a tool call of the agent."""

    fact: Fact
    use: FactUse
    step: int
    call: ToolCall
    value: str
    """Value that the agent wrote into the call."""
    right_value: str | None
    """Newest value of the fact before the call; None if no message stated one and the task's answer key has none."""


class FactProber:
    """Collector that records for each fact of a task whether the model could see it before and after each compaction.

    Each such record is called a probe. The collector receives the log entries of a session in order.
    """

    def __init__(self, task: Task, reader: Reader = EXACT) -> None:
        """Create a collector for the facts of a task.

        Args:
            task: Task of the session, with its facts.
            reader: Rule by which a scripted model finds values in texts.
        """
        self._facts = {fact.name: _FactState(fact, task.values.get(fact.name)) for fact in task.facts}
        self._numbers = {name: number for number, name in enumerate(self._facts)}
        self._reader, self._script = FactReader(task.facts, reader), task.script
        former = tuple(replace(fact, patterns=fact.former_patterns) for fact in task.facts if fact.former_patterns)
        self._former_patterns = compile_fact_patterns(former) if former else None
        self._readings: dict[ItemId, dict[str, tuple[str, ...]]] = {}
        """Values of facts that were found in each message in view, by the id of the message and the name of the fact."""
        self._holders: dict[tuple[str, str], set[ItemId]] = {}
        """Ids of the messages in view that show a value, by the name of the fact and the value."""
        self._words = _VisibleWords()
        self._rows: list[ProbeRecord] = []
        self.uses: list[ToolCallUse] = []
        """Uses of facts in the tool calls so far, in order."""

    @cached_property
    def _template_matcher(self) -> TemplateMatcher:
        return build_template_matcher(self._script)

    def add_entry(self, entry: Entry, before: View, after: View) -> None:
        """Add the next log entry of the session, with the view before and after it."""
        event = entry.event
        if isinstance(event, MessageAdded):
            self.add_message(event, after.items[-1])
        elif isinstance(event, Compaction) and event.status == "applied":
            self._add_compaction(entry.seq, event, before, after)

    def add_message(self, event: MessageAdded, item: Item) -> None:
        """Add the next message of the session, which is also given as an item of the view."""
        self._add_uses(event.message, event.step)
        for name, values in self._read_item(item).items():
            self._facts[name].add_value(values[-1], event.message.role)
        if self._former_patterns is not None:
            for name, values in self._former_patterns.find_values(extract_searchable_text(event.message)):
                self._facts[name].add_former_values(set(values), event.message.role)

    def build_probes(self) -> Probes:
        """Return all probes so far, which record whether the model could still see each fact after a compaction."""
        return self._build_probes(tuple(self._rows))

    def build_probes_of_newest(self, event: int) -> Probes:
        """Return the probes of the newest compaction, if `event` is the number of its log event; otherwise none."""
        newest = tuple(takewhile(lambda row: row.event == event, reversed(self._rows)))
        return self._build_probes(newest[::-1])

    def _build_probes(self, rows: tuple[ProbeRecord, ...]) -> Probes:
        probed_numbers = {row.fact for row in rows}
        facts = {number: self._facts[name].fact for name, number in self._numbers.items() if number in probed_numbers}
        records = tuple([FactRecord(number=number, **copy_fields(fact, FactRecord)) for number, fact in facts.items()])
        return Probes(facts=records, rows=rows)

    def add_use_counts(self, metrics: SessionMetrics) -> SessionMetrics:
        """Return a session's metrics with counts of how often its tool calls used facts: all, wrong and outdated uses.

        The metrics are returned unchanged if no tool call was recognized as a use of a fact.
        """
        if not self.uses:
            return metrics
        wrong_uses = [use for use in self.uses if use.use != "right"]
        return replace(
            metrics,
            fact_uses=len(self.uses),
            wrong_uses=len(wrong_uses),
            stale_uses=sum(use.use == "stale" for use in wrong_uses),
            constraint_violations=sum(use.fact.kind == "constraint" for use in wrong_uses),
        )

    def _read_item(self, item: Item) -> dict[str, tuple[str, ...]]:
        reading = self._reader.find_values(item.message)
        self._drop_item(item.item_id)
        self._words.add(item.item_id, item.message)
        if reading:
            self._readings[item.item_id] = reading
            for name, values in reading.items():
                for value in values:
                    self._holders.setdefault((name, value), set()).add(item.item_id)
        return reading

    def _drop_item(self, item_id: ItemId) -> None:
        self._words.remove(item_id)
        for name, values in self._readings.pop(item_id, {}).items():
            for value in values:
                self._holders[name, value].discard(item_id)

    def _add_uses(self, message: Message, step: int) -> None:
        for call in message.calls:
            for name, value in self._template_matcher.match_call(call, self._list_candidates).items():
                state = self._facts[name]
                use = state.classify_use(value)
                self.uses.append(ToolCallUse(state.fact, use, step, call, value, state.current_value))
                for number in state.waiting_probes:
                    self._rows[number] = replace(self._rows[number], used_step=step, used=use)
                state.waiting_probes.clear()

    def _list_candidates(self, name: str) -> Iterable[str]:
        state = self._facts[name]
        key_values = [] if state.key_value is None else [state.key_value]
        return (*state.stated_values, *state.former_values, state.fact.prior, *key_values)

    def _add_compaction(self, seq: int, compaction: Compaction, before: View, after: View) -> None:
        newest_values = self.find_newest_values()
        visible_before = self._find_visible_facts(newest_values)
        first, changed_ids = find_difference(before.items, after.items), compaction.patch.changed_ids
        messages_before = {item.item_id: item.message for item in before.items[first:] if item.item_id in changed_ids}
        items_after = [item for item in after.items[first:] if item.item_id in changed_ids or item.item_id.event == seq]
        changed_items = [item for item in items_after if messages_before.get(item.item_id) is not item.message]
        kept_ids = {item.item_id for item in items_after} - {item.item_id for item in changed_items}
        for item_id in messages_before.keys() - kept_ids:
            self._drop_item(item_id)
        visible_in_kept = self._find_visible_facts(newest_values) if compaction.summarizer else set()
        for item in changed_items:
            self._read_item(item)
        visible_after = self._find_visible_facts(newest_values)
        is_summarized = bool(compaction.summarizer)
        for name, value in newest_values.items():  # in the order of the facts
            seen_before, seen_after = name in visible_before, name in visible_after
            if not (seen_before or seen_after):
                continue
            state = self._facts[name]
            state.waiting_probes.append(len(self._rows))
            self._rows.append(
                ProbeRecord(
                    event=seq,
                    fact=self._numbers[name],
                    version=len(state.stated_values),
                    seen_before=seen_before,
                    seen_after=seen_after,
                    seen_in_kept=name in visible_in_kept if is_summarized else None,
                    stands_after=self._contains_value(value, is_contained=seen_after),
                )
            )

    def _contains_value(self, value: str, *, is_contained: bool) -> bool | None:
        """Return whether a message in view has a value as a whole word or number; None if the value is too short to tell.

        With `is_contained`, the value is already known to be in one.
        """
        if len(value) < MIN_DISTINCTIVE_CHARACTERS:
            return None
        return is_contained or self._words.contains(value)

    def find_visible_facts(self) -> set[str]:
        """Return the names of the facts whose newest value can be read in a message that the model sees."""
        return self._find_visible_facts(self.find_newest_values())

    def _find_visible_facts(self, newest_values: Mapping[str, str]) -> set[str]:
        return {name for name, value in newest_values.items() if self._holders.get((name, value))}

    def find_newest_values(self) -> dict[str, str]:
        """Return the newest stated value of each fact by name; facts that no message has stated yet are left out."""
        return {name: state.stated_values[-1] for name, state in self._facts.items() if state.stated_values}

    def list_holders(self, name: str) -> list[ItemId]:
        """Return the ids of the messages in view that show the newest value of a fact, oldest first."""
        values = self._facts[name].stated_values[-1:]
        return sorted(item_id for value in values for item_id in self._holders.get((name, value), ()))


def find_token(text: str, value: str) -> int:
    """Return the position at which a text contains a value as a whole word or number, or -1."""
    position = -1
    while (position := text.find(value, position + 1)) >= 0:
        end = position + len(value)
        is_part = _is_same_token(text[position - 1 : position], value[0]) or _is_same_token(value[-1], text[end : end + 1])
        if not is_part:
            return position
    return -1


def _is_same_token(left: str, right: str) -> bool:
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


class MetricsAndProbes(NamedTuple):
    """Results of measuring a session: metrics of the agent's behaviour, and which facts it could see (probes)."""

    metrics: SessionMetrics
    probes: Probes


def measure_session(entries: Iterable[Entry], task: Task | None, counter: Counter, reader: Reader = EXACT) -> MetricsAndProbes:
    """Compute from a session's log how the agent behaved and which facts it could still see after each compaction.

    Args:
        entries: Log of the session.
        task: Task of the session, with its answer key. Without a task there are no facts, and so no probes.
        counter: Token counter of the session's compaction policy.
        reader: Rule by which a scripted model finds values in the texts that it sees.
    """
    retrievals = TemplateSignatures([fact.recover for fact in task.facts if fact.recover] if task else ())
    call_metrics, prober = CallMetricsBuilder(counter, retrievals), FactProber(task, reader) if task else None
    effects, view = EffectsBuilder(with_recency=False), View()
    for group, compaction in _group_by_compaction(entries):
        before, view = view, fold_entries(view, group, counter)
        items = iter(view.items[len(before.items) :])
        for entry in group:
            effects.add_entry(entry, view, view)
            if isinstance(entry.event, MessageAdded):
                item = next(items)
                call_metrics.add_message(entry, entry.event, item, view.rounds)
                if prober is not None:
                    prober.add_message(entry.event, item)
            else:
                call_metrics.add_entry(entry, view, view)
        if compaction is not None:
            before, view = view, fold(view, compaction, counter)
            call_metrics.add_entry(compaction, before, view)
            effects.add_entry(compaction, before, view)
            if prober is not None:
                prober.add_entry(compaction, before, view)
    metrics = replace(call_metrics.build_metrics(), **summarize_effects(effects.build_effects()))
    if prober is None:
        return MetricsAndProbes(metrics, Probes())
    return MetricsAndProbes(prober.add_use_counts(metrics), prober.build_probes())


def _group_by_compaction(entries: Iterable[Entry]) -> Iterator[tuple[list[Entry], Entry | None]]:
    """Yield log entries in groups, each with the applied compaction that follows; no compaction follows the last group."""
    group: list[Entry] = []
    for entry in entries:
        if isinstance(entry.event, Compaction) and entry.event.status == "applied":
            yield group, entry
            group = []
        else:
            group.append(entry)
    yield group, None
