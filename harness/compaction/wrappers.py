"""Reducers (ways to shorten the conversation) that extend another reducer by a fallback, a condition or a closing message."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.stages import Mask, Reducer, find_last_user_text
from harness.conversation.events import Insert
from harness.conversation.messages import user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter
from harness.conversation.view import View, find_first_index


def count_required_messages(reducer: Reducer) -> int:
    """Return how many messages a reducer (a way to shorten the conversation) needs to act; 0 if there is no minimum."""
    count: Callable[[], int] | None = getattr(reducer, "count_required_messages", None)
    return count() if count else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """Part of a policy that shortens the conversation in a second way if the summary planned by the first way fails."""

    first: Reducer
    """First way to shorten the conversation, usually by a summary."""
    then: Reducer
    """Second way to shorten the conversation, used if a summary of the first way fails."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of `first`, with the plan of `then` as the fallback for a failed summary."""
        plan = self.first.reduce(view, budget, reason)
        if not plan.slots:
            return plan
        instead = self.then.reduce(view, budget, f"{reason}; instead of a summary")
        return plan if instead.is_empty else replace(plan, fallback=instead)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrElse:
    """Part of a policy that shortens the conversation in one way or, if that finds nothing to do, in a second way."""

    first: Reducer
    """First way to shorten the conversation; its plan is used unless there is nothing to do."""
    second: Reducer
    """Second way to shorten the conversation, used if the first way finds nothing to do."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of the first way or, if that plan is empty, the plan of the second way."""
        plan = self.first.reduce(view, budget, reason)
        return self.second.reduce(view, budget, plan.reason) if plan.is_empty else plan


@dataclass(frozen=True, slots=True, kw_only=True)
class IfSaves:
    """Part of a policy that replaces old tool results by short texts only if that saves a required number of tokens."""

    tokens: int
    """Minimum number of tokens that must be saved by replacing old tool results; otherwise none is replaced."""
    reducer: Mask
    """Settings by which old tool results are replaced by a short text, such as the number of results to keep."""
    counter: Counter
    """Token counter with which the tokens saved by replacing tool results are computed."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces old tool results by a short text.

        If that saves too few tokens, the plan is empty, and its reason gives the number of tokens.
        """
        most = self.reducer.count_old_tokens(view) if self.tokens else None  # checked first, because it is cheap in a long view
        if most is not None and most < self.tokens:
            return CompactionPlan(reason=f"{reason}, but at most {most:,} tokens would be saved, fewer than {self.tokens:,}")
        plan = self.reducer.reduce(view, budget, reason)
        if plan.is_empty:
            return plan
        first = find_first_index(view.items, [change.item for change in plan.replace])
        tokens_by_item = {item.item_id: item.tokens for item in view.items[first:]}
        saved = sum(tokens_by_item[change.item] - self.counter.count(change.message) for change in plan.replace)
        if saved >= self.tokens:
            return plan
        return CompactionPlan(reason=f"{plan.reason}, but {saved:,} tokens would be saved, fewer than {self.tokens:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IfMessages:
    """Part of a policy that shortens the conversation only if enough messages follow the last summary.

    Without a summary, all messages but the system message are counted.
    """

    count: int
    """Minimum number of messages since the last summary, or in the whole conversation if there is no summary."""
    reducer: Reducer
    """Way to shorten the conversation, used if there are enough messages since the last summary."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does."""
        return "the number of messages since its last summary"

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of the reducer; an empty plan if too few messages follow the last summary."""
        message_count = len(view.items) - 1
        if view.summaries:
            summary_index = [item.item_id for item in view.items].index(view.summaries[-1])
            message_count = len(view.items) - 1 - summary_index
        if message_count < self.count:
            return CompactionPlan(
                reason=f"{reason}, but {message_count:,} messages since the last summary are fewer than {self.count:,}"
            )
        return self.reducer.reduce(view, budget, reason)

    def count_required_messages(self) -> int:
        """Return the minimum number of messages at which this part of the policy can act."""
        return max(self.count, count_required_messages(self.reducer))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithClosingMessage:
    """Part of a policy that ends a summarized conversation with a user message, such as a request to continue."""

    reducer: Reducer
    """Way to shorten the conversation, such as by a summary, after which the closing message is added."""
    text: str
    """Text of the user message added at the end; `{said}` is replaced by the text of the user's last message."""
    when: Literal["always", "interrupted", "overflow"] = "always"
    """Cases in which the closing message is added; `interrupted` requires that the conversation ends with a tool result."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of the reducer and, if it contains a summary, add a user message at the end."""
        plan = self.reducer.reduce(view, budget, reason)
        last = view.items[-1]
        if not plan.slots or (self.when == "interrupted" and last.message.role != "tool"):
            return plan
        # not str.format, because the text may contain other braces
        message = user(self.text.replace("{said}", find_last_user_text(view)))
        if last.item_id not in plan.forget:
            return replace(plan, insert=(*plan.insert, Insert(message=message, after=last.item_id)))
        ending = replace(plan.slots[-1], behind=(*plan.slots[-1].behind, message))
        return replace(plan, slots=(*plan.slots[:-1], ending))
