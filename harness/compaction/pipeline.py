"""Classes for compaction policies that consist of a token counter, a threshold in the context window, and a list of rules.

Such a policy is a preset, and its rules are a pipeline. A rule combines a trigger, which decides when to act, with a reducer,
which proposes how to shorten the view.

The rules for one hook (a point in the session, such as before a step) run one after the other. Each rule sees the view as the
rule before would leave it. All proposals together become one plan: the view is edited only once, and the provider's cached prefix
is lost only once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Self, TypeAlias, get_args, get_type_hints

from harness.compaction.conditions import Condition, check_conditions, plan_under, refuse_unknown_conditions
from harness.compaction.field_help import inherit_field_help
from harness.compaction.overflow import FitWindow
from harness.compaction.preserving import check_patterns, find_preserved, focus_plan, preserve_items
from harness.compaction.stages import DEFAULT_COUNTER, Reducer, Summarize, apply_plan, refuse_invalid_patterns
from harness.compaction.triggers import Always, BudgetRule, Full, Idle, Measure, Reserves, ShareOfAvailable, Trigger
from harness.conversation.codec import ADDED_LATER, StrictFields, refuse_mistyped
from harness.conversation.events import Hook
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter, Usage, Window
from harness.conversation.truncation import Truncation
from harness.conversation.view import View
from harness.errors import UsageError

AUTOMATIC_HOOKS: tuple[Hook, ...] = ("step", "turn", "overflow")
"""Points in a session (before a step, before a turn, after an overflow) at which rules run without a request of the user."""
MANUAL_REASON = "asked for"
"""Reason that the log gives for a compaction that the user requested."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Part of a policy that combines a condition for acting with a way to shorten the conversation."""

    trigger: Trigger
    """Condition under which the rule acts, such as a threshold in tokens."""
    reducer: Reducer
    """Way to shorten the view, for example by a summary."""
    hook: Hook = "step"
    """Point in the session at which the condition is checked, such as before each model call or after an overflow."""
    quiet: bool = False
    """Whether attempts that find nothing to compact are left out of the log."""
    on_request: bool = True
    """Whether the rule also runs if the user requests a compaction."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything that a compaction policy does: its threshold, its rules (when and how to compact) and its token counter."""

    budget_rule: BudgetRule
    """Rule that computes from the context window how many tokens are kept free and at how many tokens the policy acts."""
    rules: tuple[Rule, ...] = ()
    """Rules of the policy (when to act and how to shorten the conversation), in the order in which they run."""
    counter: Counter = DEFAULT_COUNTER
    """Token counter that the policy uses to estimate the size of messages."""

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return one plan with the changes of all rules whose conditions are met; None if no condition is met.

        Args:
            view: Messages that the model sees next.
            budget: Budget that the policy computed for the window.
            usage: Token usage of the last model call; None if unknown.
            hook: Point in the session, such as before a step. If the user requested the compaction (`manual`), conditions are
                ignored.
        """
        plan: CompactionPlan | None = None
        pending: CompactionPlan | None = None  # last change, applied to the view only if a further rule looks at it
        rule_hook = self._find_rule_hook() if hook == "manual" else hook
        for rule in self.rules:
            if rule.hook != rule_hook or (hook == "manual" and not rule.on_request):
                continue
            if pending is not None:
                view, usage, pending = apply_plan(view, pending, self.counter), None, None
            if (reason := MANUAL_REASON if hook == "manual" else rule.trigger.check_due(view, budget, usage)) is None:
                continue
            proposed = rule.reducer.reduce(view, budget, reason)
            if rule.quiet and proposed.is_empty:
                continue
            plan = proposed if plan is None or plan.is_empty else join_plans(plan, proposed)
            if plan.slots:
                break
            if not proposed.is_empty:
                pending = proposed
        return plan

    def _find_rule_hook(self) -> Hook:
        """Return the hook whose rules run if the user requests a compaction: the first automatic one that has any."""
        known = {rule.hook for rule in self.rules if rule.on_request}
        return next((hook for hook in AUTOMATIC_HOOKS if hook in known), "step")


def join_plans(first: CompactionPlan, second: CompactionPlan) -> CompactionPlan:
    """Join two plans, of which the second was made for the messages as the first would leave them.

    If the second plan evicts a message that the first one replaces, the summarizer reads the replacement.
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
        insert=(*(insert for insert in first.insert if insert.after not in set(second.forget)), *second.insert),
        texts_to_save=(*first.texts_to_save, *second.texts_to_save),
        # if the summary of the second plan fails, the first plan still counts
        fallback=fallback if fallback is not None else (replace(first, slots=()) if second.slots else None),
    )


