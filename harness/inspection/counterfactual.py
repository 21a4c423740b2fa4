"""A policy tried on a session that is over, step by step, without an agent, a tool or a model.

The session's own messages are told again in their order, and before each step the policy is asked as a live session asks it:
the same `plan`, the same guards, the same fold. Where it wants a summary a stand-in of a given length is put. What the agent
would have done otherwise is not known: this shows what a policy takes out of a conversation, not what that costs.

The session is shown as if nobody had compacted it before: compactions of its own log are left out. Tool outputs stand as they
were logged. Where a policy goes by the provider's report it is told the estimate.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from harness.compaction.compactor import SessionCompactor
from harness.compaction.scaling import fit_policy
from harness.errors import UsageError
from harness.events import Compaction, Entry, Hook, ItemId, MessageAdded, Signal, StepFinished, TextDelta
from harness.inspection.disposition import Fate
from harness.inspection.recorded_session import RecordedSession
from harness.messages import Message, assistant
from harness.protocols import Policy, Reply, Request, ignore_delta
from harness.store.memory import MemoryOutputs
from harness.tokens import Budget, Counter, Estimated, Measured, QuarterOfCharacters, Usage, Window
from harness.view import View, drop_rolled_back, fold

SUMMARY_TOKENS = 800
LINE = "This line stands in for a line of the summary, which nobody was asked to write.\n"
CHARACTERS_OF_A_TOKEN = 4
ROOM = Window(tokens=10**9, source="configuration")
"""Of the stand-in: a policy is shown as it is meant."""


class Step(NamedTuple):
    """A step of a session, in messages told from its beginning."""

    finished: StepFinished
    turn: int | None
    """Told when a turn of the user began before it; None = none did."""
    sent: int
    """Told when its model call was made."""
    end: int
    """Told when it was over."""


class Course:
    """The messages of a session in order, and where its steps are. Counts are kept, so that it can be rehearsed often."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Read a log.

        Raises:
            UsageError: it has no step.
        """
        self.messages: tuple[Message, ...] = ()
        self.steps: tuple[Step, ...] = ()
        messages: list[Message] = []
        steps: list[Step] = []
        for entry in drop_rolled_back(entries):
            if isinstance(entry.event, MessageAdded):
                messages.append(entry.event.message)
            elif isinstance(entry.event, StepFinished):
                steps.append(_step(entry.event, steps, messages))
        self.messages, self.steps = tuple(messages), tuple(steps)
        if not steps:
            raise UsageError("this session has no step, so there is nothing to show")
        self._counts: dict[Counter, _Counted] = {}

    def counted(self, counter: Counter) -> Counter:
        """The same estimate, which knows the tokens of these messages."""
        if counter not in self._counts:
            self._counts[counter] = _Counted(counter, {id(one): counter.count(one) for one in self.messages})
        return self._counts[counter]


def _step(event: StepFinished, before: list[Step], messages: list[Message]) -> Step:
    start = before[-1].end if before else 0
    answers = (index for index in range(len(messages) - 1, start - 1, -1) if messages[index].role == "assistant")
    sent = next(answers, len(messages))
    return Step(finished=event, turn=start if before and sent > start else None, sent=sent, end=len(messages))


@dataclass(frozen=True, slots=True)
class _Counted:
    counter: Counter
    known: Mapping[int, Estimated]
    """By identity of the messages of a course, which lives as long as this."""

    def count(self, message: Message) -> Estimated:
        known = self.known.get(id(message))
        return self.counter.count(message) if known is None else known


@dataclass(frozen=True, slots=True)
class _StandIn:
    """Writes summaries of a given length that say nothing."""

    tokens: int
    name: str = "stand-in"
    window: Window = ROOM

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore_delta) -> Reply:
        """See `harness.protocols.Model`."""
        tokens = min(self.tokens, request.max_output_tokens or self.tokens)
        characters = max(1, tokens * CHARACTERS_OF_A_TOKEN)
        text = (LINE * (characters // len(LINE) + 1))[:characters]
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(tokens))
        return Reply(message=assistant(text), usage=usage, seconds=0.0, cost_usd=0.0)


class Scene(NamedTuple):
    """What is known right before a model call."""

    step: Step
    view: View
    """What would be sent."""
    attempts: int
    """Attempts at a compaction up to now."""


class Standing(NamedTuple):
    """What has become of one message up to a step."""

    fate: Fate
    tokens_before: int
    tokens_after: int
    """In view; 0 = it is not."""
    since: int
    """Step before which it met this fate; 0 = nothing has happened to it."""
    told_by: ItemId | None = None
    """The summary in view that tells of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Under which policy a session is rehearsed."""

    policy: Policy
    window_tokens: int
    nominal_window_tokens: int | None = None
    """The window that the policy's constants were made for; None = they are not scaled."""
    summary_tokens: int = SUMMARY_TOKENS
    """Length of a stand-in, unless the policy allows less."""


