"""Reducers around reducers: what is done besides, instead or only if. Each takes another's proposal and changes it."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import joined
from harness.compaction.stages import Reducer, after
from harness.events import Insert, Patch
from harness.messages import user
from harness.plan import PLAIN, Excerpt, Manner, Plan
from harness.tokens import Budget, Counter, characters
from harness.view import View, patched


@dataclass(frozen=True, slots=True, kw_only=True)
class InManner:
    """Asks for the summaries of another reducer in its own manner."""

    reducer: Reducer
    manner: Manner = PLAIN
    excerpt: Excerpt | None = None
    """What of the messages the summarizer is shown; None = all."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        slots = tuple(replace(slot, manner=self.manner, excerpt=self.excerpt or slot.excerpt) for slot in plan.slots)
        return replace(plan, slots=slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrElse:
    """Does something else when a summary fails."""

    first: Reducer
    then: Reducer

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.first.reduce(view, budget, reason)
        if not plan.slots:
            return plan
        instead = self.then.reduce(view, budget, f"{reason}; instead of a summary")
        return plan if instead.empty else replace(plan, fallback=instead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unless:
    """Does something more unless the first has saved enough of the view's characters."""

    first: Reducer
    then: Reducer
    enough_share: float
    counter: Counter
    """Of the policy, for the view that the first leaves."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.first.reduce(view, budget, reason)
        if plan.empty:
            return self.then.reduce(view, budget, reason)
        before = sum(characters(item.message) for item in view.items)
        left = patched(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, self.counter)
        saved = before - sum(characters(item.message) for item in left)
        if saved >= self.enough_share * before:
            return plan
        return joined(plan, self.then.reduce(after(view, plan, self.counter), budget, reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class IfSaves:
    """Does nothing where another reducer's replacements save too little."""

    tokens: int
    """At least so many."""
    reducer: Reducer
    counter: Counter
    """Of the policy."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        held = {item.item_id: item.tokens for item in view.items}
        saved = sum(held[change.item] - self.counter.count(change.message) for change in plan.replace)
        if plan.empty or saved >= self.tokens:
            return plan
        return Plan(reason=f"{plan.reason}, but {saved} tokens would be saved, fewer than {self.tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IfMessages:
    """Does nothing where there are too few messages since the last summary, or in all."""

    count: int
    """At least so many."""
    reducer: Reducer
    with_summary: bool = False
    """Whether that summary counts too."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        since = len(view.items) - 1
        if view.summaries:
            at = [item.item_id for item in view.items].index(view.summaries[-1])
            since = len(view.items) - at - (not self.with_summary)
        if since < self.count:
            return Plan(reason=f"{reason}, but {since} messages since the last summary are fewer than {self.count}")
        return self.reducer.reduce(view, budget, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Puts a message of the user at the end of what another reducer's summary leaves."""

    reducer: Reducer
    text: str
    """`{said}` in it becomes what the user said last, in view or not."""
    when: Literal["always", "interrupted", "overflow"] = "always"
    """`interrupted`: only where the view ends with the result of a tool."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        last = view.items[-1]
        if not plan.slots or (self.when == "interrupted" and last.message.role != "tool"):
            return plan
        message = user(self.text.replace("{said}", last_said(view)))
        if last.item_id not in plan.forget:
            return replace(plan, insert=(*plan.insert, Insert(message=message, after=last.item_id)))
        ending = replace(plan.slots[-1], behind=(*plan.slots[-1].behind, message))
        return replace(plan, slots=(*plan.slots[:-1], ending))


def said_by_user(view: View, index: int) -> bool:
    """Whether a message of the view is the user's own, and no summary in that role."""
    item = view.items[index]
    return item.message.role == "user" and item.item_id not in view.summaries


def last_said(view: View) -> str:
    """What the user said last: the newest in view, else the session's request."""
    indexes = range(len(view.items) - 1, 0, -1)
    texts = (view.items[index].message.text for index in indexes if said_by_user(view, index))
    return next(texts, view.task.text if view.task else "")


def answered(view: View) -> int:
    """Index behind the last answer or result: what the user has said since is still to be answered."""
    end = len(view.items)
    while end > 1 and said_by_user(view, end - 1):
        end -= 1
    return end
