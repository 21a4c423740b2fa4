"""Check that a policy can ever evict something, so that useless configurations are refused before a session starts.

Example: a rule that is triggered at 8,000 tokens and retains the newest 8,000 tokens never finds anything to evict. This happens
easily when a policy with constants for a large context window is used in a small one. Rules for an overflow of the window are
not checked, because when they run, the normal rules have already had no effect.

Only amounts in the same unit are compared: tokens with tokens, messages with messages. A rule is accepted if it is triggered by
tokens and retains a number of messages, or the reverse, or if it has parts that this module does not know.
"""

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import NamedTuple, cast

from harness.compaction.description import list_parts, name_policy
from harness.compaction.pipeline import Pipeline, Rule
from harness.compaction.stages import Retaining
from harness.compaction.triggers import ALL_KEPT, Amount, Unit, compute_due_amounts
from harness.compaction.wrappers import count_required_messages
from harness.conversation.tokens import Budget, Window
from harness.errors import UsageError
from harness.protocols import Policy

UNBOUNDED_WINDOW = Window(tokens=2**31, source="configuration")
"""Very large context window, used to find out whether a policy would have a threshold if the window were known."""

SHARE_FIELDS = frozenset({"keep_share", "preserve"})
"""Names of policy fields that give the share of the messages, or of the context window, that a policy retains."""


class _Conflict(NamedTuple):
    """Reason why a rule finds nothing to compact: it retains at least the amount that triggers it."""

    kept_amount: Amount
    """Minimum number of tokens or messages that the rule always retains."""
    due_amount: Amount
    """Number of tokens or messages in the conversation at which the rule is triggered."""


def compute_feasible_budget(policy: Policy, window: Window) -> Budget:
    """Return the budget of a policy in a context window, in which it can work.

    Raises:
        UsageError: The reserves leave nothing of the window, or the policy retains more than its threshold allows.
    """
    budget = policy.budget(window)
    check_feasible(policy, budget)
    return budget


def check_feasible(policy: object, budget: Budget) -> None:
    """Refuse a policy whose rules all retain at least the amount that triggers them, so that nothing is evicted.

    Rules that act only after an overflow of the window do not count. A policy without rules is accepted.

    Args:
        policy: Policy with its final field values; a policy without a pipeline of stages is not checked.
        budget: Budget that the policy computed for the window.

    Raises:
        UsageError: No rule could ever act; the message names the retained amount, the threshold and its origin.
    """
    results = [_find_conflict(rule, budget) for rule in _list_rules(policy)]
    conflicts = [result for result in results if result is not None]
    if not conflicts or len(conflicts) < len(results):
        return
    kept, due = min(conflicts, key=lambda conflict: conflict.kept_amount.size)
    raise UsageError(
        f"policy {name_policy(policy)!r} retains {kept}{_format_field_name(policy, kept, budget)} and is triggered at {due} "
        f"({budget.rule}), so it would find nothing to compact; retain less, raise window_tokens, or set nominal_window_tokens "
        "to the window that the policy's constants were made for"
    )


def has_unknown_threshold(policy: Policy, window: Window) -> bool:
    """Return whether a policy has no token threshold only because the size of the context window is unknown."""
    return policy.budget(window).threshold_tokens is None and policy.budget(UNBOUNDED_WINDOW).threshold_tokens is not None


def explain_never_due(policy: object, budget: Budget) -> str:
    """Return why a policy can never act before the window overflows; empty if it may act.

    The result is also empty if the window is unknown. Show it as a warning: a policy with constants for a larger window may be
    used in a small one on purpose.
    """
    window, smallest_view = budget.window_tokens, find_smallest_view(policy, budget)
    if window == 0 or smallest_view is None or smallest_view.size <= window:
        return ""
    requirement = f"it acts at {smallest_view} at the earliest" if math.isfinite(smallest_view.size) else "nothing triggers it"
    unit = "" if smallest_view.unit == "tokens" else " tokens"
    return f"{requirement}, and the window has {window:,}{unit}: it will never act before an overflow"


def find_smallest_view(policy: object, budget: Budget) -> Amount | None:
    """Return the minimum size of the conversation at which a policy can act before the window overflows.

    None if it is unknown. Sizes in tokens and in messages are compared as numbers, because a message has at least one token.
    """
    smallest_views = [_find_smallest_view(rule, budget) for rule in _list_rules(policy)]
    known = [amount for amount in smallest_views if amount is not None]
    return min(known, key=lambda amount: amount.size) if known and len(known) == len(smallest_views) else None


