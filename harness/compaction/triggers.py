"""Triggers (conditions under which a policy acts) and budget rules, which compute its threshold from the context window.

A budget rule computes the budget (reserved tokens and threshold) of a session once. A trigger is checked before every step. It
reads the view, the budget and the last usage report, at a cost that does not grow with the view. Both are immutable values, so a
policy can be read, compared and hashed.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from harness.conversation.events import ContextUsage
from harness.conversation.tokens import Budget, Calibration, Usage, Window
from harness.conversation.view import NO_REPORTS, View, compute_context_usage
from harness.errors import UsageError

Measure: TypeAlias = Literal["calibrated", "estimate", "prompt", "reported", "reported-and-since", "rescaled", "unedited"]
"""Ways to measure the number of tokens in the view.

* `calibrated`: `reported`, plus an estimate of the messages that followed, scaled by the number of reported tokens for each
  estimated token in this session. After a compaction, the last report less the estimate of what went, scaled alike.
* `estimate`: the policy's own estimate of the view.
* `prompt`: the prompt of the last call, as reported by the provider.
* `reported`: prompt and answer of the last call, as reported by the provider.
* `reported-and-since`: `reported`, plus an estimate of the messages that followed.
* `rescaled`: the estimate, multiplied by a factor between 1 and 1.25: the reported tokens of the last call / their estimate.
* `unedited`: the estimate of the view as if no message had been replaced, e.g. a tool result by a short text.
"""
REPORTED_MEASURES: frozenset[Measure] = frozenset({"calibrated", "prompt", "reported", "reported-and-since", "rescaled"})
"""Ways to measure the view that use a token count reported by the provider."""
MAX_RESCALE_FACTOR = 1.25
"""Upper limit of the factor by which the measure `rescaled` corrects a token estimate."""


Unit: TypeAlias = Literal["tokens", "messages", "requests and answers", "all"]


class Amount(NamedTuple):
    """Size of a conversation, or of a part of it, in tokens or messages."""

    size: float
    """Number of tokens or messages; infinity means all messages."""
    unit: Unit
    """Unit in which `size` is counted, such as tokens or messages."""

    def __str__(self) -> str:
        return "everything" if self.unit == "all" else f"{int(self.size):,} {self.unit}"


ALL_KEPT = Amount(math.inf, "all")
"""Amount with the meaning "all messages", for a part of a policy that retains every message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueAmounts:
    """Sizes of the view at which a trigger makes the policy act."""

    amounts: tuple[Amount, ...] = ()
    """Sizes of the conversation in tokens or messages; when any of these sizes is reached, the policy acts.

    Empty if the policy acts for another reason or never.
    """
    smallest_view: Amount | None = None
    """Minimum size of the conversation at which the policy can act; infinite if it never can, None if the size is unknown."""

    @property
    def is_never(self) -> bool:
        """Whether the trigger can never make the policy act, however long the conversation is."""
        return self.smallest_view is not None and math.isinf(self.smallest_view.size)


DUE_IN_ANY_VIEW = DueAmounts()
"""Empty result of `compute_due_amounts`, for a trigger that may make the policy act in a conversation of any size."""


class BudgetRule(Protocol):
    """Rule that computes from the context window how many tokens are reserved and at how many tokens compaction begins."""

    def __hash__(self) -> int: ...

    def compute_budget(self, window: Window) -> Budget:
        """Return the budget for a context window: the reserved tokens and the threshold at which compaction begins.

        A window of 0 tokens means an unknown window; a threshold that depends on the window is then disabled.

        Raises:
            UsageError: The reserves leave nothing of the window.
        """
        ...


class Trigger(Protocol):
    """Condition under which a compaction policy acts, checked at a cost that does not grow with the conversation."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return the reason to compact now, such as `900 tokens ≥ threshold 800`; None if there is none."""
        ...

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return the sizes of the conversation, in tokens or messages, at which this condition is met.

        Return `DUE_IN_ANY_VIEW`, an empty result, if the condition does not depend on the size.
        """
        ...


def compute_due_amounts(trigger: Trigger, budget: Budget) -> DueAmounts:
    """Return the sizes of the conversation, in tokens or messages, at which a trigger makes the policy act.

    Raises:
        UsageError: The trigger, which another package may define, has no method `compute_due_amounts`.
    """
    if not hasattr(trigger, "compute_due_amounts"):
        raise UsageError(
            f"trigger {type(trigger).__name__} has no method compute_due_amounts(budget); add one that returns DUE_IN_ANY_VIEW, "
            "or a DueAmounts with the tokens or messages that make it due (both are in harness.compaction.triggers)"
        )
    return trigger.compute_due_amounts(budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserves:
    """Numbers of tokens in the context window that are kept free, so that compaction begins early enough."""

    system_tokens: int = 2_000
    """Number of tokens of the window kept free for the system prompt."""
    output_tokens: int = 4_000
    """Number of tokens of the window kept free for the model's answer."""
    safety_tokens: int = 5_000
    """Number of tokens of the window kept free because token counts are estimates."""

    @property
    def total_tokens(self) -> int:
        """Sum of the tokens reserved for system prompt, answer and estimation errors."""
        return self.system_tokens + self.output_tokens + self.safety_tokens