class Range(NamedTuple):
    """Range of the numbers that are valid in a field of a policy.

    None is also valid if the type of the field allows it.
    """

    contains: Callable[[float], bool]
    """Function that returns whether a number is valid."""
    requirement: str
    """End of the error message for a value that is out of range, such as `must be at least 1`."""

    def __repr__(self) -> str:
        """Return the requirement alone, since signatures in help texts and tooltips contain the range."""
        return repr(self.requirement)


Positive: TypeAlias = Annotated[int, Range(lambda value: value >= 1, "must be at least 1")]
NonNegative: TypeAlias = Annotated[int, Range(lambda value: value >= 0, "must not be negative")]
Share: TypeAlias = Annotated[float, Range(lambda value: 0 < value <= 1, "must be above 0 and at most 1")]

SavedShare: TypeAlias = Annotated[float, Range(lambda value: 0 <= value < 1, "must be at least 0 and below 1")]
LEAST_SAVED_SHARE = 0.05
"""Share of the conversation's tokens; a compaction that saves less misses its target, unless the policy has another share."""


def check_ranges(policy: Any) -> None:
    """Raise UsageError if a field of the policy has a value outside its range.

    Raises:
        UsageError: A value is out of range; the message names the field, its value and its range.
    """
    policy_class: Any = type(policy)
    for name, field_range in _list_ranges(policy_class):
        value = getattr(policy, name)
        if value is not None and not field_range.contains(value):
            raise UsageError(f"{name}={value!r} {field_range.requirement}")


@lru_cache(maxsize=256)
def _list_ranges(policy_class: Any) -> tuple[tuple[str, Range], ...]:
    hints = get_type_hints(policy_class, include_extras=True)
    return tuple(
        (name, extra)
        for name, hint in hints.items()
        for part in (hint, *get_args(hint))  # the parts of a union, for fields that may be None
        for extra in getattr(part, "__metadata__", ())
        if isinstance(extra, Range)
    )


_PATTERN_FIELDS = ("exempt_tools", "skill_tools")
"""Fields of policies that contain shell patterns; `SummarizingPreset` checks `preserve`, which also takes kinds of messages."""


