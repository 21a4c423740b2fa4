"""Classification of messages by what a compaction did to them: kept, masked, summarized, dropped or inserted as a summary."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.events import ItemId
from harness.conversation.messages import Message
from harness.conversation.view import Item
from harness.inspection.sample_run import CompactionAttempt

Disposition: TypeAlias = Literal["kept", "masked", "summarized", "dropped", "summary"]
"""Effect of a compaction on one message, such as `kept` or `dropped`.

The message is `kept` unchanged, `masked` (kept with shorter content), `summarized` (removed and covered by a summary), `dropped`
without a summary, or itself a new `summary`.
"""


class MessageDisposition(NamedTuple):
    """Message with what a compaction did to it: whether it was kept, masked, summarized, dropped or inserted."""

    item_id: ItemId
    disposition: Disposition
    message: Message
    """Message as it was before the compaction; for a message that the compaction inserted, the new message."""
    tokens_before: int
    """Estimated tokens of the message before the compaction; 0 for a message that the compaction inserted."""
    tokens_after: int
    """Estimated tokens of the message after the compaction; 0 for a message that the compaction removed."""


def classify_messages(change: CompactionAttempt) -> tuple[MessageDisposition, ...]:
    """Return for each message whether a compaction kept, masked, summarized, dropped or inserted it.

    The messages that the model saw before the compaction come first, in order, followed by the inserted messages.
    """
    patch = change.event.patch
    forgotten, replaced = set(patch.forget), {change.item for change in patch.replace}
    summarized_ids = {item for insert in patch.insert for item in insert.stands_for}
    tokens_after = {item.item_id: item.tokens for item in change.after.items}

    def classify(item_id: ItemId) -> Disposition:
        if item_id in forgotten:
            return "summarized" if item_id in summarized_ids else "dropped"
        return "masked" if item_id in replaced else "kept"

    def build_disposition(item: Item) -> MessageDisposition:
        after_tokens = tokens_after.get(item.item_id, 0)
        return MessageDisposition(item.item_id, classify(item.item_id), item.message, item.tokens, after_tokens)

    ids_before = {item.item_id for item in change.before.items}
    new_items = (item for item in change.after.items if item.item_id not in ids_before)
    return (
        *map(build_disposition, change.before.items),
        *(MessageDisposition(item.item_id, "summary", item.message, 0, item.tokens) for item in new_items),
    )


def select_remaining(change: CompactionAttempt) -> tuple[MessageDisposition, ...]:
    """Return the messages that the model sees after a compaction, in order, each with what was done to it."""
    by_id = {message.item_id: message for message in classify_messages(change)}
    return tuple(by_id[item.item_id] for item in change.after.items)


def sample_dispositions(dispositions: Sequence[MessageDisposition], cells: int, *, after: bool = False) -> list[Disposition]:
    """Divide a bar that stands for a conversation into equal parts; return what happened to the message in each part.

    Each part stands for the same number of tokens, so a long message takes up several parts and a short one may take up none.

    Args:
        dispositions: Messages of the conversation, in order, each with its result, such as `kept` or `dropped`.
        cells: Number of parts of the bar, at least 1.
        after: Whether to use the lengths of the messages after the compaction instead of before.
    """
    sizes = [disposition.tokens_after if after else disposition.tokens_before for disposition in dispositions]
    total, sampled_values, index, end = sum(sizes), [], -1, 0.0
    for cell in range(cells):
        while index < 0 or (end <= (cell + 0.5) * total / cells and index < len(sizes) - 1):
            index += 1
            end += sizes[index]
        sampled_values.append(dispositions[index].disposition)
    return sampled_values
