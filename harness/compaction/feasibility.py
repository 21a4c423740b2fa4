"""Whether a policy can do anything at all with a budget: what cannot be is refused before a session starts.

A policy that keeps as much as its threshold finds nothing to do when it is due, and works far above the threshold that it is
named for if it works at all. In a window smaller than its constants were made for this is easily overlooked. What is done when
the provider refuses a prompt is no answer to that: by then the threshold has been passed without effect.

Compared is like with like: tokens with tokens, messages with messages. A rule that is due by one and keeps by the other may
always find something, and so may one whose stages are not known here.
"""

import math
from dataclasses import fields, is_dataclass
from typing import Literal, NamedTuple, TypeAlias

from harness.compaction.cuts import LastMessages, LastShare, LastTokens
from harness.compaction.description import name_policy, walk_parts
from harness.compaction.pipeline import Pipeline, Rule
from harness.compaction.presets.gemini import BeforeUserMessage
from harness.compaction.presets.langchain import LastOfWindow
from harness.compaction.presets.pydantic_ai import LastBundles, MoreBundles
from harness.compaction.stages import Middle, Prunable
from harness.compaction.triggers import AnyOf, Full, MoreThan, Trigger
from harness.compaction.wrappers import IfMessages, WithProcedure
from harness.errors import UsageError
from harness.protocols import Policy
from harness.tokens import Budget, Window

UNBOUNDED_WINDOW = Window(tokens=2**31, source="configuration")

Unit: TypeAlias = Literal["tokens", "messages", "requests and answers", "all"]
SHARE_FIELDS = frozenset({"keep_share", "preserve"})
"""Fields that hold how much is kept, as a share."""


class _Amount(NamedTuple):
    """So many of something."""

    size: float
    """Infinite = all there are."""
    unit: Unit

    def __str__(self) -> str:
        return "everything" if self.unit == "all" else f"{int(self.size)} {self.unit}"


ALL_KEPT = _Amount(math.inf, "all")


class _Conflict(NamedTuple):
    """A rule that finds nothing when it is due."""

    kept_amount: _Amount
    due_amount: _Amount


def check_feasible(policy: object, budget: Budget) -> None:
    """Refuse a policy all of whose rules keep at least as much as makes them due, those after an overflow aside.

    Args:
        policy: as it will run; one that is no pipeline of stages is not looked into.
        budget: that it made of the window.

    Raises:
        UsageError: names what is kept, what makes it due and how that came to be.
    """
    results = [_find_conflict(rule, budget) for rule in _list_rules(policy)]
    conflicts = [one for one in results if one is not None]
    if not conflicts or len(conflicts) < len(results):
        return
    kept, due = min(conflicts, key=lambda one: one.kept_amount.size)
    raise UsageError(
        f"policy {name_policy(policy)!r} keeps "
        f"{kept}{_format_field_name(policy, kept, budget)} and is due at "
        f"{due} ({budget.rule}), so nothing would lie before what it keeps; lower what it keeps, raise window_tokens, "
        "or set nominal_window_tokens to the window that its constants were made for"
    )


def has_unknown_threshold(policy: Policy, window: Window) -> bool:
    """Whether a policy that has a threshold in a known window has none in this one, since it is not known (S2.8)."""
    return policy.budget(window).threshold_tokens is None and policy.budget(UNBOUNDED_WINDOW).threshold_tokens is not None


def explain_never_due(policy: object, budget: Budget) -> str:
    """Why nothing makes a policy act in a window, an overflow aside; empty = something may, or the window is not known.

    It is no mistake to put a policy with constants of its own into a small window, but whoever does should know.
    """
    window, rules = budget.window_tokens, _list_rules(policy)
    smallest_views = [_find_smallest_view(rule, budget) for rule in rules]
    if window == 0 or not rules or any(amount is None or amount.size <= window for amount in smallest_views):
        return ""
    smallest_view = min((amount for amount in smallest_views if amount is not None), key=lambda amount: amount.size)
    requirement = f"it acts at {smallest_view} at the earliest" if math.isfinite(smallest_view.size) else "nothing triggers it"
    unit = "" if smallest_view.unit == "tokens" else " tokens"
    return f"{requirement}, and the window has {window}{unit}: it will never act before an overflow"


def _list_rules(policy: object) -> tuple[Rule, ...]:
    pipeline = getattr(policy, "pipeline", None)
    return tuple(rule for rule in pipeline.rules if rule.moment != "overflow") if isinstance(pipeline, Pipeline) else ()


def _find_conflict(rule: Rule, budget: Budget) -> _Conflict | None:
    """Why a rule finds nothing when it is due; None = it may find something.

    More tokens than the threshold are in no view that it is named for, whatever else makes it due. A quiet rule just waits
    until it finds something, in tokens no longer than the window goes.
    """
    due_amounts, kept_amounts = _list_due_amounts(rule.trigger, budget), _find_kept_amounts(rule, budget)
    conflicts: list[_Conflict] = []
    for due in due_amounts:
        amount, limit = kept_amounts.get(due.unit, kept_amounts.get("all")), due.size
        if rule.quiet:
            limit = budget.window_tokens if due.unit == "tokens" and budget.window_tokens else math.inf
        if amount is not None and amount.size >= limit:
            conflicts.append(_Conflict(amount, due))
    by_tokens = next((one for one in conflicts if one.due_amount.unit == one.kept_amount.unit == "tokens"), None)
    return by_tokens or (conflicts[0] if conflicts and len(conflicts) == len(due_amounts) else None)


