"""When a policy acts, and how it divides a window. What a trigger costs does not grow with the view.

A division turns a window into a budget once in a session; a trigger looks at view, budget and the last usage report before
each step. Both are values, so that a preset can be read, compared and hashed.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from harness.errors import UsageError
from harness.events import ContextUsage
from harness.tokens import Budget, Usage, Window
from harness.view import View, compute_context_usage

Measure: TypeAlias = Literal["estimate", "prompt", "reported", "reported-and-since", "rescaled", "unedited"]
"""How full the view is: the policy's own estimate of it; the tokens of the last call as the provider reported them, of its
prompt alone or answer included; the latter and the estimate of what came after that answer (S2.10); the estimate, multiplied by
what the report was of the estimate then, between 1 and 1.25; or the estimate of what the view would hold if nothing in it had
been edited."""
MAX_RESCALE_FACTOR = 1.25


Unit: TypeAlias = Literal["tokens", "messages", "requests and answers", "all"]


class Amount(NamedTuple):
    """A number of tokens or messages in a view."""

    size: float
    """Infinite = all that there are."""
    unit: Unit

    def __str__(self) -> str:
        return "everything" if self.unit == "all" else f"{int(self.size)} {self.unit}"


ALL_KEPT = Amount(math.inf, "all")


class DueAmounts(NamedTuple):
    """Amounts of a view that make a trigger due."""

    amounts: tuple[Amount, ...] = ()
    """Each of them is enough; empty = the trigger is due for another reason, or never."""
    smallest_view: Amount | None = None
    """Smallest view in which the trigger can be due; infinite = none, None = not known."""

    @property
    def is_never(self) -> bool:
        """Whether no view can make the trigger due."""
        return self.smallest_view is not None and math.isinf(self.smallest_view.size)


DUE_IN_ANY_VIEW = DueAmounts()
"""Statement of a trigger that does not depend on an amount."""


class Division(Protocol):
    """How a window is divided. Pure, and a value."""

    def __hash__(self) -> int: ...

    def compute_budget(self, window: Window) -> Budget:
        """The budget of a window; 0 tokens = unknown, which turns a threshold off that depends on it (S2.8).

        Raises:
            UsageError: nothing is left of the window.
        """
        ...


class Trigger(Protocol):
    """When something is due. Pure; constant cost."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """The reason in words and numbers, or None."""
        ...

    def state_due(self, budget: Budget) -> DueAmounts:
        """State which amounts of a view make the trigger due; `DUE_IN_ANY_VIEW` where it depends on none."""
        ...


def state_due(trigger: Trigger, budget: Budget) -> DueAmounts:
    """Return the amounts of a view that make a trigger due.

    Raises:
        UsageError: the trigger, e.g. one of another package, has no method `state_due`.
    """
    if not hasattr(trigger, "state_due"):
        raise UsageError(
            f"trigger {type(trigger).__name__} has no method state_due(budget); add one that returns DUE_IN_ANY_VIEW, or a "
            "DueAmounts with the tokens or messages that make it due (both are in harness.compaction.triggers)"
        )
    return trigger.state_due(budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserves:
    """Tokens kept free of messages. Source and defaults: S0.4."""

    system_tokens: int = 2_000
    output_tokens: int = 4_000
    safety_tokens: int = 5_000

    @property
    def total_tokens(self) -> int:
        """All three together."""
        return self.system_tokens + self.output_tokens + self.safety_tokens


NO_RESERVES = Reserves(system_tokens=0, output_tokens=0, safety_tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOfAvailable:
    """Act at a share of the window less its reserves (S0.4: 128,000 -> 117,000 -> 93,600 at 0.8)."""

    share: float
    reserves: Reserves = NO_RESERVES
    at_most_tokens: int | None = None
    """The threshold is no higher than this, and just this where the window is unknown; None = as high as the share says."""

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return FixedTokens(tokens=self.at_most_tokens).compute_budget(window) if self.at_most_tokens else UNKNOWN_BUDGET
        reserved = self.reserves.total_tokens
        available = subtract_reserves(window, reserved)
        threshold = int(available * self.share)
        rule = f"{self.share:g} × ({window.tokens} − {reserved} reserved) = {threshold} tokens; window from {window.source}"
        if self.at_most_tokens is not None and self.at_most_tokens < threshold:
            threshold = self.at_most_tokens
            rule = f"{rule}; at most {threshold} tokens"
        return Budget(window_tokens=window.tokens, reserved_tokens=reserved, threshold_tokens=threshold, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMinusReserve:
    """Act when a reserve at the end of the window is touched."""

    reserve_tokens: int

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        threshold = subtract_reserves(window, self.reserve_tokens)
        rule = f"{window.tokens} − {self.reserve_tokens} reserved = {threshold} tokens; window from {window.source}"
        return Budget(window_tokens=window.tokens, reserved_tokens=self.reserve_tokens, threshold_tokens=threshold, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableInput:
    """Act when what the model can take as input is used up (S3.3)."""

    max_output_tokens: int
    """Configured; a model that can write less needs less."""
    input_limit_tokens: int | None = None
    """Of the model, apart from its window; None = it has none."""
    input_reserve_tokens: int = 0
    """Kept free of that limit, but no more than is kept free for an answer."""

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        output = min(self.max_output_tokens, window.output_tokens or self.max_output_tokens)
        if self.input_limit_tokens is None:
            usable, formula = subtract_reserves(window, output), f"{window.tokens} − {output} for the answer"
        else:
            reserve = min(self.input_reserve_tokens, output)
            usable = min(self.input_limit_tokens - reserve, window.tokens)
            formula = f"input limit of {self.input_limit_tokens} − {reserve}" if reserve else "input limit"
        rule = f"{formula} = {usable} tokens; window from {window.source}"
        return Budget(window_tokens=window.tokens, reserved_tokens=window.tokens - usable, threshold_tokens=usable, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTokens:
    """Act at a number of tokens, whatever the window is."""

    tokens: int

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        rule = f"{self.tokens} tokens, fixed"
        return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=self.tokens, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoThreshold:
    """No threshold in tokens: something else triggers, or nothing does."""

    rule: str

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=None, rule=self.rule)


def make_division(share: float | None, tokens: int | None, rule: str) -> Division:
    """Act at a number of tokens or at a share of the window; without either, by the rule alone."""
    if tokens is not None:
        return FixedTokens(tokens=tokens)
    return NoThreshold(rule=rule) if share is None else ShareOfAvailable(share=share)


def check_triggers(share: float | None, tokens: int | None, messages: int | None) -> None:
    """Refuse two triggers in tokens, and a policy without a trigger.

    Raises:
        UsageError: names the fields.
    """
    if share is not None and tokens is not None:
        raise UsageError(f"trigger_tokens={tokens!r} and trigger_share are two triggers in tokens; unset one")
    if share is tokens is messages is None:
        raise UsageError("trigger_share, trigger_tokens or trigger_messages must be set: it would never act")


UNKNOWN_BUDGET = Budget(window_tokens=0, reserved_tokens=0, threshold_tokens=None, rule="window unknown: compaction is off")


def subtract_reserves(window: Window, reserved_tokens: int) -> int:
    """Tokens of a window that reserves leave.

    Raises:
        UsageError: they leave none.
    """
    available = window.tokens - reserved_tokens
    if available <= 0:
        raise UsageError(
            f"the reserves of {reserved_tokens} tokens leave nothing of the window of {window.tokens} "
            f"({window.source}); raise window_tokens above {reserved_tokens} or lower the reserves"
        )
    return available


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """The view has reached the budget's threshold, by some measure."""

    measure: Measure = "estimate"
    above: bool = False
    """Whether it must be above the threshold, not only at it."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        if budget.threshold_tokens is None:
            return None
        tokens = measure_tokens(self.measure, view, usage)
        if tokens < budget.threshold_tokens or (self.above and tokens == budget.threshold_tokens):
            return None
        return f"{tokens} tokens {'>' if self.above else '≥'} threshold {budget.threshold_tokens}"

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        size = math.inf if budget.threshold_tokens is None else budget.threshold_tokens
        amount = Amount(size, "tokens")
        return DueAmounts(amounts=() if size == math.inf else (amount,), smallest_view=amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreThan:
    """The view holds more than so many messages or events."""

    count: int
    unit: Literal["messages", "events"] = "messages"

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        held = view.events if self.unit == "events" else len(view.items)
        return f"{held} {self.unit} > {self.count}" if held > self.count else None

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        amount = Amount(self.count + 1, "messages")
        return DueAmounts(amounts=(amount,), smallest_view=amount) if self.unit == "messages" else DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True)
class Always:
    """At every asking."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        return "asked at every step"

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DUE_IN_ANY_VIEW


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The first of several that is due."""

    triggers: tuple[Trigger, ...]

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        return next((reason for trigger in self.triggers if (reason := trigger.check_due(view, budget, usage))), None)

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        statements = [state_due(trigger, budget) for trigger in self.triggers]
        smallest = [due.smallest_view for due in statements if due.smallest_view is not None]
        waiting = [due.amounts for due in statements if not (budget.window_tokens and due.is_never)]
        return DueAmounts(
            amounts=tuple(amount for amounts in waiting for amount in amounts) if all(waiting) else (),
            smallest_view=min(smallest, key=lambda amount: amount.size) if len(smallest) == len(statements) else None,
        )


@dataclass(frozen=True, slots=True)
class AllOf:
    """Several at once."""

    triggers: tuple[Trigger, ...]

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        """See `Trigger`."""
        reasons = [trigger.check_due(view, budget, usage) for trigger in self.triggers]
        return " and ".join(reason for reason in reasons if reason) if all(reasons) else None

    def state_due(self, budget: Budget) -> DueAmounts:
        """See `harness.compaction.triggers.Trigger`."""
        return DUE_IN_ANY_VIEW


def measure_tokens(measure: Measure, view: View, usage: Usage | None) -> int:
    """Tokens in view by a measure; without a report yet, the estimate."""
    if measure == "unedited":
        return view.tokens + view.saved_tokens
    if measure == "estimate" or usage is None:
        return view.tokens
    if measure == "prompt":
        return usage.prompt_tokens
    known = compute_context_usage(view, usage)
    if measure == "rescaled":
        return _rescale_estimate(view, known)
    return known.usage_tokens if measure == "reported" else known.tokens


def _rescale_estimate(view: View, known: ContextUsage) -> int:
    then = view.tokens - known.trailing_tokens
    factor = min(MAX_RESCALE_FACTOR, max(1.0, known.usage_tokens / then)) if then > 0 else 1.0
    return math.ceil(view.tokens * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestThreshold:
    """The division with the smallest threshold."""

    divisions: tuple[Division, ...]

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        budgets = [division.compute_budget(window) for division in self.divisions]
        return min(budgets, key=lambda budget: budget.threshold_tokens or 0)


def make_budget(window: Window, threshold_tokens: int, rule: str) -> Budget:
    """Return the budget of a window without reserves, with the source of the window added to its rule."""
    full_rule = f"{rule}; window from {window.source}"
    return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=threshold_tokens, rule=full_rule)
