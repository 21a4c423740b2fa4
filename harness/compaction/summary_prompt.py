"""What a summarizer is told of a view, and what of it is left out where it may not read all."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from harness.errors import SummaryFailed
from harness.events import ItemId
from harness.messages import Message, user
from harness.plan import Slot, SummaryRequest, build_summary_request
from harness.view import View


class SummaryPrompt(NamedTuple):
    """A prompt for a summarizer."""

    prompt: tuple[Message, ...]
    request: SummaryRequest
    stands_for: tuple[ItemId, ...]
    """The items that it tells of."""
    note: str = ""
    """What was left out, for the event; empty = nothing was."""


def build_summary_prompt(slot: Slot, view: View, count_tokens: Callable[[tuple[Message, ...]], int]) -> SummaryPrompt:
    """The prompt of a slot within its input limit.

    Where all would be too long, the oldest messages are left out, as few as must be, calls together with their results. A line
    in their place says so. Former summaries are never left out.

    Args:
        slot: what is to be summarized.
        view: what it names items of.
        count_tokens: tokens of a prompt as its reader counts them; asked only where there is a limit.

    Raises:
        SummaryFailed: the prompt would be too long even with the newest message alone.
    """
    request = build_summary_request(slot, view)
    full_prompt = SummaryPrompt(slot.format.build_prompt(request), request, slot.stands_for)
    limit = slot.max_input_tokens
    if limit is None or count_tokens(full_prompt.prompt) <= limit:
        return full_prompt
    roles = {item.item_id: item.message.role for item in view.items}
    former = set(view.summaries)
    starts = [at for at, item in enumerate(slot.stands_for) if at and item not in former and roles[item] != "tool"]
    cut_index = bisect_left(starts, True, key=lambda start: count_tokens(_drop_older(slot, view, start).prompt) <= limit)
    if cut_index == len(starts):
        raise SummaryFailed(f"no prompt of at most {limit} tokens could be made, not even with the newest message alone")
    return _drop_older(slot, view, starts[cut_index])


def _drop_older(slot: Slot, view: View, start: int) -> SummaryPrompt:
    """The prompt without what is older than an item of the slot."""
    former = set(view.summaries)
    kept_ids = tuple(item for at, item in enumerate(slot.stands_for) if at >= start or item in former)
    gone = len(slot.stands_for) - len(kept_ids)
    messages = sum(item not in former for item in slot.stands_for)
    request = build_summary_request(replace(slot, stands_for=kept_ids), view)
    mark = user(f"({gone} older messages of {messages} are left out here; together they are too long to be read.)")
    request = replace(request, to_summarize=(mark, *request.to_summarize))
    note = f"the {gone} oldest of {messages} messages were not told (the summarizer reads {slot.max_input_tokens} tokens at most)"
    return SummaryPrompt(slot.format.build_prompt(request), request, kept_ids, note)
