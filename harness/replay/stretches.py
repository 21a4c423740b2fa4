"""Stretches of a session between the compactions that its own agent made, each with the view that it began with.

In a stretch nothing was compacted, so any policy can be tried on it as if it were a session of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.conversation.events import Compaction, Entry, MessageAdded, SessionStarted, StepFinished, StepTimed
from harness.conversation.messages import Message
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import View, drop_rolled_back, fold, fold_entries
from harness.inspection.calibration import EditedRead
from harness.recordings.session_log import UNKNOWN_SUMMARY


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Part of a session's log between two compactions, as a log of its own."""

    entries: tuple[Entry, ...]
    """Messages of the view with which the stretch begins, then the messages and steps that followed."""
    times_ms: tuple[int, ...]
    """Time of each entry in milliseconds since the epoch; empty if unknown."""
    opening_messages: int
    """Number of messages of the view with which the stretch begins; 0 for the beginning of the session."""
    shared_messages: int
    """Number of messages at the beginning of that view that the last request before the compaction also began with."""
    is_known: bool
    """Whether the log says with which messages the stretch began."""
    opening: Compaction | None
    """Compaction after which the stretch begins; None for the beginning of the session."""

    @property
    def steps(self) -> tuple[StepFinished, ...]:
        """Finished steps of the stretch, in order."""
        return tuple([entry.event for entry in self.entries if isinstance(entry.event, StepFinished)])


def split_stretches(entries: Sequence[Entry], times_ms: Sequence[int] = ()) -> list[Stretch]:
    """Return the stretches of a session that have at least one finished step, in order.

    Args:
        entries: Log of the session, with the compactions of its agent.
        times_ms: Time of each entry in milliseconds since the epoch. Default: unknown.
    """
    times = dict(zip([entry.seq for entry in entries], times_ms, strict=False))
    counter, view, sent = QuarterOfCharacters(), View(), tuple[Message, ...]()
    stretches: list[Stretch] = []
    builder = _Builder(None, (), (), 0)
    unfolded: list[Entry] = []  # the view is needed at compactions only
    for entry in drop_rolled_back(entries):
        unfolded.append(entry)
        event, at_ms = entry.event, times.get(entry.seq, 0)
        match event:
            case SessionStarted():
                builder.at_ms = at_ms
            case MessageAdded():
                builder.add(event, at_ms)
            case StepFinished() | StepTimed():
                builder.add(event, at_ms)
            case Compaction(status="applied") if event.patch.forget or event.patch.replace or event.patch.insert:
                stretches += builder.finish(has_times=bool(times))
                before = fold_entries(view, unfolded[:-1], counter)
                if any(isinstance(one.event, MessageAdded) and one.event.message.role == "assistant" for one in unfolded):
                    sent = _list_sent(before)
                view, unfolded = fold(before, entry, counter), []
                builder = _Builder(event, tuple([item.message for item in view.items]), sent, at_ms)
    return [*stretches, *builder.finish(has_times=bool(times))]


def list_edited_reads(stretches: Sequence[Stretch]) -> Iterator[EditedRead]:
    """Yield what the provider read for the first request of each stretch but the first, given all stretches of a session.

    A stretch without an answer in the log, with impossible usage of its first step, or with an unknown view yields nothing.
    """
    for before, stretch in pairwise(stretches):
        first = _find_answer(stretch, range(stretch.opening_messages, len(stretch.entries)))
        last = _find_answer(before, range(len(before.entries) - 1, -1, -1))
        if first is None or last is None or stretch.steps[0].impossible_usage or not stretch.is_known:
            continue
        asked_ms = stretch.times_ms[first - 1] if first and stretch.times_ms else 0
        yield EditedRead(
            read_tokens=stretch.steps[0].usage.cache_read_tokens,
            written_tokens=stretch.steps[0].usage.cache_write_tokens,
            kept_messages=stretch.shared_messages,
            new_messages=sum(isinstance(entry.event, MessageAdded) for entry in stretch.entries[:first])
            - stretch.shared_messages,
            pause_seconds=(asked_ms - before.times_ms[last]) / 1_000 if before.times_ms else 0.0,
        )


def _find_answer(stretch: Stretch, places: range) -> int | None:
    """Return the first of some places in a stretch at which there is an answer; None if the log has none there."""
    return next((place for place in places if _is_answer(stretch.entries[place])), None)


def _is_answer(entry: Entry) -> bool:
    return isinstance(entry.event, MessageAdded) and entry.event.message.role == "assistant"


def _list_sent(view: View) -> tuple[Message, ...]:
    """Return the messages in view before the last answer: those of the last request."""
    answers = (place for place in reversed(range(len(view.items))) if view.items[place].message.role == "assistant")
    return tuple([item.message for item in view.items[: next(answers)]])


class _Builder:
    """Stretch that is being read."""

    def __init__(self, opening: Compaction | None, messages: Sequence[Message], sent: Sequence[Message], at_ms: int) -> None:
        self.opening, self.at_ms, self.messages, self.sent = opening, at_ms, messages, sent
        self.entries: list[Entry] = []
        self.times_ms: list[int] = []
        self.has_step = False
        for message in messages:
            self.add(MessageAdded(message=message, step=0), at_ms)

    def add(self, event: MessageAdded | StepFinished | StepTimed, at_ms: int) -> None:
        self.entries.append(Entry(len(self.entries) + 1, event))
        self.times_ms.append(at_ms)
        self.has_step |= isinstance(event, StepFinished)

    def finish(self, *, has_times: bool) -> list[Stretch]:
        if not self.has_step:
            return []
        pairs = enumerate(zip(self.messages, self.sent, strict=False))
        same = next((place for place, (one, other) in pairs if one != other), min(len(self.messages), len(self.sent)))
        stretch = Stretch(
            entries=tuple(self.entries),
            times_ms=tuple(self.times_ms) if has_times else (),
            opening_messages=len(self.messages),
            shared_messages=same,
            is_known=not any(message.text == UNKNOWN_SUMMARY for message in self.messages),
            opening=self.opening,
        )
        return [stretch]


def renumber_steps(stretch: Stretch) -> Stretch:
    """Return a stretch whose steps are numbered from 1, as in a session of its own."""
    first = stretch.steps[0].step - 1
    if not first:
        return stretch
    entries = [
        Entry(entry.seq, replace(entry.event, step=max(0, entry.event.step - first)))
        if isinstance(entry.event, MessageAdded | StepFinished | StepTimed)
        else entry
        for entry in stretch.entries
    ]
    return replace(stretch, entries=tuple(entries))