@dataclass(frozen=True, kw_only=True)
class Preset(StrictFields, ABC):
    """Base class of all policies of this package. A policy is a frozen dataclass; its property `pipeline` defines what it does.

    Two presets of one class are equal if their fields are equal. The pipeline is built once from the fields. Base classes with
    shared fields have no slots of their own, so that a preset can inherit from several of them.

    Attributes:
        clip_characters: Maximum length of a tool output, in characters; a longer output is cut before it is logged. Default:
            `10_000`.
        when: Conditions that decide when the policy may act, such as `IdleCold()`, the outermost first
            (`harness.compaction.conditions`). Default: `()`.
    """

    __slots__ = ()

    clip_characters: Positive = 10_000
    when: tuple[Condition, ...] = field(default=(), metadata=ADDED_LATER)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherit_field_help(cls)

    def __new__(cls, *_: object, **values: object) -> Self:
        """Create the policy; a field value of the wrong type raises UsageError."""
        preset = super().__new__(cls, **values)
        refuse_mistyped(cls, values)
        return preset

    def __post_init__(self) -> None:
        check_ranges(self)
        for name in _PATTERN_FIELDS:
            refuse_invalid_patterns(name, getattr(self, name, ()))
        check_conditions(self.when)
        self.check_combination()

    def check_combination(self) -> None:
        """Raise UsageError if fields contradict each other although each value is in its own range.

        Raises:
            UsageError: The fields contradict each other; the message names them and what to change.
        """

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy with these settings changed since version 0.1.

        Ids of trials include a number of 1 or more, so that old and new results are not mixed.
        """
        return 0

    @property
    def _assumed_window_tokens(self) -> int | None:
        """Context window in tokens that the policy assumes if that of the model is unknown; None assumes none."""
        return None

    @property
    @abstractmethod
    def pipeline(self) -> Pipeline:
        """Pipeline of rules that defines what the policy does, built from the policy's fields."""

    @property
    def truncation(self) -> Truncation:
        """Limits on the length of tool outputs; an output longer than `clip_characters` is cut before it is logged."""
        return Truncation(max_characters=self.clip_characters)

    @property
    def counter(self) -> Counter:
        """Token counter that the policy uses to estimate the size of messages."""
        return _build_pipeline(self).counter

    def budget(self, window: Window) -> Budget:
        """Return how many tokens the policy keeps free in a context window, and at how many it acts.

        Raises:
            UsageError: The reserves leave nothing of the window.
        """
        own: int | None = getattr(self, "context_window", None)
        if own is None and window.tokens == 0:
            own = self._assumed_window_tokens
        if own is not None:
            window = Window(tokens=own, source="policy")
        return _build_pipeline(self).budget_rule.compute_budget(window)

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        """Return a plan to shorten the conversation; None if no rule's condition is met at this point of the session."""
        return plan_under(self.when, self._plan_rules)(view, budget, usage, hook)

    def _plan_rules(self, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return the plan of the policy's rules, without regard to its conditions."""
        return _build_pipeline(self).plan(view, budget, usage, hook)

    @property
    def reads_time(self) -> bool:
        """Whether the policy decides by the time between steps, which the log of its session must then have."""
        is_timed = any(isinstance(rule.trigger, Idle) for rule in _build_pipeline(self).rules)
        return is_timed or any(condition.reads_time for condition in self.when)


@dataclass(frozen=True, kw_only=True)
class OwnPreset(Preset):
    """Base class of the policies that this project designed. A cut tool output keeps its exit code and its last errors.

    The note below such an output proposes the tool `explore` to an agent that has it.

    Attributes:
        clip_characters: Maximum length of a tool output, in characters. A longer output is cut before it is logged; the exit code
            of a command and the last lines of its standard error stay. Default: `10_000`.
    """

    __slots__ = ()

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change is that a cut output now keeps the exit code of the command and the last lines of its standard error.
        """
        return 1

    @property
    def truncation(self) -> Truncation:
        """Limits on the length of tool outputs, which retain a command's exit code and the end of its standard error."""
        return Truncation(max_characters=self.clip_characters, keep_essentials=True, proposes_explore=True)


@dataclass(frozen=True, kw_only=True)
class CalibratedPreset(OwnPreset):
    """Base class of the policies that this project designed and that compact.

    Their numbers of tokens (thresholds, and amounts that are retained) are tokens by the provider's count. After a refused
    prompt they compact until the conversation fits, and the prompt for a summarizer is shortened to the summarizer's window.

    Attributes:
        measure: Way in which the policy measures tokens. `calibrated` adds an estimate of what came since to the provider's last
            report, scaled by the tokens that the reports of this session show for each estimated token. `estimate` uses
            characters divided by 4 alone. `harness.compaction.triggers.Measure` explains the other values.
            Default: `'calibrated'`.
        least_saved_share: Share of the conversation's tokens that a compaction must save, at least 0 and below 1. A compaction
            that saves less, or that leaves the conversation at the threshold, is applied, but counts as fruitless: after two in a
            row, compaction pauses until the conversation has grown by a tenth. Default: `0.05`.
    """

    __slots__ = ()

    measure: Measure = field(default="calibrated", metadata=ADDED_LATER)
    least_saved_share: SavedShare = field(default=LEAST_SAVED_SHARE, metadata=ADDED_LATER)

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The changes:

        - A cut tool output keeps the exit code of the command and the last lines of its standard error.
        - Tokens are measured as the provider counts them, the policy compacts after a refused prompt, and a prompt that the
          summarizer cannot hold is shortened.
        """
        return 2

    def build_overflow_rule(self, usual: Reducer, summarize: Summarize | None = None, counter: Counter = DEFAULT_COUNTER) -> Rule:
        """Return the rule that shortens the conversation after the provider refused it as too long.

        Args:
            usual: Way in which the policy normally shortens the conversation.
            summarize: Way to summarize what must go beyond that; None evicts it without a summary.
            counter: Token counter of the policy.
        """
        fit = FitWindow(usual=usual, measure=self.measure, summarize=summarize, counter=counter)
        return Rule(Always(), fit, hook="overflow")


@dataclass(frozen=True, kw_only=True)
class SummarizingPreset(Preset):
    """Base class of policies that request summaries, with the fields for the summarizer and the length of a summary.

    Attributes:
        summarizer: Name of the model that writes the summaries; `same` is the agent's own model. Default: `'same'`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `4_096`.
        preserve: Messages that stay verbatim: shell patterns of the names of tools, whose calls stay with their results, and the
            kinds `kind:user` (messages of the user) and `kind:failure` (calls that failed). Default: `()`.
        preserve_tokens: Maximum number of tokens in the preserved messages, the newest first. Default: `20_000`.
        focus: Matters that the summarizer is asked to attend to, as text below its prompt; empty adds nothing. Default: `''`.
    """

    __slots__ = ()

    summarizer: str = "same"
    summary_max_tokens: Positive = 4_096
    preserve: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    preserve_tokens: NonNegative = field(default=20_000, metadata=ADDED_LATER)
    focus: str = field(default="", metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_patterns(self.preserve)

    def _plan_rules(self, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return the plan of the policy's rules, without changes to preserved messages and with the focus of the summaries."""
        plan = super()._plan_rules(view, budget, usage, hook)
        if plan is None or not (self.preserve or self.focus):
            return plan
        if self.preserve:
            plan = preserve_items(plan, find_preserved(view, self.preserve, self.preserve_tokens))
        return focus_plan(plan, self.focus)


@dataclass(frozen=True, kw_only=True)
class ThresholdPreset(CalibratedPreset):
    """Base class of policies that act when the conversation reaches a number of tokens or a share of the context window.

    Attributes:
        threshold: Share of the window, after its reserves are subtracted, that triggers compaction; above 0 and at most 1.
            Default: `0.8`.
        system_reserve_tokens: Number of tokens of the window kept free for the system prompt. Default: `2_000`.
        output_reserve_tokens: Number of tokens of the window kept free for the model's answer. Default: `4_000`.
        safety_reserve_tokens: Number of tokens of the window kept free because token counts are estimates. Default: `5_000`.
        trigger_tokens: Number of tokens that triggers compaction instead of `threshold`, but at most the window less its
            reserves; None uses `threshold`. Default: `None`.
        context_window: Context window in tokens that the policy assumes; None uses the window of the model. Default: `None`.
    """

    __slots__ = ()

    threshold: Share = 0.8
    system_reserve_tokens: NonNegative = 2_000
    output_reserve_tokens: NonNegative = 4_000
    safety_reserve_tokens: NonNegative = 5_000
    trigger_tokens: Positive | None = None
    context_window: Positive | None = None

    def build_pipeline(self, reducer: Reducer, summarize: Summarize | None = None) -> Pipeline:
        """Return a pipeline that applies a reducer at the threshold, and that makes the conversation fit after an overflow.

        Args:
            reducer: Way to shorten the conversation.
            summarize: Way to summarize what must go beyond that after an overflow; None evicts it without a summary.
        """
        reserves = Reserves(
            system_tokens=self.system_reserve_tokens,
            output_tokens=self.output_reserve_tokens,
            safety_tokens=self.safety_reserve_tokens,
        )
        share = self.threshold if self.trigger_tokens is None else 1.0
        budget_rule = ShareOfAvailable(share=share, reserves=reserves, at_most_tokens=self.trigger_tokens)
        return Pipeline(budget_rule, (Rule(Full(measure=self.measure), reducer), self.build_overflow_rule(reducer, summarize)))


def refuse_invalid_conditions(policy_class: type[Any], plain: Mapping[str, object], where: str) -> None:
    """Raise an error if the table of a policy of this package has an unknown condition, or a condition with an unknown field.

    Args:
        policy_class: Class of the policy.
        plain: Values of the policy's fields by name.
        where: Place of the policy in the configuration, which error messages name.

    Raises:
        UnknownName: A kind of condition or one of its fields is unknown.
        UsageError: The field `when` is no list of tables with a kind.
    """
    if "when" in plain and issubclass(policy_class, Preset):
        refuse_unknown_conditions(plain["when"], f"{where}.when")


@lru_cache(maxsize=1_000)
def _build_pipeline(preset: Any) -> Pipeline:
    pipeline: Pipeline = preset.pipeline
    return pipeline
