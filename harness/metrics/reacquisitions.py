"""Who has what in view: which targets a session had seen, which a compaction took away, and which were fetched again.

A target is in view as long as a message that shows the whole of it is: the result of a retrieval, or the call that wrote it.
A summary that tells of it does not count. A reacquisition is the first retrieval of a target after the compaction that took
it away, if the target is unchanged. Source: RESEARCH 2.4.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from harness.events import Compaction, ItemId
from harness.metrics.calls import Act, Writes


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
    seen_at: int = 0
    """Number of the call that brought it last."""
    evicted_before: int | None = None
    """Step of the compaction that took it away; None = in view."""
    reacquired: bool = False


class Ledger:
    """Targets in view and out of it, kept as calls and compactions go by."""

    def __init__(self) -> None:
        self.evicted_again = 0
        """Targets that were taken away, fetched again and taken away again; each time counts."""
        self._targets: dict[str, _Target] = {}
        self._carried: dict[ItemId, set[str]] = {}

    def add_act(self, number: int, act: Act, writes: Writes, tokens: int) -> Reacquisition | None:
        """Take note of a call; what it fetched again, if it did.

        Args:
            number: of the call.
            act: the call.
            writes: all calls before this one.
            tokens: of the message with its result.
        """
        if act.deed == "execution" or not act.well:
            return None
        target = self._targets.setdefault(act.target, _Target())
        found = None
        if act.deed == "retrieval" and target.evicted_before is not None:
            unchanged = act.content == target.content or writes.last_touch(act) <= target.seen_at
            target.reacquired = unchanged
            if unchanged:
                found = Reacquisition(act.step, act.step - target.evicted_before + 1, tokens)
        item = act.asked if act.deed == "write" else act.answered
        if act.deed == "write":
            self._drop(target, act.target)
            target.reacquired = False
        target.carriers.add(item)
        self._carried.setdefault(item, set()).add(act.target)
        target.content, target.seen_at, target.evicted_before = act.content, number, None
        return found

    def _drop(self, target: _Target, name: str) -> None:
        """What showed an older text of the target shows it no more."""
        for item in target.carriers:
            self._carried[item].discard(name)
        target.carriers.clear()

    def add_compaction(self, event: Compaction) -> None:
        """Take note of an applied compaction."""
        gone = (*event.patch.forget, *(change.item for change in event.patch.replace))
        for item in gone:
            for name in self._carried.pop(item, ()):
                target = self._targets[name]
                target.carriers.discard(item)
                if not target.carriers:
                    target.evicted_before = event.step
                    self.evicted_again += target.reacquired
                    target.reacquired = False
