"""Ways for a session to survive a prompt that is too long, used by the policies of this project.

`FitWindow` shortens the conversation after the provider refused it, also if what a policy normally retains is too long itself.
`NewestHalf` shortens the prompt for a summarizer that refused it.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.compaction.stages import (
    DEFAULT_COUNTER,
    Block,
    Forget,
    Reducer,
    Summarize,
    apply_plan,
    find_user_messages,
    group_blocks,
    replace_results,
)
from harness.compaction.triggers import Amount, Measure, Reserves, select_calibration
from harness.conversation.events import ItemId, Replace
from harness.conversation.messages import Message, ToolResult, user
from harness.conversation.plan import CompactionPlan, SummaryProcedure, keep_pending_messages
from harness.conversation.tokens import Budget, Counter
from harness.conversation.truncation import measure_cut
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True)
class NewestHalf:
    """Way to shorten a summarizer's prompt that is too long: each attempt keeps the newer half of the messages."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return a mark and the newest messages, half as many with each attempt; empty if none would be left."""
        starts = [index for index, message in enumerate(messages) if message.role != "tool"]
        kept = len(starts) >> attempt
        if kept == 0:
            return ()
        start = starts[-kept]
        return user(f"({start} older messages of {len(messages)} are left out here: the prompt was too long.)"), *messages[start:]


OWN_PROCEDURE = SummaryProcedure(fits_window=True, shorter=NewestHalf())
"""Procedure of this project's policies: the summarizer's prompt is shortened to its window, the oldest messages first."""


