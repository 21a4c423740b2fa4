"""A preset is a pipeline: who counts, how the window is divided, and which rules are asked at which moment, in order.

A rule is a trigger and a reducer. Rules of one moment are tiers: the next one looks at the view as the one before would
leave it, and what all of them propose becomes one plan, so that a view is edited, and a cached prefix lost, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeAlias, get_args, get_type_hints

from harness.codec import StrictFields, refuse_mistyped
from harness.compaction.stages import DEFAULT_COUNTER, Reducer, apply_plan
from harness.compaction.triggers import Division, Full, Reserves, ShareOfAvailable, Trigger
from harness.errors import UsageError
from harness.events import Hook
from harness.plan import Plan
from harness.tokens import Budget, Counter, Usage, Window
from harness.truncation import Truncation
from harness.view import View

AUTOMATIC_HOOKS: tuple[Hook, ...] = ("step", "turn", "overflow")
MANUAL_REASON = "asked for"
"""The reason of a compaction that somebody wished."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done when."""

    trigger: Trigger
    reducer: Reducer
    moment: Hook = "step"
    quiet: bool = False
    """Whether finding nothing to do is as if it had not been due: no attempt, and no record of one."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All that a policy does."""

    division: Division
    rules: tuple[Rule, ...] = ()
    counter: Counter = DEFAULT_COUNTER

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> Plan | None:
        """What the rules of a moment propose together; None when none is due. Somebody's wish makes all of them due."""
        plan: Plan | None = None
        rules = self._select_rules(hook)
        for rule in rules:
            if (reason := MANUAL_REASON if hook == "manual" else rule.trigger.check_due(view, budget, usage)) is None:
                continue
            proposed = rule.reducer.reduce(view, budget, reason)
            if rule.quiet and proposed.is_empty:
                continue
            plan = proposed if plan is None or plan.is_empty else join_plans(plan, proposed)
            if plan.slots or rule is rules[-1]:
                break
            if not proposed.is_empty:
                view, usage = apply_plan(view, proposed, self.counter), None
        return plan

    def _select_rules(self, hook: Hook) -> list[Rule]:
        """The rules of a moment; for somebody's wish those before a step or, of a policy that has none there, the next ones."""
        if hook == "manual":
            hook = next((one for one in AUTOMATIC_HOOKS if any(rule.moment == one for rule in self.rules)), "step")
        return [rule for rule in self.rules if rule.moment == hook]


def join_plans(first: Plan, second: Plan) -> Plan:
    """Two plans as one, the second made for the view that the first leaves.

    What the first replaces stays replaced where the second forgets it: so a summarizer is told of it.
    """
    if second.is_empty:
        return first
    changed_ids = {change.item for change in second.replace}
    kept = tuple(change for change in first.replace if change.item not in changed_ids)
    fallback = None if second.fallback is None else join_plans(first, second.fallback)
    return replace(
        second,
        reason=f"{first.reason}; then {second.reason}",
        forget=(*first.forget, *second.forget),
        replace=(*kept, *second.replace),
        insert=(*(one for one in first.insert if one.after not in set(second.forget)), *second.insert),
        texts_to_save=(*first.texts_to_save, *second.texts_to_save),
        fallback=fallback if fallback is not None else (replace(first, slots=()) if second.slots else None),
    )


class Range(NamedTuple):
    """Values that a field may hold; None is allowed wherever the type of the field allows it."""

    contains: Callable[[float], bool]
    requirement: str
    """End of the message that refuses a value, such as `must be at least 1`."""


Positive: TypeAlias = Annotated[int, Range(lambda value: value >= 1, "must be at least 1")]
NonNegative: TypeAlias = Annotated[int, Range(lambda value: value >= 0, "must not be negative")]
Share: TypeAlias = Annotated[float, Range(lambda value: 0 < value <= 1, "must be above 0 and at most 1")]


