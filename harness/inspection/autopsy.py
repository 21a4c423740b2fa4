"""Autopsy of a session's compactions: which facts each one removed from view, and what went wrong afterwards because of it.

For each applied compaction and each fact of the task that the model could see before it, the autopsy says where the value stood,
what the policy did to that message, whether the value is in view afterwards, and the first consequence: the agent used the value
right or wrong, looked it up again, or did not use it. For the whole session, a strip says for each fact at which steps the model
could see it. Facts are found as `harness.metrics.session_metrics` finds them, so that an autopsy agrees with the table of probes.

A consequence is the first event after the compaction that concerns the fact. A wrong value in a later step is therefore counted
once, for the compaction after which the fact was not in view again. Whether a check would have passed with the fact in view can
only be found out by a second session, a twin with the fact put back. Without twins, an autopsy says which failed checks need a
lost fact, not that the loss made them fail.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.conversation.events import Entry
from harness.conversation.tokens import Counter
from harness.errors import UsageError, format_count
from harness.inspection.disposition import Disposition
from harness.inspection.distinctive_words import CompactionWords, WordFinder, follow_words
from harness.inspection.fact_history import Appearance, FactChange, FactHistory, Holding, PlacedUse
from harness.inspection.sample_run import CompactionAttempt
from harness.models.scripted.profiles import EXACT, Reader
from harness.session.twins import CheckCause, Twins
from harness.store.records import CheckRecord
from harness.task import Task

Outcome: TypeAlias = Literal["wrong", "stale", "needed", "looked up", "stated again", "lost later", "right", "unused"]
"""First thing that happened to a fact after a compaction.

- `wrong`, `stale`: A tool call used a wrong value, or one that had been replaced.
- `looked up`: A tool call showed the lost value again before any use.
- `stated again`: A message of the user or of the agent, or a summary, showed the lost value again before any use.
- `lost later`: The value stayed in view, and a later compaction removed it before any use.
- `right`: A tool call used the right value.
- `needed`: In a replay under another policy, in place of `right`, `wrong` and `stale`: the recorded session used the fact. What
  the agent would have used is not known.
