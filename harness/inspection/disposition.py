"""Disposition of each message at a compaction: kept, masked, summarized, dropped, or a new summary."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from harness.events import ItemId
from harness.inspection.sample_run import CompactionAttempt
from harness.messages import Message
from harness.view import Item

Disposition: TypeAlias = Literal["kept", "masked", "summarized", "dropped", "summary"]
"""Result of a compaction for one message: `kept` unchanged; `masked`, i.e. kept with a shorter content; `summarized`, i.e.
removed and covered by a summary; `dropped` without a summary; or `summary`, a new message."""


class MessageDisposition(NamedTuple):
    """Message with its disposition."""

    item_id: ItemId
    disposition: Disposition
    message: Message
    """Message before the compaction; for a summary, the new message."""
    tokens_before: int
    """Tokens before the compaction; 0 for a new message."""
    tokens_after: int
    """Tokens after the compaction; 0 for a removed message."""


def classify_messages(change: CompactionAttempt) -> tuple[MessageDisposition, ...]:
    """Return what became of each message at a compaction.

    The messages that were in the view before come first, in order, followed by the new messages.
    """
    patch = change.event.patch
    forgotten, replaced = set(patch.forget), {one.item for one in patch.replace}
    summarized_ids = {item for insert in patch.insert for item in insert.stands_for}
    tokens_after = {item.item_id: item.tokens for item in change.after.items}

    def classify(item_id: ItemId) -> Disposition:
        if item_id in forgotten:
            return "summarized" if item_id in summarized_ids else "dropped"
        return "masked" if item_id in replaced else "kept"

    def build_disposition(item: Item) -> MessageDisposition:
        item_id, message, tokens = item
        return MessageDisposition(item_id, classify(item_id), message, tokens, tokens_after.get(item_id, 0))

    ids_before = {item.item_id for item in change.before.items}
    new_items = (item for item in change.after.items if item.item_id not in ids_before)
    return (
        *map(build_disposition, change.before.items),
        *(MessageDisposition(item_id, "summary", message, 0, tokens) for item_id, message, tokens in new_items),
    )


def select_remaining(change: CompactionAttempt) -> tuple[MessageDisposition, ...]:
    """Return the dispositions of the messages in the view after a compaction, in order."""
    by_id = {one.item_id: one for one in classify_messages(change)}
    return tuple(by_id[item.item_id] for item in change.after.items)


def sample_dispositions(dispositions: Sequence[MessageDisposition], cells: int, *, after: bool = False) -> list[Disposition]:
    """Return dispositions at equal distances in tokens from the beginning of a view to its end.

    Args:
        dispositions: Messages of the view, in order.
        cells: Number of dispositions to return, at least 1.
        after: Measure distances in tokens after the compaction instead of before.
    """
    sizes = [one.tokens_after if after else one.tokens_before for one in dispositions]
    total, sampled_values, index, end = sum(sizes), [], -1, 0.0
    for cell in range(cells):
        while index < 0 or (end <= (cell + 0.5) * total / cells and index < len(sizes) - 1):
            index += 1
            end += sizes[index]
        sampled_values.append(dispositions[index].disposition)
    return sampled_values
