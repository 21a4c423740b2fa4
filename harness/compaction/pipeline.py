"""A preset is a pipeline: who counts, how the window is divided, and which rules are asked at which moment, in order.

A rule is a trigger and a reducer. Rules of one moment are tiers: the next one looks at the view as the one before would
leave it, and what all of them propose becomes one plan, so that a view is edited, and a cached prefix lost, once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from harness.codec import ByName, refuse_mistyped
from harness.compaction.stages import Reducer, after
from harness.compaction.triggers import Division, Trigger
from harness.errors import UsageError
from harness.events import Moment
from harness.plan import Plan
from harness.tokens import Budget, Counter, QuarterOfCharacters, Usage, Window
from harness.truncation import Truncation
from harness.view import View

QUARTER = QuarterOfCharacters()
AUTOMATIC: tuple[Moment, ...] = ("step", "turn", "overflow")
MANUAL = "asked for"
"""The reason of a compaction that somebody wished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is done when."""

    trigger: Trigger
    reducer: Reducer
    moment: Moment = "step"
    quiet: bool = False
    """Whether finding nothing to do is as if it had not been due: no attempt, and no record of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """All that a policy does."""

    division: Division
    rules: tuple[Rule, ...] = ()
    counter: Counter = QUARTER

    def plan(self, view: View, budget: Budget, usage: Usage | None, moment: Moment) -> Plan | None:
        """What the rules of a moment propose together; None when none is due. Somebody's wish makes all of them due."""
        plan: Plan | None = None
        rules = self._asked(moment)
        for rule in rules:
            if (reason := MANUAL if moment == "manual" else rule.trigger.due(view, budget, usage)) is None:
                continue
            proposed = rule.reducer.reduce(view, budget, reason)
            if rule.quiet and proposed.empty:
                continue
            plan = proposed if plan is None or plan.empty else joined(plan, proposed)
            if plan.slots or rule is rules[-1]:
                break
            if not proposed.empty:
                view, usage = after(view, proposed, self.counter), None
        return plan

    def _asked(self, moment: Moment) -> list[Rule]:
        """The rules of a moment; for somebody's wish those before a step or, of a policy that has none there, the next ones."""
        if moment == "manual":
            moment = next((one for one in AUTOMATIC if any(rule.moment == one for rule in self.rules)), "step")
        return [rule for rule in self.rules if rule.moment == moment]


def joined(first: Plan, second: Plan) -> Plan:
    """Two plans as one, the second made for the view that the first leaves.

    What the first replaces stays replaced where the second forgets it: so a summarizer is told of it.
    """
    if second.empty:
        return first
    changed = {change.item for change in second.replace}
    kept = tuple(change for change in first.replace if change.item not in changed)
    fallback = None if second.fallback is None else joined(first, second.fallback)
    return replace(
        second,
        reason=f"{first.reason}; then {second.reason}",
        forget=(*first.forget, *second.forget),
        replace=(*kept, *second.replace),
        insert=(*(one for one in first.insert if one.after not in set(second.forget)), *second.insert),
        saves=(*first.saves, *second.saves),
        fallback=fallback if fallback is not None else (replace(first, slots=()) if second.slots else None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A reducer again and again, as one plan, until the view is no longer above its threshold or a pass has saved nothing."""

    reducer: Reducer
    most_times: int
    counter: Counter = QUARTER

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        if plan.empty or plan.slots:
            return plan
        left, before = after(view, plan, self.counter), view.tokens + 1
        for _ in range(self.most_times - 1):
            if left.tokens <= (budget.threshold_tokens or 0) or left.tokens >= before:
                break
            before, more = left.tokens, self.reducer.reduce(left, budget, reason)
            if more.empty:
                break
            plan = replace(joined(plan, more), reason=plan.reason)
            if more.slots:
                break
            left = after(view, plan, self.counter)
        return plan


class Preset(ByName, ABC):
    """What all presets have in common: a frozen dataclass says by `pipeline` what it does, and keeps `Policy` by that.

    A preset is its fields; the pipeline is made from them once and remembered.
    """

    __slots__ = ()

    clip_characters: int
    """A longer tool output is cut to this before it is logged."""

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse also values of another type than their field's, before any preset compares them."""
        made = super().__new__(cls, **given)
        refuse_mistyped(cls, given)
        return made

    @property
    @abstractmethod
    def pipeline(self) -> Pipeline:
        """What this policy does, as a function of its fields."""

    @property
    def truncation(self) -> Truncation:
        """See `harness.protocols.Truncates`."""
        return Truncation(max_characters=self.clip_characters)

    @property
    def counter(self) -> Counter:
        """See `harness.protocols.Policy`."""
        return _pipeline(self).counter

    def budget(self, window: Window) -> Budget:
        """See `harness.protocols.Policy`.

        Raises:
            UsageError: the policy's own window is larger than the model's, or the reserves leave nothing of it.
        """
        own: int | None = getattr(self, "context_window", None)
        if own is not None:
            if 0 < window.tokens < own:
                raise UsageError(f"context_window={own} is larger than the model's window of {window.tokens}")
            window = Window(tokens=own, source="policy")
        return _pipeline(self).division.budget(window)

    def plan(self, view: View, budget: Budget, usage: Usage | None, moment: Moment = "step") -> Plan | None:
        """See `harness.protocols.Policy`."""
        return _pipeline(self).plan(view, budget, usage, moment)


@lru_cache(maxsize=1_000)
def _pipeline(preset: Any) -> Pipeline:
    made: Pipeline = preset.pipeline
    return made
