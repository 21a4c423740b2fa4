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

from harness.compaction.cuts import LastMessages, LastOfWindow, LastShare, LastTokens
from harness.compaction.description import parts
from harness.compaction.pipeline import Pipeline, Rule
from harness.compaction.presets.pydantic_ai import LastBundles, MoreBundles
from harness.compaction.stages import BeforeSaid, Middle, Prunable
from harness.compaction.triggers import AnyOf, Full, MoreThan, Trigger
from harness.compaction.wrappers import IfMessages, InManner
from harness.errors import UsageError
from harness.protocols import Policy
from harness.tokens import Budget, Window

UNBOUNDED = Window(tokens=2**31, source="configuration")

Unit: TypeAlias = Literal["tokens", "messages", "requests and answers", "all"]
SHARES = frozenset({"keep_share", "preserve"})
"""Fields that hold how much is kept, as a share."""


class _Amount(NamedTuple):
    """So many of something."""

    size: float
    """Infinite = all there are."""
    unit: Unit

    def __str__(self) -> str:
        return "everything" if self.unit == "all" else f"{int(self.size)} {self.unit}"


EVERYTHING = _Amount(math.inf, "all")


class _Vain(NamedTuple):
    """A rule that finds nothing when it is due."""

    kept: _Amount
    due: _Amount


def check_feasible(policy: object, budget: Budget) -> None:
    """Refuse a policy all of whose rules keep at least as much as makes them due, those after an overflow aside.

    Args:
        policy: as it will run; one that is no pipeline of stages is not looked into.
        budget: that it made of the window.

    Raises:
        UsageError: names what is kept, what makes it due and how that came to be.
    """
    vain = [_vain(rule, budget) for rule in _rules(policy)]
    found = [one for one in vain if one is not None]
    if not found or len(found) < len(vain):
        return
    kept, due = min(found, key=lambda one: one.kept.size)
    raise UsageError(
        f"policy {getattr(policy, 'kind', type(policy).__name__)!r} keeps {kept}{_by(policy, kept, budget)} and is due at "
        f"{due} ({budget.rule}), so nothing would lie before what it keeps; lower what it keeps, raise window_tokens, "
        "or set nominal_window_tokens to the window that its constants were made for"
    )


def blind(policy: Policy, window: Window) -> bool:
    """Whether a policy that has a threshold in a known window has none in this one, since it is not known (S2.8)."""
    return policy.budget(window).threshold_tokens is None and policy.budget(UNBOUNDED).threshold_tokens is not None


def never_due(policy: object, budget: Budget) -> str:
    """Why nothing makes a policy act in a window, an overflow aside; empty = something may, or the window is not known.

    It is no mistake to put a policy with constants of its own into a small window, but whoever does should know.
    """
    window, rules = budget.window_tokens, _rules(policy)
    least = [_least(rule, budget) for rule in rules]
    if window == 0 or not rules or any(amount is None or amount.size <= window for amount in least):
        return ""
    first = min((amount for amount in least if amount is not None), key=lambda amount: amount.size)
    needs = f"it acts at {first} at the earliest" if math.isfinite(first.size) else "nothing triggers it"
    unit = "" if first.unit == "tokens" else " tokens"
    return f"{needs}, and the window has {window}{unit}: it will never act before an overflow"


def _rules(policy: object) -> tuple[Rule, ...]:
    pipeline = getattr(policy, "pipeline", None)
    return tuple(rule for rule in pipeline.rules if rule.moment != "overflow") if isinstance(pipeline, Pipeline) else ()


def _vain(rule: Rule, budget: Budget) -> _Vain | None:
    """Why a rule finds nothing when it is due; None = it may find something.

    More tokens than the threshold are in no view that it is named for, whatever else makes it due. A quiet rule just waits
    until it finds something, in tokens no longer than the window goes.
    """
    dues, kept = _dues(rule.trigger, budget), _kept(rule, budget)
    vain: list[_Vain] = []
    for due in dues:
        amount, limit = kept.get(due.unit, kept.get("all")), due.size
        if rule.quiet:
            limit = budget.window_tokens if due.unit == "tokens" and budget.window_tokens else math.inf
        if amount is not None and amount.size >= limit:
            vain.append(_Vain(amount, due))
    by_tokens = next((one for one in vain if one.due.unit == one.kept.unit == "tokens"), None)
    return by_tokens or (vain[0] if vain and len(vain) == len(dues) else None)


def _dues(trigger: Trigger, budget: Budget) -> tuple[_Amount, ...]:
    """Each of the amounts that make a rule due; none = it is due for something else, or never."""
    match trigger:
        case AnyOf(triggers):
            each = [_dues(one, budget) for one in triggers if not _is_off(one, budget)]
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


def _kept(rule: Rule, budget: Budget) -> dict[Unit, _Amount]:
    """What a rule keeps at the least, by unit; `all` = everything, where nothing else is kept."""
    found: dict[Unit, _Amount] = {}
    for part in parts(rule.reducer):
        amount = _kept_by(part, budget)
        if amount is not None and amount.size < found.get(amount.unit, EVERYTHING).size:
            found[amount.unit] = amount
        elif amount == EVERYTHING:
            found.setdefault("all", EVERYTHING)
    if len(found) > 1:
        found.pop("all", None)
    return found


def _kept_by(part: object, budget: Budget) -> _Amount | None:
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
        case LastShare(share=share) | BeforeSaid(keep_share=share) if share >= 1:
            return EVERYTHING
    keeps: object = getattr(part, "keep_tokens", None)
    return _Amount(keeps, "tokens") if isinstance(keeps, int) else None


def _least(rule: Rule, budget: Budget) -> _Amount | None:
    """The smallest view that a rule does something with; None = it rests on nothing that is known here.

    Of messages only more are told than a window has tokens: each has at least one.
    """
    due, reducer, messages = _least_due(rule.trigger, budget), rule.reducer, 0
    while isinstance(reducer, IfMessages | InManner):
        messages = max(messages, reducer.count) if isinstance(reducer, IfMessages) else messages
        reducer = reducer.reducer
    if messages <= budget.window_tokens:
        return due
    return max(due or _Amount(0, "messages"), _Amount(messages, "messages"), key=lambda amount: amount.size)


def _least_due(trigger: Trigger, budget: Budget) -> _Amount | None:
    """The smallest view that makes a rule due; see `_least`."""
    match trigger:
        case AnyOf(triggers):
            each = [_least_due(one, budget) for one in triggers]
            return None if None in each else min((one for one in each if one is not None), key=lambda amount: amount.size)
        case Full():
            return _Amount(math.inf if budget.threshold_tokens is None else budget.threshold_tokens, "tokens")
        case Prunable(mask=mask):
            return _Amount(mask.keep_tokens + mask.least_saved_tokens + 1, "tokens")
        case MoreThan(unit="messages") if trigger.count >= budget.window_tokens:
            return _Amount(trigger.count + 1, "messages")
    return None


def _by(policy: object, kept: _Amount, budget: Budget) -> str:
    """The field that says so, if one does."""
    if not is_dataclass(policy):
        return ""
    named = (field.name for field in fields(policy) if _says(field.name, getattr(policy, field.name), kept, budget))
    return "".join(f" ({name})" for name in list(named)[:1])


def _says(name: str, value: object, kept: _Amount, budget: Budget) -> bool:
    if name in SHARES and isinstance(value, int | float):
        return value >= 1 if kept == EVERYTHING else int(value * budget.window_tokens) == kept.size
    if not name.startswith(("keep", "protect")):
        return False
    return value == kept.size or (kept.unit == "messages" and value == kept.size - 1)  # the system message is one more