class Rehearsal:
    """A session under a policy, from its first step on."""

    def __init__(self, session: RecordedSession, course: Course, setting: Setting) -> None:
        """Before the first step.

        Args:
            session: tells a clairvoyant policy what it must know.
            course: of that session.
            setting: under what.

        Raises:
            UsageError: the policy does not work in this window, or must know a future that nobody knows.
        """
        window = Window(tokens=setting.window_tokens, source="configuration")
        fit = fit_policy(setting.policy, window, setting.nominal_window_tokens)
        policy = _informed(fit.policy, session)
        self._compactor = SessionCompactor(
            policy=policy, window=window, summarizer=_StandIn(setting.summary_tokens), outputs=MemoryOutputs()
        )
        self.course = course
        self.budget: Budget = self._compactor.budget
        self.rule = fit.describe_rule(self.budget.rule)
        """How the window is divided, in words and numbers."""
        self.counter = course.counted(policy.counter)
        self.scenes: list[Scene] = []
        self.attempts: list[Entry] = []
        """Compactions, fruitless ones too, in order."""
        self._items: list[ItemId] = []
        """Of each message of the course."""
        self._view, self._usage = View(), cast("Usage | None", None)
        self._seq = 1  # a log begins with its start; so ids are those of a live session, and draws from them too

    @property
    def done(self) -> bool:
        """Whether the last step was rehearsed."""
        return len(self.scenes) == len(self.course.steps)

    def advance(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Rehearse steps until all are done, or it is enough; at least one if there is one.

        Raises:
            IllegalPlan: the policy broke a guard.
        """
        while not self.done:
            self._rehearse(self.course.steps[len(self.scenes)])
            if enough():
                return

    def _rehearse(self, step: Step) -> None:
        if step.turn is not None:
            self._compact(step, "turn")
        self._tell(step.sent)
        self._compact(step, "step")
        if self._view.tokens > self.budget.window_tokens > 0:
            self._compact(step, "overflow")
        self.scenes.append(Scene(step, self._view, len(self.attempts)))
        sent_tokens = self._view.tokens
        self._tell(step.end)
        self._fold(step.finished)
        written = self.counter.count(self.course.messages[step.sent]) if step.end > step.sent else 0
        self._usage = Usage(input_tokens=Measured(sent_tokens), output_tokens=Measured(written))

    def _tell(self, end: int) -> None:
        """Tell the messages up to one."""
        for message in self.course.messages[len(self._items) : end]:
            self._items.append(ItemId(self._fold(MessageAdded(message=message, step=0)).seq))

    def _compact(self, step: Step, moment: Hook) -> None:
        """Let the policy fit the view."""
        edits = self._view.edits
        event = self._compactor.compact(self._view, self._usage, step.finished.step, moment, _ignored)
        if event is not None:
            self.attempts.append(self._fold(event))
        if self._view.edits != edits:
            self._usage = None  # it told of a view that is no more

    def _fold(self, event: MessageAdded | StepFinished | Compaction) -> Entry:
        """The view after one more event."""
        self._seq += 1
        entry = Entry(self._seq, event)
        self._view = fold(self._view, entry, self.counter)
        return entry

    def standings(self, index: int) -> list[Standing]:
        """What has become of each message that was told before a model call.

        Args:
            index: of the scene.
        """
        scene = self.scenes[index]
        shown = {item.item_id: item.tokens for item in scene.view.items}
        edited = {item for item, _ in scene.view.original_tokens}
        happened = _Happened.up_to(self.attempts[: scene.attempts])
        told = zip(self._items[: scene.step.sent], self.course.messages, strict=False)
        return [_standing(item, self.counter.count(message), shown, edited, happened) for item, message in told]

    def item(self, message: int) -> ItemId:
        """The id of a message of the course, by its number from 0."""
        return self._items[message]


def _standing(item: ItemId, before: int, shown: Mapping[ItemId, int], edited: set[ItemId], happened: "_Happened") -> Standing:
    since = happened.since.get(item, 0)
    if item in shown:
        return Standing("masked" if item in edited else "kept", before, shown[item], since)
    teller = happened.teller(item, shown)
    return Standing("dropped" if teller is None else "summarized", before, 0, since, teller)


@dataclass(slots=True)
class _Happened:
    """What some compactions did, by message."""

    since: dict[ItemId, int] = field(default_factory=dict)
    told_by: dict[ItemId, ItemId] = field(default_factory=dict)

    @classmethod
    def up_to(cls, attempts: Iterable[Entry]) -> "_Happened":
        happened = cls()
        for seq, event in attempts:
            if isinstance(event, Compaction) and event.status == "applied":
                gone = (*event.patch.forget, *(change.item for change in event.patch.replace))
                happened.since.update(dict.fromkeys(gone, event.step))
                for slot, insert in enumerate(event.patch.insert):
                    happened.told_by.update(dict.fromkeys(insert.stands_for, ItemId(seq, slot)))
        return happened

    def teller(self, item: ItemId, shown: Mapping[ItemId, int]) -> ItemId | None:
        """The summary in view that tells of a message, through the summaries that took each other's place."""
        teller = self.told_by.get(item)
        while teller is not None and teller not in shown:
            teller = self.told_by.get(teller)
        return teller


def _informed(policy: Policy, session: RecordedSession) -> Policy:
    inform = getattr(policy, "with_oracle", None)
    if inform is None:
        return policy
    if session.oracle is None:
        kind = getattr(policy, "kind", "")
        raise UsageError(f"policy {kind!r} must know what will be needed, and of this session nobody does; choose another")
    informed: Policy = inform(session.oracle)
    return informed


def _ignored(_: Signal) -> None:
    """A notice of the policy, or that it waits for a summary that is a stand-in."""


def uncompacted(course: Course, counter: Counter | None = None) -> Iterator[int]:
    """Tokens of the whole conversation before each model call."""
    count = course.counted(counter or QuarterOfCharacters()).count
    total, told = 0, 0
    for step in course.steps:
        total += sum(count(message) for message in course.messages[told : step.sent])
        told = step.sent
        yield total
