"""History of the facts of a session: in which messages their values stood, and what compactions and tool calls did to them.

The history is collected from the log in one pass. Facts and their uses are found by `FactProber`, which also fills the table of
probes.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded, StepFinished
from harness.conversation.messages import Message, ToolCall
from harness.conversation.tokens import Counter
from harness.conversation.transcript import find_key_argument
from harness.conversation.view import Item, View, drop_rolled_back, fold
from harness.inspection.disposition import Disposition
from harness.inspection.sample_run import CompactionAttempt
from harness.metrics.session_metrics import MIN_DISTINCTIVE_CHARACTERS, FactProber, find_token
from harness.models.scripted.patterns import build_call_key, list_look_ups
from harness.models.scripted.profiles import Reader
from harness.models.scripted.visible_state import FactReader, extract_searchable_text
from harness.store.records import FactUse
from harness.task import Fact, Task
from harness.text import shorten_line

CONTEXT_CHARACTERS = 70
"""Number of characters around a value that a view quotes on each side."""
MAX_VALUE_CHARACTERS = 200
MAX_CALL_CHARACTERS = 80
MIN_WORD_CHARACTERS = 3
"""Minimum length of the words of a fact's name by which a summary is searched for a sentence about the fact."""

Speaker: TypeAlias = Literal["user", "assistant", "tool", "system", "summary"]


class Holding(NamedTuple):
    """Message that shows the value of a fact, with the text around the value."""

    label: str
    """Place of the message, e.g. `step 12, output of read_file tools/schema.py`."""
    step: int
    """Number of the step in which the message was added; 0 before the first step."""
    text_before: str
    """Text before the value in its line, shortened to the part next to the value."""
    value: str
    """Value as it stands in the message; empty if the message only mentions the fact."""
    text_after: str


class FactChange(NamedTuple):
    """Effect of one compaction on one fact that was in view before it; fields as in `FactFate`."""

    name: str
    kind: str
    value: str
    before: Holding
    action: Disposition
    after: Holding | None
    is_kept: bool


class CompactionChanges(NamedTuple):
    """Applied compaction with its effects on the facts that were in view before it."""

    round: int
    event: int
    step: int
    step_index: int
    """Number of steps that had finished before the compaction."""
    changes: tuple[FactChange, ...]
    attempt: CompactionAttempt
    """Compaction with the messages before and after it."""


class PlacedUse(NamedTuple):
    """Use of a fact in a tool call, with its place in the session."""

    name: str
    event: int
    """Number of the event that added the message with the call."""
    step: int
    step_index: int
    """Index of the step over the finished steps, from 0."""
    use: FactUse
    call: str
    """Tool and main argument of the call."""
    value: str
    right_value: str
    origin: str
    """Place from which the agent had a wrong or outdated value, in words; empty for a right use."""


class Appearance(NamedTuple):
    """Message, or compaction, that brought the newest value of a fact into view."""

    name: str
    event: int
    step: int
    step_index: int
    """Index of the step over the finished steps, from 0."""
    role: Speaker
    value: str
    look_up: "tuple[AnsweredCall, ...]"
    """Call whose result shows the value, after the calls directly before it that the task knows as look-ups of the fact.

    Empty if no tool result showed the value, and if no compaction had removed it before.
    """
    was_lost: bool
    """Whether a compaction had removed the value, or an older value of the fact, before."""


class AnsweredCall(NamedTuple):
    """Tool call with a result."""

    event: int
    """Number of the event that added the result."""
    call: ToolCall
    tokens: int
    """Estimated tokens in the result; results in one message have equal shares."""