def check_ranges(policy: Any) -> None:
    """Refuse a policy with a field outside its range.

    Raises:
        UsageError: names the field, its value and its range.
    """
    policy_class: Any = type(policy)
    for name, field_range in _list_ranges(policy_class):
        value = getattr(policy, name)
        if value is not None and not field_range.contains(value):
            raise UsageError(f"{name}={value!r} {field_range.requirement}")


@lru_cache(maxsize=256)
def _list_ranges(policy_class: Any) -> tuple[tuple[str, Range], ...]:
    """Return each field that has a range, also where the field may be None."""
    hints = get_type_hints(policy_class, include_extras=True)
    return tuple(
        (name, extra)
        for name, hint in hints.items()
        for part in (hint, *get_args(hint))
        for extra in getattr(part, "__metadata__", ())
        if isinstance(extra, Range)
    )


@dataclass(frozen=True, kw_only=True)
class Preset(StrictFields, ABC):
    """What all presets have in common: a frozen dataclass says by `pipeline` what it does, and keeps `Policy` by that.

    A preset is its fields; the pipeline is made from them once and remembered. The shared fields stand in classes without slots
    of their own, so that a preset can have several of them as its bases.
    """

    __slots__ = ()

    revision: ClassVar[int] = 0
    """Number of changes of this policy's behaviour since version 0.1; part of the ids of its trials from 1 on."""
    clip_characters: Positive = 10_000
    """A longer tool output is cut to this before it is logged."""

    def __new__(cls, *_: object, **values: object) -> Self:
        """Refuse also values of another type than their field's, before any preset compares them."""
        preset = super().__new__(cls, **values)
        refuse_mistyped(cls, values)
        return preset

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        check_ranges(self)
        self.check_combination()

    def check_combination(self) -> None:
        """Refuse fields that are in their ranges and contradict each other.

        Raises:
            UsageError: names the fields and what to change.
        """

    @property
    @abstractmethod
    def pipeline(self) -> Pipeline:
        """What this policy does, as a function of its fields."""

    @property
    def truncation(self) -> Truncation:
        """See `harness.protocols.TruncatingPolicy`."""
        return Truncation(max_characters=self.clip_characters)

    @property
    def counter(self) -> Counter:
        """See `harness.protocols.Policy`."""
        return _build_pipeline(self).counter

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
        return _build_pipeline(self).division.compute_budget(window)

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> Plan | None:
        """See `harness.protocols.Policy`."""
        return _build_pipeline(self).plan(view, budget, usage, hook)


@dataclass(frozen=True, kw_only=True)
class SummarizingPreset(Preset):
    """A preset that has summaries written."""

    __slots__ = ()

    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: Positive = 4_096
    """Output limit of a summary."""


@dataclass(frozen=True, kw_only=True)
class ThresholdPreset(Preset):
    """A preset that acts at a share of the window less three reserves, or at a number of tokens."""

    __slots__ = ()

    threshold: Share = 0.8
    """Share of the window less its reserves at which the view is compacted, above 0 and at most 1."""
    system_reserve_tokens: NonNegative = 2_000
    output_reserve_tokens: NonNegative = 4_000
    safety_reserve_tokens: NonNegative = 5_000
    trigger_tokens: Positive | None = None
    """Tokens at which it is compacted in place of the share, or what the reserves leave if that is less; None = by the share."""
    context_window: Positive | None = None
    """Overrides the model's window for this policy; None = the window of the model."""

    def build_pipeline(self, reducer: Reducer) -> Pipeline:
        """Return the pipeline that runs a reducer once the threshold is reached."""
        reserves = Reserves(
            system_tokens=self.system_reserve_tokens,
            output_tokens=self.output_reserve_tokens,
            safety_tokens=self.safety_reserve_tokens,
        )
        share = self.threshold if self.trigger_tokens is None else 1.0
        division = ShareOfAvailable(share=share, reserves=reserves, at_most_tokens=self.trigger_tokens)
        return Pipeline(division, (Rule(Full(), reducer),))


@lru_cache(maxsize=1_000)
def _build_pipeline(preset: Any) -> Pipeline:
    pipeline: Pipeline = preset.pipeline
    return pipeline
