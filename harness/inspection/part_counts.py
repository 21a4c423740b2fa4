"""Number of the parts of a session, counted from its log as the SQL view `parts` of a journal lists them.

The view needs a journal, and a session may be a recording without one; so the rules of the view stand here once more. A property
test compares the two.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.conversation.events import (
    Compaction,
    Entry,
    ItemId,
    MessageAdded,
    RolledBack,
    StepFinished,
    SubAgentEnded,
    WorkspaceSaved,
)
from harness.conversation.messages import Message


class PartCounts(NamedTuple):
    """Number of the parts of a session, and of those that are no longer in view."""

    parts: int
    compacted_parts: int


class _Version(NamedTuple):
    """Message as it was added, inserted by a compaction, or put in the place of another message."""

    event: int
    item_id: ItemId
    parts: int


def count_parts(entries: Iterable[Entry]) -> PartCounts:
    """Return the number of parts in the log of a session, and how many of them are no longer in view.

    Counted are the parts of all messages, also of those that compactions inserted or put in the place of others, and a part for
    each start and end of a step, change of files, sub-agent and applied compaction. What was rolled back is no longer in view.
    """
    log = tuple(entries)
    rollbacks = [(seq, event.to_event) for seq, event in log if isinstance(event, RolledBack)]

    def is_undone(seq: int) -> bool:
        return any(to_event < seq < rollback for rollback, to_event in rollbacks)

    versions, retired = _collect_versions(log)
    others = [seq for seq, event in log for _ in range(_count_step_parts(event))]
    hidden_count = sum(map(is_undone, others))
    for version in versions:
        later = (seq for seq in retired.get(version.item_id, ()) if seq > version.event)
        if is_undone(version.event) or not all(map(is_undone, later)):
            hidden_count += version.parts
    return PartCounts(len(others) + sum(version.parts for version in versions), hidden_count)


def _count_step_parts(event: object) -> int:
    """Return the number of parts that an event adds besides those of messages."""
    match event:
        case MessageAdded(message=Message(role="assistant")) | StepFinished() | SubAgentEnded():  # an answer starts a step
            return 1
        case WorkspaceSaved():
            return int(event.step > 0 and event.patch_hash != "")  # step 0 has the initial files; no hash, no change
        case Compaction():
            return int(event.status == "applied")
    return 0


def _collect_versions(log: Sequence[Entry]) -> tuple[list[_Version], dict[ItemId, list[int]]]:
    """Return all versions of all messages, and the compactions that removed or replaced each message."""
    versions = list[_Version]()
    retired: dict[ItemId, list[int]] = {}
    known = set[ItemId]()
    forgotten: dict[ItemId, int] = {}
    for seq, event in log:
        match event:
            case MessageAdded():
                known.add(ItemId(seq))
                versions.append(_Version(seq, ItemId(seq), len(event.message.parts)))
            case RolledBack(to_event=to_event):
                known = {item for item in known if not to_event < item.event < seq}
                forgotten = {item: seq_gone for item, seq_gone in forgotten.items() if not to_event < seq_gone < seq}
            case Compaction(status="applied", patch=patch):
                in_view = known - forgotten.keys()
                removed = in_view.intersection(patch.forget)
                replaced = {change.item: change.message for change in patch.replace if change.item in in_view - removed}
                inserted = {ItemId(seq, slot): insert for slot, insert in enumerate(patch.insert) if insert.after in in_view}
                for item in (*removed, *replaced):
                    retired.setdefault(item, []).append(seq)
                forgotten |= dict.fromkeys(removed, seq)
                known |= inserted.keys()
                versions += [_Version(seq, item, len(message.parts)) for item, message in replaced.items()]
                versions += [_Version(seq, item, len(insert.message.parts)) for item, insert in inserted.items()]
    return versions, retired