class FactHistory:
    """Collector of what happened to the facts of a session, from its log.

    Args:
        task: Task of the session; None for a session without facts, of which only steps and compactions are collected.
        counter: Token counter of the session's compaction policy.
        reader: Rule by which a scripted model finds values in texts.
    """

    def __init__(self, task: Task | None, counter: Counter, reader: Reader) -> None:
        self.facts: dict[str, Fact] = {fact.name: fact for fact in task.facts} if task else {}
        self.kinds: dict[str, str] = {name: fact.kind for name, fact in self.facts.items()}
        """Kind of each fact by name, in the order of the task."""
        self.steps: list[int] = []
        """Numbers of the finished steps."""
        self.visible_by_step: list[frozenset[str]] = []
        """Names of the facts that each finished step's request showed."""
        self.compactions: list[CompactionChanges] = []
        self.uses: list[PlacedUse] = []
        self.appearances: list[Appearance] = []
        self._counter = counter
        self._prober = FactProber(task, reader) if task and task.facts else None
        self._reader = FactReader(tuple(self.facts.values()), reader)
        self._visible: frozenset[str] = frozenset()
        self._request_visible: frozenset[str] = frozenset()
        self._lost_at: dict[str, int] = {}
        """Number of the event of the newest compaction that removed each fact."""
        self._labels: dict[ItemId, tuple[str, int]] = {}
        self._calls: dict[str, ToolCall] = {}
        self._answered: list[AnsweredCall] = []
        self._messages: dict[ItemId, Message] = {}
        """All messages so far, those that are no longer in view included."""

    def read(self, entries: Iterable[Entry]) -> None:
        """Collect the history from the log of a session, from its beginning."""
        view = View()
        for entry in drop_rolled_back(entries):
            before, view = view, fold(view, entry, self._counter)
            match entry.event:
                case MessageAdded() as added:
                    self._add_message(entry.seq, added, view.items[-1], before)
                    self._messages[view.items[-1].item_id] = added.message
                case Compaction(status="applied") as compaction:
                    self._add_compaction(entry, compaction, before, view)
                    self._messages.update((item.item_id, item.message) for item in view.items if item.item_id.event == entry.seq)
                case StepFinished() as finished:
                    self.steps.append(finished.step)
                    self.visible_by_step.append(self._request_visible)

    def find_use(self, name: str, after_event: int) -> PlacedUse | None:
        """Return the first use of a fact in a tool call after an event; None if there is none."""
        return next((use for use in self.uses if use.name == name and use.event > after_event), None)

    def find_appearance(self, name: str, after_event: int) -> Appearance | None:
        """Return the first message after an event that brought a fact into view; None if there is none."""
        return next((one for one in self.appearances if one.name == name and one.event > after_event), None)

    def find_loss(self, name: str, after_event: int) -> CompactionChanges | None:
        """Return the first compaction after an event that lost a fact; None if there is none."""
        later = (compaction for compaction in self.compactions if compaction.event > after_event)
        return next((one for one in later if any(change.name == name and not change.is_kept for change in one.changes)), None)

    def _add_message(self, seq: int, added: MessageAdded, item: Item, before: View) -> None:
        message = added.message
        self._label(item.item_id, added)
        if message.role == "assistant":
            self._request_visible = self._visible
        for call in message.calls:
            self._calls[call.call_id] = call
        for result in message.results:
            if answered_call := self._calls.get(result.call_id):
                self._answered.append(AnsweredCall(seq, answered_call, item.tokens // len(message.results)))
        if self._prober is None:
            return
        count = len(self._prober.uses)
        self._prober.add_message(added, item)
        for use in self._prober.uses[count:]:
            call_text = f"{use.call.name} {shorten_line(find_key_argument(use.call), MAX_CALL_CHARACTERS)}"
            right_value = "" if use.right_value is None else use.right_value
            place = (seq, use.step, len(self.steps))
            values = shorten_line(use.value, MAX_VALUE_CHARACTERS), shorten_line(right_value, MAX_VALUE_CHARACTERS)
            origin = "" if use.use == "right" else self._find_origin(use.fact, use.value, before)
            self.uses.append(PlacedUse(use.fact.name, *place, use.use, call_text, *values, origin))
        self._update_visible(seq, added.step, message.role)

    def _find_origin(self, fact: Fact, value: str, view: View) -> str:
        """Return from where the agent had a wrong value of a fact, in words.

        Args:
            fact: Fact for which the agent used the value.
            value: Wrong or outdated value.
            view: Messages that the model saw before the call.
        """
        seen = {item.item_id: item.message for item in view.items}
        for item_id, message in reversed(seen.items()):
            if value in self._reader.find_values(message).get(fact.name, ()):
                return f"{self._name_place(item_id)}, which states it for {fact.name}"
        if value == fact.prior:
            return f"a guess; no message in view states it for {fact.name}"
        for item_id, message in reversed(seen.items()):
            others = [name for name, values in self._reader.find_values(message).items() if value in values]
            if others:
                return f"{self._name_place(item_id)}, which states it for {', '.join(others)}"
        if len(value) >= MIN_DISTINCTIVE_CHARACTERS:
            gone = {item_id: message for item_id, message in self._messages.items() if seen.get(item_id) is not message}
            for messages, state in ((seen, "in view"), (gone, "no longer in view")):
                for item_id, message in reversed(messages.items()):
                    if find_token(extract_searchable_text(message), value) >= 0:
                        return f"perhaps {self._name_place(item_id)}, {state}, which contains it"
        return "a guess; no earlier message states it"

    def _name_place(self, item_id: ItemId) -> str:
        return self._labels.get(item_id, ("an earlier message", 0))[0]

    def _update_visible(self, seq: int, step: int, role: Speaker) -> None:
        assert self._prober is not None
        visible = frozenset(self._prober.find_visible_facts())
        values = self._prober.find_newest_values()
        for name in sorted(visible - self._visible):
            lost_at = self._lost_at.get(name)
            look_up = self._find_look_up(name, lost_at, seq) if lost_at is not None and role == "tool" else ()
            value = shorten_line(values[name], MAX_VALUE_CHARACTERS)
            place = (seq, step, len(self.steps))
            self.appearances.append(Appearance(name, *place, role, value, look_up, was_lost=lost_at is not None))
        self._visible = visible

    def _find_look_up(self, name: str, lost_at: int, shown_at: int) -> tuple[AnsweredCall, ...]:
        """Return the calls that brought a lost fact back into view, oldest first, the last of which shows its value."""
        keys = {build_call_key(call) for call in list_look_ups(self.facts[name])}
        found: list[AnsweredCall] = []
        for answered in reversed(self._answered):
            key = answered.call.name, find_key_argument(answered.call)
            if answered.event <= lost_at or (answered.event < shown_at and key not in keys):
                break
            found.append(answered)
        return tuple(reversed(found))

    def _add_compaction(self, entry: Entry, compaction: Compaction, before: View, after: View) -> None:
        for slot, insert in enumerate(compaction.patch.insert):
            kind = "summary" if insert.stands_for or compaction.summary else "text inserted"
            label = (
                f"{kind} of compaction {compaction.round}" if kind == "summary" else f"{kind} by compaction {compaction.round}"
            )
            self._labels[ItemId(entry.seq, slot)] = label, compaction.step
        changes: tuple[FactChange, ...] = ()
        if self._prober is not None:
            visible = sorted(self._visible, key=list(self.facts).index)
            values = self._prober.find_newest_values()
            holders = {name: self._prober.list_holders(name) for name in visible}
            self._prober.add_entry(entry, before, after)
            changes = tuple(self._build_changes(entry.seq, compaction, (before, after), values, holders))
            self._update_visible(entry.seq, compaction.step, "summary")
            self._lost_at.update((change.name, entry.seq) for change in changes if not change.is_kept)
        place = (compaction.round, entry.seq, compaction.step, len(self.steps))
        self.compactions.append(CompactionChanges(*place, changes, CompactionAttempt(compaction, before, after)))

    def _build_changes(
        self,
        seq: int,
        compaction: Compaction,
        views: tuple[View, View],
        values: dict[str, str],
        holders: dict[str, list[ItemId]],
    ) -> Iterator[FactChange]:
        """Yield the effects of a compaction on the facts in view before it.

        Args:
            seq: Number of the compaction's event.
            compaction: Applied compaction.
            views: Messages before and after it.
            values: Newest value of each fact, by its name.
            holders: Ids of the messages that showed the newest value before the compaction, oldest first, by name of the fact.
        """
        assert self._prober is not None
        replaced = {change.item for change in compaction.patch.replace}
        inserts = {ItemId(seq, slot): insert for slot, insert in enumerate(compaction.patch.insert)}
        covering = {item: summary_id for summary_id, insert in inserts.items() for item in insert.stands_for}
        before, after = ({item.item_id: item.message for item in view.items} for view in views)
        for name, ids in holders.items():
            value, newest = values[name], ids[-1]
            kept = self._prober.list_holders(name)
            action: Disposition
            if kept:
                carrier = next((item for item in reversed(kept) if item in before and item not in replaced), kept[-1])
                action = "masked" if carrier in replaced else "kept" if carrier in before else "summarized"
                shown: Holding | None = self._quote(name, value, carrier, after[carrier])
            else:
                action = "masked" if newest in replaced else "summarized" if newest in covering else "dropped"
                sources = [newest] if newest in replaced else [covering.get(newest, newest), *inserts]
                candidates = [item for item in dict.fromkeys(sources) if item in after]
                mentions = (self._quote_mention(name, value, item, after[item]) for item in candidates)
                shown = next((mention for mention in mentions if mention is not None), None)
            held, short = self._quote(name, value, newest, before[newest]), shorten_line(value, MAX_VALUE_CHARACTERS)
            yield FactChange(name, self.kinds[name], short, held, action, shown, is_kept=bool(kept))

    def _quote(self, name: str, value: str, item_id: ItemId, message: Message) -> Holding:
        """Quote the line of a message that shows the value of a fact."""
        text = extract_searchable_text(message)
        matches = [match for match in self._reader.find_newest(message) if (match.name, match.value) == (name, value)]
        start = text.find(value, matches[0].offset) if matches else find_token(text, value)
        return self._cut_out(item_id, text, max(start, 0), len(value) if start >= 0 else 0)

    def _quote_mention(self, name: str, value: str, item_id: ItemId, message: Message) -> Holding | None:
        """Quote the line of a message that has the value in other words or, without the value, the words of the fact's name."""
        text = extract_searchable_text(message)
        if len(value) >= MIN_DISTINCTIVE_CHARACTERS and (position := find_token(text, value)) >= 0:
            return self._cut_out(item_id, text, position, len(value))
        words = {word for word in name.lower().split("_") if len(word) >= MIN_WORD_CHARACTERS}
        position = 0
        for line in text.splitlines(keepends=True):
            if words and all(word in line.lower() for word in words):
                return self._cut_out(item_id, text, position, 0)
            position += len(line)
        return None

    def _cut_out(self, item_id: ItemId, text: str, start: int, length: int) -> Holding:
        label, step = self._labels.get(item_id, ("", 0))
        line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", start + length)
        left, right = text[line_start:start], text[start + length : None if line_end < 0 else line_end]
        context = CONTEXT_CHARACTERS if length else 2 * CONTEXT_CHARACTERS
        left = left if len(left) <= context else f"…{left[-context:]}"
        right = right if len(right) <= context else f"{right[:context]}…"
        return Holding(
            label, step, left.lstrip(), shorten_line(text[start : start + length], MAX_VALUE_CHARACTERS), right.rstrip()
        )

    def _label(self, item_id: ItemId, added: MessageAdded) -> None:
        message, step = added.message, added.step
        match message.role:
            case "system":
                label = "system prompt"
            case "user":
                has_asked = any(known == "request" for known, _ in self._labels.values())
                label = f"message of the user before step {len(self.steps) + 1}" if has_asked else "request"
            case "assistant":
                label = f"step {step}, the agent"
            case _:
                calls = [self._calls.get(result.call_id) for result in message.results]
                names = [f"{call.name} {shorten_line(find_key_argument(call), MAX_CALL_CHARACTERS)}" for call in calls if call]
                label = f"step {step}, output of {', '.join(names) or 'a tool'}"
        self._labels[item_id] = label, step