def compute_kept_tokens(policy: object, budget: Budget) -> int:
    """Return how many tokens a policy always retains beside system message and summary: those of the rule that retains least.

    A rule whose retained amount is unknown, or given as a number of messages, counts as retaining nothing.
    """
    amounts = [_find_kept_amounts(rule, budget) for rule in _list_rules(policy)]
    limited = [kept for kept in amounts if "all" not in kept]
    return min((int(kept["tokens"].size) if "tokens" in kept else 0 for kept in limited), default=0)


def _list_rules(policy: object) -> tuple[Rule, ...]:
    pipeline = getattr(policy, "pipeline", None)
    return tuple(rule for rule in pipeline.rules if rule.hook != "overflow") if isinstance(pipeline, Pipeline) else ()


def _find_conflict(rule: Rule, budget: Budget) -> _Conflict | None:
    """Return the amounts that a rule retains and is triggered at, if it can therefore never compact; else None.

    A quiet rule tries again until it finds something to do, at most until the conversation fills the window.
    """
    due_amounts, kept_amounts = compute_due_amounts(rule.trigger, budget).amounts, _find_kept_amounts(rule, budget)
    conflicts: list[_Conflict] = []
    for due_amount in due_amounts:
        kept_amount, due_size = kept_amounts.get(due_amount.unit, kept_amounts.get("all")), due_amount.size
        if rule.quiet:
            due_size = budget.window_tokens if due_amount.unit == "tokens" and budget.window_tokens else math.inf
        if kept_amount is not None and kept_amount.size >= due_size:
            conflicts.append(_Conflict(kept_amount, due_amount))
    # whatever triggers the rule, the conversation then has at most the tokens of the threshold, so one such conflict is enough
    by_tokens = next(
        (conflict for conflict in conflicts if conflict.due_amount.unit == conflict.kept_amount.unit == "tokens"), None
    )
    return by_tokens or (conflicts[0] if conflicts and len(conflicts) == len(due_amounts) else None)


def _find_kept_amounts(rule: Rule, budget: Budget) -> dict[Unit, Amount]:
    """Return the minimum number of tokens and of messages that a rule retains.

    The unit `all` means that the rule retains everything.
    """
    smallest_by_unit: dict[Unit, Amount] = {}
    for amount in _list_kept_amounts(rule.reducer, budget):
        if amount.size < smallest_by_unit.get(amount.unit, ALL_KEPT).size:
            smallest_by_unit[amount.unit] = amount
        elif amount == ALL_KEPT:
            smallest_by_unit.setdefault("all", ALL_KEPT)
    if len(smallest_by_unit) > 1:
        smallest_by_unit.pop("all", None)
    return smallest_by_unit


def _list_kept_amounts(part: object, budget: Budget) -> Iterator[Amount]:
    kind: type = type(part)
    if _is_retaining(kind):
        amount = cast(Retaining, part).compute_kept_amount(budget)
        if amount is not None:
            yield amount
    else:
        for inner in list_parts(part):
            yield from _list_kept_amounts(inner, budget)


@cache
def _is_retaining(kind: type) -> bool:
    return issubclass(kind, Retaining)  # slow for a protocol, hence the cache


def _find_smallest_view(rule: Rule, budget: Budget) -> Amount | None:
    """Return the minimum size of the conversation at which a rule can act; None if it is unknown.

    If the rule needs more messages than the window has tokens, this number of messages is returned. So many messages never fit,
    because every message has at least one token.
    """
    due_amount, messages = compute_due_amounts(rule.trigger, budget).smallest_view, count_required_messages(rule.reducer)
    if messages <= budget.window_tokens:
        return due_amount
    return max(due_amount or Amount(0, "messages"), Amount(messages, "messages"), key=lambda amount: amount.size)


def _format_field_name(policy: object, amount: Amount, budget: Budget) -> str:
    """Return the policy field that sets a retained amount, in parentheses; empty if there is none."""
    if not is_dataclass(policy):
        return ""
    named = (field.name for field in fields(policy) if _is_keep_field(field.name, getattr(policy, field.name), amount, budget))
    return "".join(f" ({name})" for name in list(named)[:1])


def _is_keep_field(name: str, value: object, amount: Amount, budget: Budget) -> bool:
    if name in SHARE_FIELDS and isinstance(value, int | float):
        return value >= 1 if amount == ALL_KEPT else int(value * budget.window_tokens) == amount.size
    if not name.startswith(("keep", "protect")):
        return False
    return value == amount.size or (amount.unit == "messages" and value == amount.size - 1)  # the system message counts too
