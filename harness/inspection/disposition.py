"""What became of each message at a compaction: kept, masked, summarized or dropped; and what was put in."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from harness.events import ItemId
from harness.inspection.sample_run import Change
from harness.messages import Message
from harness.view import Item

Fate: TypeAlias = Literal["kept", "masked", "summarized", "dropped", "summary"]
"""It stays as it is; stays in other words (results cleared, arguments shortened); goes and a summary tells of it; goes without
one; or it is new: the summary itself."""


class Fated(NamedTuple):
    """A message and what became of it."""

    item_id: ItemId
    fate: Fate
    message: Message
    """As it was, or, of what is new, as it is."""
    tokens_before: int
    """0 for what is new."""
    tokens_after: int
    """0 for what went."""


def fates(change: Change) -> tuple[Fated, ...]:
    """The messages of the view before a compaction, in order, then what was put in."""
    patch = change.event.patch
    forgotten, replaced = set(patch.forget), {one.item for one in patch.replace}
    told = {item for insert in patch.insert for item in insert.stands_for}
    tokens_after = {item.item_id: item.tokens for item in change.after.items}

    def fate(item_id: ItemId) -> Fate:
        if item_id in forgotten:
            return "summarized" if item_id in told else "dropped"
        return "masked" if item_id in replaced else "kept"

    def fated(item: Item) -> Fated:
        item_id, message, tokens = item
        return Fated(item_id, fate(item_id), message, tokens, tokens_after.get(item_id, 0))

    there = {item.item_id for item in change.before.items}
    new = (item for item in change.after.items if item.item_id not in there)
    return (
        *map(fated, change.before.items),
        *(Fated(item_id, "summary", message, 0, tokens) for item_id, message, tokens in new),
    )


def left(change: Change) -> tuple[Fated, ...]:
    """The messages of the view after a compaction, in order."""
    of = {one.item_id: one for one in fates(change)}
    return tuple(of[item.item_id] for item in change.after.items)


def sampled(fated: Sequence[Fated], cells: int, *, after: bool = False) -> list[Fate]:
    """So many fates, at equal distances in tokens from the beginning of a view to its end.

    Args:
        fated: the messages of the view, in order.
        cells: how many, at least 1.
        after: whether their tokens after the compaction count, instead of those before.
    """
    sizes = [one.tokens_after if after else one.tokens_before for one in fated]
    total, found, at, end = sum(sizes), [], -1, 0.0
    for cell in range(cells):
        while at < 0 or (end <= (cell + 0.5) * total / cells and at < len(sizes) - 1):
            at += 1
            end += sizes[at]
        found.append(fated[at].fate)
    return found
