"""Who has what in view: which targets a session had seen, which a compaction took away, and which were fetched again.

A target is in view as long as a message that shows the whole of it is: the result of a retrieval, or the call that wrote it.
A summary that tells of it does not count. A reacquisition is the first retrieval of a target after the compaction that took
it away, if the target is unchanged. Source: RESEARCH 2.4.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from harness.events import Compaction, ItemId
from harness.metrics.calls import AnsweredCall, WriteHistory


class Reacquisition(NamedTuple):
    """What had been seen before was fetched again."""

    step: int
    steps_since: int
    """1 = in the first step after the compaction that took it away."""
    tokens: int
    """Of the result, estimated by the policy's counter."""


@dataclass(slots=True)
class _Target:
    carriers: set[ItemId] = field(default_factory=set)
    content: str = ""
    seen_call: int = 0
    """Number of the call that brought it last."""
    eviction_step: int | None = None
    """Step of the compaction that took it away; None = in view."""
    is_reacquired: bool = False


class ReacquisitionTracker:
    """Targets in view and out of it, kept as calls and compactions go by."""

    def __init__(self) -> None:
        self.repeated_evictions = 0
        """Targets that were taken away, fetched again and taken away again; each time counts."""
        self._targets: dict[str, _Target] = {}
        self._carried: dict[ItemId, set[str]] = {}

    def add_call(self, number: int, call: AnsweredCall, write_history: WriteHistory, tokens: int) -> Reacquisition | None:
        """Take note of a call; what it fetched again, if it did.

        Args:
            number: of the call.
            call: the call.
            write_history: all calls before this one.
            tokens: of the message with its result.
        """
        if call.effect == "execution" or not call.succeeded:
            return None
        target = self._targets.setdefault(call.target, _Target())
        reacquisition = None
        if call.effect == "retrieval" and target.eviction_step is not None:
            is_unchanged = call.content_digest == target.content or write_history.find_last_touch(call) <= target.seen_call
            target.is_reacquired = is_unchanged
            if is_unchanged:
                reacquisition = Reacquisition(call.step, call.step - target.eviction_step + 1, tokens)
        item = call.call_item if call.effect == "write" else call.result_item
        if call.effect == "write":
            self._drop_carriers(target, call.target)
            target.is_reacquired = False
        target.carriers.add(item)
        self._carried.setdefault(item, set()).add(call.target)
        target.content, target.seen_call, target.eviction_step = call.content_digest, number, None
        return reacquisition

    def _drop_carriers(self, target: _Target, name: str) -> None:
        """What showed an older text of the target shows it no more."""
        for item in target.carriers:
            self._carried[item].discard(name)
        target.carriers.clear()

    def add_compaction(self, event: Compaction) -> None:
        """Take note of an applied compaction."""
        removed_items = (*event.patch.forget, *(change.item for change in event.patch.replace))
        for item in removed_items:
            for name in self._carried.pop(item, ()):
                target = self._targets[name]
                target.carriers.discard(item)
                if not target.carriers:
                    target.eviction_step = event.step
                    self.repeated_evictions += target.is_reacquired
                    target.is_reacquired = False