NO_RESERVES = Reserves(system_tokens=0, output_tokens=0, safety_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOfAvailable:
    """Rule by which compaction begins at a share of the context window, after reserved tokens are subtracted.

    For example, with the default reserves of 11,000 tokens, a share of 0.8 gives a threshold of 93,600 tokens in a window of
    128,000.
    """

    share: float
    """Share of the context window, less the reserved tokens, at which compaction begins."""
    reserves: Reserves = NO_RESERVES
    """Numbers of tokens that are subtracted from the context window before the share is computed."""
    at_most_tokens: int | None = None
    """Maximum number of tokens at which compaction begins, also used if the window is unknown; None sets no maximum."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget whose threshold is a share of the window less the reserves, at most `at_most_tokens`."""
        if window.tokens == 0:
            return FixedTokens(tokens=self.at_most_tokens).compute_budget(window) if self.at_most_tokens else UNKNOWN_BUDGET
        reserved = self.reserves.total_tokens
        available = subtract_reserves(window, reserved)
        threshold_tokens = int(available * self.share)
        formula = f"{self.share:g} × ({window.tokens:,} − {reserved:,} reserved)"
        rule = f"{formula} = {threshold_tokens:,} tokens; window from {window.source}"
        if self.at_most_tokens is not None and self.at_most_tokens < threshold_tokens:
            threshold_tokens = self.at_most_tokens
            rule = f"{rule}; at most {threshold_tokens:,} tokens"
        return Budget(window_tokens=window.tokens, reserved_tokens=reserved, threshold_tokens=threshold_tokens, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMinusReserve:
    """Rule by which compaction begins when only a fixed number of tokens is left in the context window."""

    reserve_tokens: int
    """Number of tokens of the context window that are kept free; compaction begins when only these are left."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget whose threshold is the window less the reserve; no threshold for an unknown window."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        reserved, threshold_tokens = self.reserve_tokens, subtract_reserves(window, self.reserve_tokens)
        rule = f"{window.tokens:,} − {reserved:,} reserved = {threshold_tokens:,} tokens; window from {window.source}"
        return Budget(window_tokens=window.tokens, reserved_tokens=reserved, threshold_tokens=threshold_tokens, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableInput:
    """Rule by which compaction begins at the number of tokens that the model accepts as input."""

    max_output_tokens: int
    """Number of tokens reserved for the model's answer; a smaller output limit of the model takes precedence."""
    input_limit_tokens: int | None = None
    """Maximum number of input tokens of the model.

    None means the limit in the registry or, without one, the window less the tokens for the answer.
    """
    input_reserve_tokens: int = 0
    """Number of tokens kept free below the input limit, at most as many as are reserved for the answer."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget whose threshold is the input limit less `input_reserve_tokens`, at most the window.

        Without an input limit, the threshold is the window less the tokens for the answer.
        """
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        output = min(self.max_output_tokens, window.output_tokens or self.max_output_tokens)
        limit = window.input_tokens if self.input_limit_tokens is None else self.input_limit_tokens
        if limit is None:
            usable, formula = subtract_reserves(window, output), f"{window.tokens:,} − {output:,} for the answer"
        else:
            reserve = min(self.input_reserve_tokens, output)
            usable = min(limit - reserve, window.tokens)
            formula = f"input limit of {limit:,} − {reserve:,}" if reserve else "input limit"
            if usable < limit - reserve:
                formula = f"window, which is smaller than the {formula},"
        rule = f"{formula} = {usable:,} tokens; window from {window.source}"
        return Budget(window_tokens=window.tokens, reserved_tokens=window.tokens - usable, threshold_tokens=usable, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTokens:
    """Rule by which compaction begins at a fixed number of tokens, whatever the size of the context window."""

    tokens: int
    """Number of tokens in the conversation at which the policy acts."""

    def compute_budget(self, window: Window) -> Budget:
        """Return the budget with the fixed threshold and without reserves, whatever the size of the window."""
        rule = f"{self.tokens:,} tokens, fixed"
        return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=self.tokens, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoThreshold:
    """Rule without a threshold in tokens, for policies that never act or act for another reason."""

    rule: str
    """Text that explains to users what triggers the policy, since there is no token threshold."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget without reserves and without a threshold in tokens."""
        return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=None, rule=self.rule)


def make_budget_rule(share: float | None, tokens: int | None, rule: str) -> BudgetRule:
    """Return the rule by which compaction begins at a number of tokens or at a share of the window.

    If neither is given, the rule has no threshold in tokens.
    """
    if tokens is not None:
        return FixedTokens(tokens=tokens)
    return NoThreshold(rule=rule) if share is None else ShareOfAvailable(share=share)


def check_triggers(share: float | None, tokens: int | None, messages: int | None) -> None:
    """Raise UsageError if a policy sets two token thresholds, or no trigger at all.

    Raises:
        UsageError: Two token thresholds are set, or no trigger is set; the message names the fields.
    """
    if share is not None and tokens is not None:
        raise UsageError(f"trigger_tokens={tokens!r} and trigger_share cannot be combined; unset one of them")
    if share is tokens is messages is None:
        raise UsageError("set trigger_share, trigger_tokens or trigger_messages; without a trigger the policy would never act")


UNKNOWN_BUDGET = Budget(window_tokens=0, reserved_tokens=0, threshold_tokens=None, rule="window unknown: compaction is off")
"""Budget for a context window of unknown size; it has no threshold, so compaction is off."""


def subtract_reserves(window: Window, reserved_tokens: int) -> int:
    """Return the number of tokens of a window that is left after the reserves are subtracted.

    Raises:
        UsageError: The reserves are at least as large as the window.
    """
    available = window.tokens - reserved_tokens
    if available <= 0:
        raise UsageError(
            f"the reserves of {reserved_tokens:,} tokens leave nothing of the window of {window.tokens:,} "
            f"({window.source}); raise window_tokens above {reserved_tokens:,} or lower the reserves"
        )
    return available


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Trigger that makes the policy act when the number of tokens in the conversation reaches the threshold."""

    measure: Measure = "estimate"
    """Way in which the tokens are measured, such as by estimate or by the provider's report."""
    above: bool = False
    """Whether the number of tokens must exceed the threshold; if false, reaching the threshold is enough."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does, which are none with other settings."""
        return "the size of results before they were replaced" if self.measure == "unedited" else ""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason such as `900 tokens ≥ threshold 800` at the threshold; None below."""
        if budget.threshold_tokens is None:
            return None
        tokens = measure_tokens(self.measure, view, usage)
        if tokens < budget.threshold_tokens or (self.above and tokens == budget.threshold_tokens):
            return None
        return f"{tokens:,} tokens {'>' if self.above else '≥'} threshold {budget.threshold_tokens:,}"

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return the threshold, at which the policy acts; infinite if there is none."""
        size = math.inf if budget.threshold_tokens is None else budget.threshold_tokens
        amount = Amount(size, "tokens")
        return DueAmounts(amounts=() if size == math.inf else (amount,), smallest_view=amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreThan:
    """Trigger that makes the policy act when the conversation has more than a given number of messages or events.

    Events are messages, tool calls and tool results.
    """

    count: int
    """Number of messages or events that must be exceeded to trigger compaction."""
    unit: Literal["messages", "events"] = "messages"
    """Unit that is counted, either messages or events (messages, tool calls and tool results)."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason such as `41 messages > 40` if the limit is exceeded; None otherwise."""
        count = view.events if self.unit == "events" else len(view.items)
        return f"{count} {self.unit} > {self.count}" if count > self.count else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return the size at which the policy acts, `count` + 1 messages; no size if events are counted."""
        amount = Amount(self.count + 1, "messages")
        return DueAmounts(amounts=(amount,), smallest_view=amount) if self.unit == "messages" else DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True)
class Always:
    """Trigger that makes the policy act at every check, whatever the size of the conversation."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason to compact at every check, so the policy always acts."""
        return "asked at every step"

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since this trigger does not depend on the conversation."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Trigger that makes the policy act when at least one of several conditions is met."""

    triggers: tuple[Trigger, ...]
    """Conditions (triggers) of which at least one must be met for the policy to act."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return the reason that the first met condition gives; None if no condition is met."""
        return next((reason for trigger in self.triggers if (reason := trigger.check_due(view, budget, usage))), None)

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return the sizes that meet one of the conditions; no size if a condition does not depend on the size."""
        statements = [compute_due_amounts(trigger, budget) for trigger in self.triggers]
        smallest = [due.smallest_view for due in statements if due.smallest_view is not None]
        waiting = [due.amounts for due in statements if not (budget.window_tokens and due.is_never)]
        return DueAmounts(
            amounts=tuple(amount for amounts in waiting for amount in amounts) if all(waiting) else (),
            smallest_view=min(smallest, key=lambda amount: amount.size) if len(smallest) == len(statements) else None,
        )


@dataclass(frozen=True, slots=True)
class AllOf:
    """Trigger that makes the policy act only when all of several conditions are met."""

    triggers: tuple[Trigger, ...]
    """Conditions (triggers) that must all be met at the same time for the policy to act."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return the reasons of all conditions, joined by "and"; None if a condition is not met."""
        reasons = [trigger.check_due(view, budget, usage) for trigger in self.triggers]
        return " and ".join(reason for reason in reasons if reason) if all(reasons) else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since no size is certain to meet all conditions."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Trigger that makes the policy act when the session was idle since the last answer; never if times are unknown."""

    seconds: float
    """Number of seconds since the last answer that must be exceeded."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason such as `idle for 4000 s > 3600 s` after a pause; None otherwise."""
        idle_seconds = view.idle_seconds
        if idle_seconds is None or idle_seconds <= self.seconds:
            return None
        return f"idle for {idle_seconds:.0f} s > {self.seconds:g} s"

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since this trigger does not depend on the conversation."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """Trigger that makes the policy act only while a person attends the session and can be asked."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """Return a reason for a compaction if a person attends the session, or None if nobody does."""
        return "somebody attends the session" if view.attended else None

    def compute_due_amounts(self, budget: Budget) -> DueAmounts:
        """Return no size (an empty `DueAmounts`), since this trigger does not depend on the conversation."""
        return DUE_IN_ANY_VIEW


def measure_tokens(measure: Measure, view: View, usage: Usage | None) -> int:
    """Return the number of tokens in view, measured in the given way; estimated if no usage was reported."""
    if measure == "estimate":
        return view.tokens
    if measure == "unedited":
        return view.tokens + view.saved_tokens
    if usage is None:
        return select_calibration(measure, view).measure(view.tokens)
    if measure == "prompt":
        return usage.prompt_tokens
    known = compute_context_usage(view, usage)
    if measure == "rescaled":
        return _rescale_estimate(view, known)
    if measure == "calibrated":
        return known.usage_tokens + math.ceil(known.trailing_tokens * view.calibration.ratio)
    return known.usage_tokens if measure == "reported" else known.tokens


def select_calibration(measure: Measure, view: View) -> Calibration:
    """Return the relation between estimates and a policy's own numbers of tokens, such as the number that it retains.

    Only with the measure `calibrated` are these numbers tokens by the provider's count; otherwise they are estimates.
    """
    return view.calibration if measure == "calibrated" else NO_REPORTS


def _rescale_estimate(view: View, known: ContextUsage) -> int:
    tokens_then = view.tokens - known.trailing_tokens
    factor = min(MAX_RESCALE_FACTOR, max(1.0, known.usage_tokens / tokens_then)) if tokens_then > 0 else 1.0
    return math.ceil(view.tokens * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestThreshold:
    """Rule by which compaction begins at the smallest of the thresholds that several other rules compute."""

    budget_rules: tuple[BudgetRule, ...]
    """Rules that each compute a threshold in tokens from the context window; the smallest threshold is used."""

    def compute_budget(self, window: Window) -> Budget:
        """Compute a budget for the window by each rule, and return the one with the smallest threshold.

        A rule without a threshold counts only if no rule has one: in a window of unknown size, a share of it is unknown.
        """
        budgets = [rule.compute_budget(window) for rule in self.budget_rules]
        return min(budgets, key=lambda budget: math.inf if budget.threshold_tokens is None else budget.threshold_tokens)


def make_budget(window: Window, threshold_tokens: int, rule: str) -> Budget:
    """Return a budget with the given threshold and without reserved tokens.

    The text that explains the threshold also names the source of the window's size.
    """
    full_rule = f"{rule}; window from {window.source}"
    return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=threshold_tokens, rule=full_rule)
