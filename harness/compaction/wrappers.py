"""Reducers around reducers: what is done besides, instead or only if. Each takes another's proposal and changes it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import lru_cache
from typing import Literal

from harness.compaction.pipeline import join_plans
from harness.compaction.retention import Block, group_blocks
from harness.compaction.stages import Mask, Reducer, apply_plan, find_last_user_text
from harness.events import Insert, ItemId, Patch
from harness.messages import extract_part_text, user
from harness.plan import PLAIN_PROCEDURE, Excerpt, Plan, SummaryProcedure
from harness.tokens import Budget, Counter, count_characters
from harness.truncation import name_output
from harness.view import View, apply_patch


@dataclass(frozen=True, slots=True, kw_only=True)
class WithProcedure:
    """Asks for the summaries of another reducer in its own manner."""

    reducer: Reducer
    procedure: SummaryProcedure = PLAIN_PROCEDURE
    excerpt: Excerpt | None = None
    """What of the messages the summarizer is shown; None = all."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        slots = tuple(replace(slot, procedure=self.procedure, excerpt=self.excerpt or slot.excerpt) for slot in plan.slots)
        return replace(plan, slots=slots)


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
        if plan.is_empty:
            return self.then.reduce(view, budget, reason)
        before = sum(count_characters(item.message) for item in view.items)
        left = apply_patch(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, self.counter)
        saved = before - sum(count_characters(item.message) for item in left)
        if saved >= self.enough_share * before:
            return plan
        return join_plans(plan, self.then.reduce(apply_plan(view, plan, self.counter), budget, reason))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPinned:
    """Keeps whole what another reducer would take, where a line of it matches a pattern: nothing forgets, masks or moves it.

    Shell patterns over whole lines, `*` for any text, since their time grows with the text alone; that of regular expressions has
    no bound on what a model or a tool may write. A call stays with all its results. What stays is no part of what a summary is
    told, and summaries are never pinned, or one that quotes a pinned line would stay beside the next for ever.
    """

    patterns: tuple[str, ...]
    reducer: Reducer

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        changed_ids = {*plan.forget, *(change.item for change in plan.replace)} - set(view.summaries)
        changed_blocks = [block for block in group_blocks(view.items) if any(item.item_id in changed_ids for item in block.items)]
        pinned_ids = [item.item_id for block in changed_blocks if self._has_match(block) for item in block.items]
        return exclude_items(plan, frozenset(pinned_ids) & changed_ids) if pinned_ids else plan

    def _has_match(self, block: Block) -> bool:
        return any(
            has_matching_line(self.patterns, extract_part_text(part)) for item in block.items for part in item.message.parts
        )


def has_matching_line(patterns: tuple[str, ...], text: str) -> bool:
    """Whether a line of a text is as one of some shell patterns says."""
    return any(matches(line) for line in text.splitlines() for matches in _compile_patterns(patterns))


@lru_cache(maxsize=1_000)
def _compile_patterns(patterns: tuple[str, ...]) -> tuple[Callable[[str], object], ...]:
    return tuple(re.compile(translate(pattern)).match for pattern in patterns)


def exclude_items(plan: Plan, items: frozenset[ItemId]) -> Plan:
    """A plan that leaves some items as they are; a summary that would stand for nothing else is not asked for."""
    slots = (replace(slot, stands_for=tuple(one for one in slot.stands_for if one not in items)) for slot in plan.slots)
    changes = tuple(change for change in plan.replace if change.item not in items)
    written = "\n".join(result.output for change in changes for result in change.message.results)
    left = replace(
        plan,
        forget=tuple(item for item in plan.forget if item not in items),
        replace=changes,
        slots=tuple(slot for slot in slots if slot.stands_for),
        texts_to_save=tuple(text for text in plan.texts_to_save if name_output(text) in written),
        fallback=None if plan.fallback is None else exclude_items(plan.fallback, items),
    )
    return replace(left, reason=f"{plan.reason}, but what is pinned stays") if left.is_empty else left