@dataclass(frozen=True, slots=True)
class OlderThan:
    """Selection of all messages before an index, except the system message and the user's messages that must stay."""

    end: int
    """Index of the first message that is not selected."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the messages to evict; messages of the user that stay may lie between them."""
        staying_ids = _find_staying_requests(view)
        return [item for item in view.items[1 : self.end] if item.item_id not in staying_ids]

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the size of the retained messages is not known in advance."""
        return None


USUAL_SHARE = 0.75
"""Maximum share of a refused prompt that a usual compaction may leave; if it would leave more, a forced one follows."""
FORCED_SHARE = 0.5
"""Maximum share of a refused prompt that a forced compaction leaves."""


class _Rooms(NamedTuple):
    """Estimated numbers of tokens that the conversation may have after a refused prompt."""

    usual: int
    """Maximum after a usual compaction."""
    forced: int
    """Maximum after a forced compaction."""
    window: int
    """Maximum that the window holds beside its reserves, or beside the tokens of an answer if nothing is reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitWindow:
    """Part of a policy that shortens the conversation after the provider refused it as too long.

    The usual way to shorten the conversation is tried first. If too much would remain, older messages go until the rest fits,
    whatever the policy normally retains. The system message, the user's newest message, those that no request has contained yet,
    and the newest block (a message with the results of its calls) stay. If these alone are too long, the results in the newest
    block lose their middle, with a mark.

    A refusal shows that the provider counts at least as many tokens as the window has, and estimates are corrected accordingly.
    Each forced compaction halves the conversation at least, so a few attempts are enough however dense the text is.
    """

    usual: Reducer
    """Way in which the policy normally shortens the conversation."""
    measure: Measure = field(repr=False)
    """Way in which the policy measures tokens."""
    summarize: Summarize | None = field(default=None, repr=False)
    """Way to summarize the messages that a forced compaction evicts; None evicts them without a summary."""
    counter: Counter = field(default=DEFAULT_COUNTER, repr=False)
    """Token counter of the policy."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan after which the conversation fits; empty if nothing is left that could go."""
        rooms = self._compute_rooms(view, budget)
        plan = keep_pending_messages(self.usual.reduce(view, budget, reason), view)
        if not plan.is_empty and self._estimate_rest(view, plan) <= rooms.usual:
            return self._add_fallback(plan, view)
        return self._force(view, budget, reason, rooms)

    def _compute_rooms(self, view: View, budget: Budget) -> _Rooms:
        calibration = select_calibration(self.measure, view)
        measured_tokens = calibration.measure(view.tokens)
        window_tokens = budget.window_tokens or measured_tokens
        correction = max(1.0, window_tokens / measured_tokens) if measured_tokens > 0 else 1.0
        reserved_tokens = budget.reserved_tokens or min(Reserves().output_tokens, window_tokens // 4)  # a prompt and its answer
        available_tokens = (window_tokens - reserved_tokens) / correction
        threshold_tokens = (budget.threshold_tokens or window_tokens) / correction
        usual_tokens = min(available_tokens, threshold_tokens, USUAL_SHARE * measured_tokens)
        forced_tokens = min(usual_tokens, FORCED_SHARE * measured_tokens)
        return _Rooms(*(calibration.invert(math.floor(tokens)) for tokens in (usual_tokens, forced_tokens, available_tokens)))

    def _estimate_rest(self, view: View, plan: CompactionPlan) -> int:
        """Return how many estimated tokens a plan would leave, if its summaries are as long as they may be."""
        return apply_plan(view, plan, self.counter).tokens + sum(
            math.ceil(slot.max_tokens / slot.token_ratio) for slot in plan.slots
        )

    def _add_fallback(self, plan: CompactionPlan, view: View) -> CompactionPlan:
        """Return the plan with a fallback that evicts the same messages, except summaries, without a summary."""
        if not plan.slots or plan.fallback is not None:
            return plan
        news = tuple(item for item in plan.forget if item not in set(view.summaries))
        return replace(
            plan, fallback=CompactionPlan(reason=f"{plan.reason}; without a summary", forget=news, replace=plan.replace)
        )

    def _force(self, view: View, budget: Budget, reason: str, rooms: _Rooms) -> CompactionPlan:
        reason = f"{reason}; the messages that normally stay are too long"
        *older_blocks, newest = group_blocks(view.items[1:]) or [Block(())]
        staying_ids = _find_staying_requests(view) - {item.item_id for item in newest.items}
        fixed_tokens: int = sum(item.tokens for item in view.items[:1])
        fixed_tokens += sum(item.tokens for item in view.items if item.item_id in staying_ids)
        summarize = self.summarize
        if summarize is not None:
            summary_tokens = math.ceil(summarize.max_tokens / select_calibration(self.measure, view).ratio)
            if fixed_tokens + summary_tokens > rooms.usual:
                reason, summarize = f"{reason}; a summary would not fit", None
            else:
                fixed_tokens += summary_tokens
        # older messages stay only within the first room; the newest exchange stays, and is cut if it exceeds the second
        room, longest_room = rooms.forced - fixed_tokens, rooms.window - fixed_tokens
        changes = self._cut_results(newest, max(room, longest_room // 2)) if newest.tokens > longest_room else ()
        room -= newest.tokens
        end = len(view.items) - len(newest.items)
        for block in reversed(older_blocks):
            if block.items[0].item_id not in staying_ids:
                if block.tokens > room:
                    break
                room -= block.tokens
            end -= len(block.items)
        evict = Forget(middle=OlderThan(end)) if summarize is None else replace(summarize, middle=OlderThan(end))
        plan = self._add_fallback(evict.reduce(view, budget, reason), view)
        if not changes:
            return plan
        fallback = replace(plan.fallback, replace=changes) if plan.fallback else None
        return replace(plan, reason=f"{reason}; the newest results are cut", replace=changes, fallback=fallback)

    def _cut_results(self, block: Block, room: int) -> tuple[Replace, ...]:
        """Cut the middle of the longest tool results of a block, so that the block has at most `room` tokens if possible."""

        def cut(characters: int) -> list[Replace]:
            return [
                replace_results(item, lambda result: cut_middle(result, characters))
                for item in block.items
                if any(len(result.output) > characters for result in item.message.results)
            ]

        def count_tokens(characters: int) -> int:
            changes = {change.item: self.counter.count(change.message) for change in cut(characters)}
            return sum(changes.get(item.item_id, item.tokens) for item in block.items)

        longest = max((len(result.output) for item in block.items for result in item.message.results), default=0)
        characters = bisect_right(range(longest), room, key=count_tokens) - 1
        changes = cut(max(0, characters))
        tokens = {item.item_id: item.tokens for item in block.items}
        return tuple(change for change in changes if self.counter.count(change.message) < tokens[change.item])


def cut_middle(result: ToolResult, characters: int) -> ToolResult:
    """Return a tool result without its middle, of which at most `characters` characters and a mark are left."""
    output = result.output
    if len(output) <= characters:
        return result
    head, tail = output[: characters - characters // 2], output[len(output) - characters // 2 :]
    cut = measure_cut(output, head, tail)
    return replace(
        result,
        output=f"{head}[... {cut.characters} characters cut: the request was too long ...]{tail}",
        clipped_characters=result.clipped_characters + cut.characters,
        clipped_bytes=result.clipped_bytes + cut.size_bytes,
    )


def _find_staying_requests(view: View) -> set[ItemId]:
    """Return the ids of the user's newest message and of the user's messages that no finished request has contained."""
    newest_ids = [view.items[index].item_id for index in find_user_messages(view)[-1:]]
    return {*newest_ids, *(item.item_id for item in view.pending)}