- `unused`: None of these.
"""
OUTCOMES: tuple[Outcome, ...] = ("wrong", "stale", "needed", "looked up", "stated again", "unused", "lost later", "right")
"""All outcomes, in the order in which a view lists them for lost facts: the gravest first."""
_WORDS = "so the view shows distinctive words instead of facts, or messages where it has none."
NO_TASK = f"The session has no task whose facts are known, {_WORDS}"
NO_FACTS = f"The task of the session has no facts, {_WORDS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFate:
    """Effect of one compaction on one fact that the model could see before it, and its first consequence.

    A fact is a value that the agent must remember.
    """

    name: str
    kind: str
    value: str
    """Newest value of the fact before the compaction."""
    before: Holding
    """Newest message in view before the compaction that shows the value."""
    action: Disposition
    """Effect of the policy on that message or, if another message still shows the value, on that other one."""
    after: Holding | None
    """Message in view after the compaction that shows the value, or that only mentions the fact if `is_kept` is False."""
    is_kept: bool
    """Whether the task's patterns find the value in the messages that the model sees after the compaction."""
    outcome: Outcome
    use: PlacedUse | None
    """First use of the fact in a tool call after the compaction; None if no call was recognised."""
    appearance: Appearance | None
    """First message after the compaction that shows the lost value again; None for a kept fact, or if there is none."""
    lost_by_round: int | None
    """Number of the later compaction that removed the value before any use; None unless the outcome is `lost later`."""
    failed_checks: tuple[str, ...]
    """Titles of the failed checks that need the fact."""

    @property
    def is_used_right(self) -> bool:
        """Whether the first use of the fact after the compaction was right, e.g. after the agent had looked it up again.

        Such a loss does not explain a failed check.
        """
        return self.use is not None and self.use.use == "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionAutopsy:
    """Effects of one applied compaction on all facts that the model could see before it."""

    round: int
    """Number of the compaction in the session, from 1."""
    event: int
    """Number of the compaction's event in the log of the session."""
    step: int
    """Number of the step before which the compaction took place."""
    step_index: int
    """Number of steps that had finished before the compaction."""
    fates: tuple[FactFate, ...]
    """Facts in view before the compaction: first those that it lost, the gravest outcome first, then those that it kept."""
    attempt: CompactionAttempt
    """Compaction with the messages that the model saw before and after it."""
    words: CompactionWords | None = None
    """Distinctive words of the evicted messages; None for a session whose facts are known."""

    @property
    def lost(self) -> tuple[FactFate, ...]:
        """Facts whose newest value the model can no longer see after the compaction."""
        return tuple(fate for fate in self.fates if not fate.is_kept)

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Titles of the failed checks that need a fact lost by this compaction."""
        return tuple(dict.fromkeys(title for fate in self.lost for title in fate.failed_checks))

    @property
    def explained_checks(self) -> tuple[str, ...]:
        """Titles of the failed checks that need a fact which this compaction lost, and which was not used right afterwards."""
        return tuple(dict.fromkeys(title for fate in self.lost if not fate.is_used_right for title in fate.failed_checks))


Visibility: TypeAlias = Literal["in view", "in view again"]
"""Whether the model saw a fact without interruption since it was stated (`in view`), or after it had been lost."""
MarkKind: TypeAlias = Literal["right", "wrong", "stale", "needed", "looked up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive steps at which the model could see a fact; steps are counted from 0 over the finished steps."""

    start: int
    end: int
    """Index of the first step after the span."""
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Use of a fact in a step, or the step in which the agent looked it up again."""

    step_index: int
    """Index of the step over the finished steps, from 0."""
    kind: MarkKind
    value: str
    """Value that was used, or that the look-up showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactStrip:
    """Steps at which the model could see one fact, used it, or looked it up again."""

    name: str
    kind: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCause:
    """Fact that a failed check needs, with the compaction that lost it and what happened then."""

    name: str
    round: int | None
    """Number of the compaction with the gravest consequence among those that lost the fact; None if none did."""
    outcome: Outcome | None
    step: int | None
    """Number of the step of the first consequence; None if there is none."""
    is_used_right: bool
    """Whether the fact was used right after that compaction, so that its loss does not explain the failed check."""

    @property
    def gravity(self) -> tuple[bool, int]:
        """Key that sorts causes, those that explain a failed check best first."""
        return self.is_used_right, len(OUTCOMES) if self.outcome is None else OUTCOMES.index(self.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """Failed check of the task, with the facts that it needs."""

    name: str
    title: str
    detail: str
    causes: tuple[FactCause, ...]
    """Facts that the check needs, those with the gravest consequence first; empty if it needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAutopsy:
    """Autopsies of all applied compactions of a session, and the steps at which the model could see each fact.

    Attributes:
        steps: Numbers of the finished steps, in order. Required.
        compactions: Applied compactions, in order. Required.
        strips: Facts that the model could see at any step; those with the gravest consequence first. Required.
        failed_checks: Failed checks of the task, in the order of the task; None if the checks of the session were not run or are
            not known. Required.
        notice: What is missing, and why; empty if nothing is. Required.
    """

    steps: tuple[int, ...]
    compactions: tuple[CompactionAutopsy, ...]
    strips: tuple[FactStrip, ...]
    failed_checks: tuple[FailedCheck, ...] | None
    notice: str

    def find_compaction(self, number: int) -> CompactionAutopsy:
        """Return the autopsy of the applied compaction with a number, from 1.

        Raises:
            UsageError: The session has no such compaction.
        """
        for compaction in self.compactions:
            if compaction.round == number:
                return compaction
        count = len(self.compactions)
        if not count:
            raise UsageError(f"autopsy: no compaction was applied in this session, so there is none with number {number}")
        known = "it has only number 1" if count == 1 else f"choose a number from 1 to {count}"
        raise UsageError(f"autopsy: the session has no compaction {number}; {known}")


def build_autopsy(
    entries: Iterable[Entry],
    task: Task | None,
    counter: Counter,
    *,
    reader: Reader = EXACT,
    checks: Sequence[CheckRecord] | None = None,
    notice: str = "",
    is_replay: bool = False,
    finder: WordFinder | None = None,
) -> SessionAutopsy:
    """Compute from a session's log which facts each compaction lost, and what happened to them afterwards.

    Args:
        entries: Log of the session; events that were rolled back are ignored.
        task: Task of the session. Without a task or without facts, the result has distinctive words of the session, but no facts.
        counter: Token counter of the session's compaction policy.
        reader: Rule by which a scripted model finds values in texts.
        checks: Results of the task's checks; None if they are not known.
        notice: Reason why the task is not known; empty for a standard text.
        is_replay: Whether the log is a replay of a recorded session under another policy, in which the tool calls stay those of
            the recorded session.
        finder: Finder of distinctive words that has read messages of the log before. Default: a new one.
    """
    history = FactHistory(task, counter, reader)
    log = tuple(entries)
    history.read(log)
    words = follow_words(log, counter, finder) if history.compactions and (task is None or not task.facts) else {}
    failed = None if checks is None else [check for check in checks if not check.passed]
    required = {check.name: check.required_facts for check in task.checks} if task else {}
    titles_by_fact: dict[str, list[str]] = {}
    for check in failed or ():
        for name in required.get(check.check, ()):
            titles_by_fact.setdefault(name, []).append(check.title)
    compactions = tuple(
        CompactionAutopsy(
            round=compaction.round,
            event=compaction.event,
            step=compaction.step,
            step_index=compaction.step_index,
            fates=_sort_fates(
                _build_fate(history, compaction.event, change, titles_by_fact, is_replay=is_replay)
                for change in compaction.changes
            ),
            attempt=compaction.attempt,
            words=words.get(compaction.event),
        )
        for compaction in history.compactions
    )
    if not notice and task is None:
        notice = NO_TASK
    elif task is not None and not task.facts:
        notice = NO_FACTS
    return SessionAutopsy(
        steps=tuple(history.steps),
        compactions=compactions,
        strips=_build_strips(history, compactions, is_replay=is_replay),
        failed_checks=None
        if failed is None
        else tuple(_explain_check(check, required.get(check.check, ()), compactions) for check in failed),
        notice=notice,
    )


def _sort_fates(fates: Iterable[FactFate]) -> tuple[FactFate, ...]:
    return tuple(sorted(fates, key=lambda fate: (fate.is_kept, OUTCOMES.index(fate.outcome), _find_step(fate) or 0)))


def _build_fate(
    history: FactHistory, event: int, change: FactChange, titles_by_fact: dict[str, list[str]], *, is_replay: bool
) -> FactFate:
    use = history.find_use(change.name, event)
    appearance = None if change.is_kept else history.find_appearance(change.name, event)
    loss = history.find_loss(change.name, event) if change.is_kept else None
    lost_by_round = loss.round if loss and (use is None or loss.event < use.event) else None
    outcome: Outcome
    if appearance is not None and (use is None or appearance.event < use.event):
        outcome = "looked up" if appearance.role == "tool" else "stated again"
    elif lost_by_round is not None:
        outcome = "lost later"
    else:
        outcome = "unused" if use is None else "needed" if is_replay else use.use
    return FactFate(
        name=change.name,
        kind=change.kind,
        value=change.value,
        before=change.before,
        action=change.action,
        after=change.after,
        is_kept=change.is_kept,
        outcome=outcome,
        use=use,
        appearance=appearance,
        lost_by_round=lost_by_round,
        failed_checks=tuple(titles_by_fact.get(change.name, ())),
    )


def _find_step(fate: FactFate) -> int | None:
    """Return the number of the step of a fact's first consequence; None if there is none."""
    match fate.outcome:
        case "looked up" | "stated again":
            return None if fate.appearance is None else fate.appearance.step
        case "wrong" | "stale" | "right" | "needed":
            return None if fate.use is None else fate.use.step
        case _:
            return None


def _explain_check(check: CheckRecord, names: Sequence[str], compactions: Sequence[CompactionAutopsy]) -> FailedCheck:
    causes = []
    for name in names:
        losses = [_build_cause(fate, compaction) for compaction in compactions for fate in compaction.lost if fate.name == name]
        unlost = FactCause(name=name, round=None, outcome=None, step=None, is_used_right=False)
        causes.append(min(losses, key=lambda cause: cause.gravity, default=unlost))
    causes.sort(key=lambda cause: (cause.round is None, cause.gravity))
    return FailedCheck(name=check.check, title=check.title, detail=check.detail, causes=tuple(causes))


def _build_cause(fate: FactFate, compaction: CompactionAutopsy) -> FactCause:
    return FactCause(
        name=fate.name,
        round=compaction.round,
        outcome=fate.outcome,
        step=_find_step(fate),
        is_used_right=fate.is_used_right,
    )


def _build_strips(history: FactHistory, compactions: Sequence[CompactionAutopsy], *, is_replay: bool) -> tuple[FactStrip, ...]:
    gravest: dict[str, int] = {}
    for compaction in compactions:
        for fate in compaction.lost:
            gravest[fate.name] = min(gravest.get(fate.name, len(OUTCOMES)), OUTCOMES.index(fate.outcome))
    strips = []
    for name, kind in history.kinds.items():
        spans = tuple(_list_spans([name in visible for visible in history.visible_by_step]))
        marks: list[Mark] = [
            *(
                Mark(step_index=use.step_index, kind="needed" if is_replay else use.use, value=use.value)
                for use in history.uses
                if use.name == name
            ),
            *(
                Mark(step_index=appearance.step_index, kind="looked up", value=appearance.value)
                for appearance in history.appearances
                if appearance.name == name and appearance.role == "tool" and appearance.was_lost
            ),
        ]
        marks = sorted((mark for mark in marks if mark.step_index < len(history.steps)), key=lambda mark: mark.step_index)
        if spans or marks:
            strips.append(FactStrip(name=name, kind=kind, spans=spans, marks=tuple(marks)))
    return tuple(sorted(strips, key=lambda strip: gravest.get(strip.name, len(OUTCOMES))))


def _list_spans(visible: Sequence[bool]) -> Iterable[Span]:
    """Yield the spans of consecutive steps at which a fact is visible; those after the first are `in view again`."""
    start, has_ended = None, False
    for index, is_visible in enumerate((*visible, False)):
        if is_visible and start is None:
            start = index
        elif not is_visible and start is not None:
            yield Span(start=start, end=index, visibility="in view again" if has_ended else "in view")
            start, has_ended = None, True


def describe_compaction(compaction: CompactionAutopsy, twins: Twins | None = None) -> str:
    """Return in one or two sentences which facts a compaction lost, and with what consequences.

    Args:
        compaction: Applied compaction of a session.
        twins: Twins of the same compaction, as it was and with the facts put back, which show which checks failed by the loss.
    """
    lost, total = compaction.lost, len(compaction.fates)
    if not total:
        return "No fact of the task was in view before this compaction."
    if not lost:
        return f"None of the {format_count(total, 'fact')} in view was lost." if total > 1 else "The fact in view was kept."
    wrong = [fate for fate in lost if fate.outcome in ("wrong", "stale")]
    needed = [fate for fate in lost if fate.outcome == "needed"]
    looked_up = [fate.appearance for fate in lost if fate.outcome == "looked up" and fate.appearance]
    parts = []
    if wrong:
        first = min(step for fate in wrong if (step := _find_step(fate)) is not None)
        at = f"at step {first}" if len(wrong) == 1 else f"the first at step {first}"
        parts.append(f"{len(wrong)} later used wrong, {at}")
    if needed:
        first = min(step for fate in needed if (step := _find_step(fate)) is not None)
        parts.append(f"{len(needed)} needed later, the first at step {first}")
    if looked_up:
        parts.append(f"{len(looked_up)} looked up again, {_describe_cost(looked_up)}")
    sentence = "; ".join([f"{len(lost)} of {format_count(total, 'fact')} lost", *parts]) + "."
    described = _describe_failed(compaction.failed_checks, compaction.explained_checks, twins.list_causes() if twins else ())
    return f"{sentence} {described}".rstrip()


def _describe_failed(needed: Sequence[str], explained: Sequence[str], causes: Sequence[CheckCause]) -> str:
    """Return how many failed checks need a lost fact and, where twins were run, which of them failed by the loss.

    Args:
        needed: Titles of the failed checks that need a lost fact.
        explained: Those of them that need a lost fact which was not used right afterwards.
        causes: Results of the twins; empty if none were run.
    """
    by_loss = [cause for cause in causes if cause.is_failed_by_loss and (not needed or cause.title in needed)]
    parts = []
    if not causes and explained:
        count = format_count(len(explained), "failed check")
        parts.append(f"{count} {'rests' if len(explained) == 1 else 'rest'} on facts lost here.")
    if not causes and (recovered := len(needed) - len(explained)):
        count = f"{recovered}{' more' * bool(explained)} failed {'check needs' if recovered == 1 else 'checks need'}"
        parts.append(f"{count} facts lost here that were then used right.")
    if by_loss:
        titles_by_result: dict[str, list[str]] = {}
        for cause in by_loss:
            with_facts = f"{cause.passed_with_facts} of {format_count(cause.repetitions, 'twin')}"
            result = f"passed by {with_facts} with the lost facts put back, by {cause.passed_as_it_was} as it was"
            titles_by_result.setdefault(result, []).append(cause.title)
        passed = "; ".join(f"{', '.join(alike)}: {result}" for result, alike in titles_by_result.items())
        parts.append(f"{format_count(len(by_loss), 'check')} failed by it ({passed}).")
    if causes and needed and (rest := len(needed) - len(by_loss)):
        subject = f"{rest}{' more' * bool(by_loss)} failed {'check needs' if rest == 1 else 'checks need'}"
        parts.append(f"{subject} facts lost here, but did not fail by it: with the facts put back, twins have the same result.")
    return " ".join(parts)


def _describe_cost(appearances: Iterable[Appearance]) -> str:
    """Return the number of calls that looked facts up, and the tokens in their results; a call for several facts counts once."""
    calls = {(answered.event, answered.call.call_id): answered.tokens for one in appearances for answered in one.look_up}
    return f"+{format_count(len(calls), 'call')}, +{sum(calls.values()):,} tokens"


def describe_action(fate: FactFate) -> str:
    """Return in a few words what the policy did to the message with a fact, and to the value in it."""
    if fate.is_kept:
        return ""
    if fate.after is not None:
        return "the value is there, in words that the task does not know" if fate.after.value else "the value is gone"
    return {"summarized": "nothing in the summary carries it", "masked": "the shorter text has no value"}.get(fate.action, "")


def describe_outcome(fate: FactFate, *, is_replay: bool = False) -> list[str]:
    """Return the first consequence of a compaction for a fact, as lines of text, the first one in a few words.

    Args:
        fate: Fact with what the compaction did to it.
        is_replay: Whether the compaction belongs to a replay, which does not know what the agent would have used.
    """
    lines = []
    use, appearance = fate.use, fate.appearance
    match fate.outcome:
        case "wrong" | "stale" if use is not None:
            lines.append(f"{'outdated' if fate.outcome == 'stale' else 'wrong'} at step {use.step}")
            lines.append(f"{use.call}: used {use.value}, right is {use.right_value}")
            lines.append(f"source of {use.value}: {use.origin}")
        case "looked up" if appearance is not None:
            lines.append(f"looked up again at step {appearance.step}")
            lines.append(_describe_cost([appearance]))
        case "stated again" if appearance is not None:
            who = {"user": "the user", "assistant": "the agent", "summary": "a later compaction"}.get(
                appearance.role, "a message"
            )
            lines.append(f"stated again by {who}, step {appearance.step}")
        case "right" if use is not None:
            lines.append(f"used right at step {use.step}")
        case "needed" if use is not None:
            lines.append(f"needed at step {use.step}")
            lines.append(f"{use.call} in the recorded session")
        case "lost later":
            lines.append(f"in view until compaction {fate.lost_by_round}")
        case _:
            lines.append("no use recognised afterwards")
    if fate.outcome in ("looked up", "stated again") and use is not None and not is_replay:
        lines.append(f"then used {'right' if use.use == 'right' else use.use} at step {use.step}")
    if not fate.is_kept and fate.failed_checks and not fate.is_used_right:
        lines.append(f"failed: {'; '.join(fate.failed_checks)}")
    return lines


def list_kept(compaction: CompactionAutopsy, other: SessionAutopsy) -> tuple[str, ...]:
    """Return the names of the facts that a compaction lost and that another autopsy shows in view at the same step.

    Args:
        compaction: Compaction of a session.
        other: Autopsy of a replay of the same session under another policy.
    """
    spans = {strip.name: strip.spans for strip in other.strips}
    index = compaction.step_index
    return tuple(
        fate.name for fate in compaction.lost if any(span.start <= index < span.end for span in spans.get(fate.name, ()))
    )


def describe_kept(compaction: CompactionAutopsy, other: SessionAutopsy, owner: str) -> str:
    """Return how many of the facts that a compaction lost would be in view at its step under another policy, as a sentence.

    Args:
        compaction: Compaction of a session, or of a replay of it.
        other: Autopsy of a replay of the session under the other policy.
        owner: Words for what the compaction belongs to, e.g. `the recorded session`.
    """
    beginning = f"Compaction {compaction.round} of {owner}, before step {compaction.step}"
    if not compaction.lost:
        return f"{beginning}, lost none of {format_count(len(compaction.fates), 'fact')}."
    lost = f"lost {len(compaction.lost)} of {format_count(len(compaction.fates), 'fact')}"
    kept = list_kept(compaction, other)
    return f"{beginning}, {lost}; this policy would have kept {len(kept)} of the {len(compaction.lost)}."


def describe_check(check: FailedCheck) -> str:
    """Return which facts a failed check needs, and which compaction lost the one with the gravest consequence."""
    if not check.causes:
        return "needs no fact"
    return "; ".join(map(_describe_cause, check.causes))


def _describe_cause(cause: FactCause) -> str:
    if cause.round is None:
        return f"{cause.name}: not lost by a compaction"
    text = f"{cause.name}: lost by compaction {cause.round}"
    afterwards = ", then used right" if cause.is_used_right else ""
    match cause.outcome:
        case "wrong" | "stale":
            return f"{text}, used {'outdated' if cause.outcome == 'stale' else 'wrong'} at step {cause.step}"
        case "looked up" | "stated again":
            event = "stated again" if cause.outcome == "stated again" else "looked up again"
            return f"{text}, {event} at step {cause.step}{afterwards}"
        case "right":
            return f"{text}, used right at step {cause.step}"
        case _:
            return f"{text}, not in view again"