def _list_due_amounts(trigger: Trigger, budget: Budget) -> tuple[_Amount, ...]:
    """Each of the amounts that make a rule due; none = it is due for something else, or never."""
    match trigger:
        case AnyOf(triggers):
            each = [_list_due_amounts(one, budget) for one in triggers if not _is_off(one, budget)]
            return tuple(amount for amounts in each for amount in amounts) if all(each) else ()
        case Full() if budget.threshold_tokens is not None:
            return (_Amount(budget.threshold_tokens, "tokens"),)
        case MoreThan(unit="messages"):
            return (_Amount(trigger.count + 1, "messages"),)
        case MoreBundles():
            return (_Amount(trigger.count + 1, "requests and answers"),)
    return ()


def _is_off(trigger: Trigger, budget: Budget) -> bool:
    """Whether it waits for a threshold where there is none though the window is known."""
    return isinstance(trigger, Full) and budget.threshold_tokens is None and budget.window_tokens > 0


def _find_kept_amounts(rule: Rule, budget: Budget) -> dict[Unit, _Amount]:
    """What a rule keeps at the least, by unit; `all` = everything, where nothing else is kept."""
    smallest_by_unit: dict[Unit, _Amount] = {}
    for part in walk_parts(rule.reducer):
        amount = _read_kept_amount(part, budget)
        if amount is not None and amount.size < smallest_by_unit.get(amount.unit, ALL_KEPT).size:
            smallest_by_unit[amount.unit] = amount
        elif amount == ALL_KEPT:
            smallest_by_unit.setdefault("all", ALL_KEPT)
    if len(smallest_by_unit) > 1:
        smallest_by_unit.pop("all", None)
    return smallest_by_unit


def _read_kept_amount(part: object, budget: Budget) -> _Amount | None:
    """What a stage keeps at the least; None = nothing that could be told in a number."""
    match part:
        case LastTokens(tokens=tokens):
            return _Amount(tokens, "tokens")
        case LastOfWindow(share=share) if budget.window_tokens:
            return _Amount(int(share * budget.window_tokens), "tokens")
        case Middle(tail=LastMessages(count=count), head_messages=head):
            return _Amount(count + max(1, head), "messages")
        case LastBundles(count=count):
            return _Amount(max(1, count), "requests and answers")
        case LastShare(share=share) | BeforeUserMessage(keep_share=share) if share >= 1:
            return ALL_KEPT
    keeps: object = getattr(part, "keep_tokens", None)
    return _Amount(keeps, "tokens") if isinstance(keeps, int) else None


def _find_smallest_view(rule: Rule, budget: Budget) -> _Amount | None:
    """The smallest view that a rule does something with; None = it rests on nothing that is known here.

    Of messages only more are told than a window has tokens: each has at least one.
    """
    due, reducer, messages = _find_smallest_due_view(rule.trigger, budget), rule.reducer, 0
    while isinstance(reducer, IfMessages | WithProcedure):
        messages = max(messages, reducer.count) if isinstance(reducer, IfMessages) else messages
        reducer = reducer.reducer
    if messages <= budget.window_tokens:
        return due
    return max(due or _Amount(0, "messages"), _Amount(messages, "messages"), key=lambda amount: amount.size)


def _find_smallest_due_view(trigger: Trigger, budget: Budget) -> _Amount | None:
    """The smallest view that makes a rule due; see `_least`."""
    match trigger:
        case AnyOf(triggers):
            each = [_find_smallest_due_view(one, budget) for one in triggers]
            return None if None in each else min((one for one in each if one is not None), key=lambda amount: amount.size)
        case Full():
            return _Amount(math.inf if budget.threshold_tokens is None else budget.threshold_tokens, "tokens")
        case Prunable(mask=mask):
            return _Amount(mask.keep_tokens + mask.least_saved_tokens + 1, "tokens")
        case MoreThan(unit="messages") if trigger.count >= budget.window_tokens:
            return _Amount(trigger.count + 1, "messages")
    return None


def _format_field_name(policy: object, kept: _Amount, budget: Budget) -> str:
    """The field that says so, if one does."""
    if not is_dataclass(policy):
        return ""
    named = (field.name for field in fields(policy) if _is_keep_field(field.name, getattr(policy, field.name), kept, budget))
    return "".join(f" ({name})" for name in list(named)[:1])


def _is_keep_field(name: str, value: object, kept: _Amount, budget: Budget) -> bool:
    if name in SHARE_FIELDS and isinstance(value, int | float):
        return value >= 1 if kept == ALL_KEPT else int(value * budget.window_tokens) == kept.size
    if not name.startswith(("keep", "protect")):
        return False
    return value == kept.size or (kept.unit == "messages" and value == kept.size - 1)  # the system message is one more
