"""Reducers around reducers: what is done besides, instead or only if. Each takes another's proposal and changes it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.stages import Mask, Reducer, find_last_user_text
from harness.events import Insert
from harness.messages import user
from harness.plan import Plan
from harness.tokens import Budget, Counter
from harness.view import View


def count_required_messages(reducer: Reducer) -> int:
    """Return the number of messages below which a reducer states that it does nothing; 0 = it states none."""
    count: Callable[[], int] | None = getattr(reducer, "count_required_messages", None)
    return count() if count else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """Does something else when a summary of the first fails."""

    first: Reducer
    then: Reducer

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.first.reduce(view, budget, reason)
        if not plan.slots:
            return plan
        instead = self.then.reduce(view, budget, f"{reason}; instead of a summary")
        return plan if instead.is_empty else replace(plan, fallback=instead)


@dataclass(frozen=True, slots=True, kw_only=True)
class IfSaves:
    """Does nothing where a mask saves too little."""

    tokens: int
    """At least so many."""
    reducer: Mask
    counter: Counter
    """Of the policy."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        most = self.reducer.count_old_tokens(view) if self.tokens else None  # asked first: it costs nothing in a long view
        if most is not None and most < self.tokens:
            return Plan(reason=f"{reason}, but at most {most} tokens would be saved, fewer than {self.tokens}")
        plan = self.reducer.reduce(view, budget, reason)
        if plan.is_empty:
            return plan
        held = {item.item_id: item.tokens for item in view.items}
        saved = sum(held[change.item] - self.counter.count(change.message) for change in plan.replace)
        if saved >= self.tokens:
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
        message_count = len(view.items) - 1
        if view.summaries:
            summary_index = [item.item_id for item in view.items].index(view.summaries[-1])
            message_count = len(view.items) - summary_index - (not self.with_summary)
        if message_count < self.count:
            return Plan(reason=f"{reason}, but {message_count} messages since the last summary are fewer than {self.count}")
        return self.reducer.reduce(view, budget, reason)

    def count_required_messages(self) -> int:
        """See `count_required_messages`."""
        return max(self.count, count_required_messages(self.reducer))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithClosingMessage:
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
        message = user(self.text.replace("{said}", find_last_user_text(view)))
        if last.item_id not in plan.forget:
            return replace(plan, insert=(*plan.insert, Insert(message=message, after=last.item_id)))
        ending = replace(plan.slots[-1], behind=(*plan.slots[-1].behind, message))
        return replace(plan, slots=(*plan.slots[:-1], ending))
