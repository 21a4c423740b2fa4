"""Reducers that modify the plan of another reducer: fallbacks, conditions and closing messages."""

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
    """Return the number of messages in view below which a reducer does nothing; 0 if the reducer states no such number."""
    count: Callable[[], int] | None = getattr(reducer, "count_required_messages", None)
    return count() if count else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """Reducer that falls back on a second reducer if a summary of the first one fails."""

    first: Reducer
    """Reducer whose plan is tried first."""
    then: Reducer
    """Reducer whose plan is applied if a summary of the first reducer fails."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """Return the plan of the first reducer, with the plan of the second one as its fallback if a summary fails."""
        plan = self.first.reduce(view, budget, reason)
        if not plan.slots:
            return plan
        instead = self.then.reduce(view, budget, f"{reason}; instead of a summary")
        return plan if instead.is_empty else replace(plan, fallback=instead)


@dataclass(frozen=True, slots=True, kw_only=True)
class IfSaves:
    """Reducer that masks old tool results only if that saves enough tokens."""

    tokens: int
    """Minimum number of tokens that masking must save to be applied."""
    reducer: Mask
    """Mask that replaces old tool results if that saves enough."""
    counter: Counter
    """Token counter with which the savings of masking are computed."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """Return the plan of the mask if it saves enough tokens; otherwise an empty plan that gives the savings as its reason."""
        most = self.reducer.count_old_tokens(view) if self.tokens else None  # checked first, because it is cheap in a long view
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
    """Reducer that runs another reducer only if enough messages follow the last summary.

    Without a summary, all messages but the system message are counted.
    """

    count: int
    """Minimum number of messages since the last summary, or in view if there is no summary."""
    reducer: Reducer
    """Reducer that runs if there are enough messages since the last summary."""
    with_summary: bool = False
    """Whether the last summary itself counts as one of the messages since the last summary."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """Return the plan of the reducer; an empty plan if too few messages follow the last summary."""
        message_count = len(view.items) - 1
        if view.summaries:
            summary_index = [item.item_id for item in view.items].index(view.summaries[-1])
            message_count = len(view.items) - summary_index - (not self.with_summary)
        if message_count < self.count:
            return Plan(reason=f"{reason}, but {message_count} messages since the last summary are fewer than {self.count}")
        return self.reducer.reduce(view, budget, reason)

    def count_required_messages(self) -> int:
        """Return the number of messages in view below which this reducer does nothing."""
        return max(self.count, count_required_messages(self.reducer))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithClosingMessage:
    """Reducer that extends the plan of another reducer by a user message behind a summary, at the end of the view."""

    reducer: Reducer
    """Reducer whose plan is extended by the closing message."""
    text: str
    """Text of the user message added at the end; `{said}` is replaced by the user's last message, whether it is in view or
    not."""
    when: Literal["always", "interrupted", "overflow"] = "always"
    """Views to which the closing message is added; `interrupted` restricts it to views that end with a tool result."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """Return the plan of the reducer, with a user message added at the end of the view if the plan contains a summary."""
        plan = self.reducer.reduce(view, budget, reason)
        last = view.items[-1]
        if not plan.slots or (self.when == "interrupted" and last.message.role != "tool"):
            return plan
        message = user(self.text.replace("{said}", find_last_user_text(view)))
        if last.item_id not in plan.forget:
            return replace(plan, insert=(*plan.insert, Insert(message=message, after=last.item_id)))
        ending = replace(plan.slots[-1], behind=(*plan.slots[-1].behind, message))
        return replace(plan, slots=(*plan.slots[:-1], ending))
