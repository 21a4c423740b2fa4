"""Cache of running totals (tallies) over a growing list, such as the tokens in a conversation; only new items are added.

A compaction policy is called before every step, and mostly computes sums and counts over all messages that the model sees next,
which may be ten thousand. With the cache, each message is added to a total only once. The result is always the same as if the
total were computed anew from the first message on.

A compaction changes the list. The total is then continued from a copy that was made when the former change was found, so a policy
that changes messages near the end at every step adds few messages again.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Protocol, TypeVar


class Tally(Protocol):
    """Running total over the items of a list, such as the number of tokens in all messages of a conversation.

    Its attributes are lists, sets, dicts and deques, which are copied with it, and values that never change. They are named in
    `__slots__`, or nowhere.
    """

    def add(self, item: Any, /) -> None:
        """Add the next item of the list to the total."""
        ...


T = TypeVar("T", bound=Tally)
R = TypeVar("R")

MAX_CHECKPOINTS = 4
"""Maximum number of copies of one total; the copy with the fewest items is dropped first."""
CHECKPOINT_ITEMS = 8
"""Minimum number of items between two copies of a total; a copy of a long total takes longer than to add fewer items again."""
MAX_COMPUTED = 2
"""Number of results of `compute_once` that are kept: the messages after a change, and the cache of their totals."""
MAX_TOTALS = 16
"""Maximum number of totals that a cache takes over from the cache of the list before a change."""


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """Copy of a total over the first items of a list, which is never changed."""

    count: int
    last: object
    tally: Any

    def fits(self, items: Sequence[object], count: int) -> bool:
        """Return whether the copy belongs to a list, of which the first `count` items are not changed."""
        return self.count <= count and items[self.count - 1] is self.last


@dataclass(frozen=True, slots=True)
class _Total:
    """Running total over the first `count` items of a list, of which `last` is the last one."""

    count: int
    last: object
    tally: Any
    checkpoints: tuple[_Checkpoint, ...] = ()
    """Copies of the total, with increasing numbers of items."""


class TallyCache:
    """Cache of running totals (tallies) over a list that grows by appended items. Thread-safe.

    A total is continued only if the item that it added last is still at the same index and is the same object. Otherwise, the
    total starts again. Copies and pickles start empty.
    """

    __slots__ = ("_computed", "_kept", "_totals")

    def __init__(self) -> None:
        self._totals: dict[Hashable, _Total] = {}
        self._kept = 0
        """Number of the first items that the list shares with the list before the last change."""
        self._computed: list[tuple[Sequence[object], Any]] = []
        """Results of the last calls of `compute_once`; the caches of all lists of a session share them."""

    def __reduce__(self) -> "tuple[type[TallyCache], tuple[()]]":
        # The totals are valid only for the same objects in memory, not for copies.
        return TallyCache, ()

    def branch(self, count: int) -> "TallyCache":
        """Return a cache for a changed list, whose first `count` items are the same objects.

        This cache can still be used for the list before the change.
        """
        changed = TallyCache()
        changed._kept, changed._computed = count, self._computed
        for key, total in list(self._totals.items())[-MAX_TOTALS:]:
            kept = tuple([checkpoint for checkpoint in total.checkpoints if checkpoint.count <= count])
            changed._totals[key] = _Total(0, None, None, kept)
        return changed

    def compute_once(self, sources: Sequence[object], compute: Callable[[], R]) -> R:
        """Return a result of the given objects, computed only once if the same objects are given again soon.

        A change of the list is planned, checked and then logged, and each time the same items follow.

        Args:
            sources: Objects from which the result follows, which are compared by identity.
            compute: Function that computes the result.
        """
        for known, result in self._computed:
            if len(known) == len(sources) and all(map(is_, known, sources)):
                answer: R = result
                return answer
        computed = compute()
        self._computed[:] = [*self._computed[1 - MAX_COMPUTED :], (sources, computed)]
        return computed

    def read(self, items: Sequence[object], key: Hashable, make_tally: Callable[[], T], read_tally: Callable[[T], R]) -> R:
        """Return a running total over a list, adding only the items that are new since the last call.

        Args:
            items: Complete list, including the items that earlier calls have counted.
            key: Name of the total within the cache; equal keys continue the same total.
            make_tally: Function that creates a new total, to which no item has been added.
            read_tally: Function that computes the result from a total; it must not keep the total.
        """
        size = len(items)
        total = self._totals.pop(key, _NO_TOTAL)  # removed, so that no other thread updates the tally
        if total.tally is None or total.count > size or items[total.count - 1] is not total.last:
            total = self._start_total(items, total.checkpoints, make_tally)
        tally = total.tally
        for index in range(total.count, size):
            tally.add(items[index])
        answer: R = read_tally(tally)
        if size:
            self._totals[key] = _Total(size, items[size - 1], tally, total.checkpoints)
        return answer

    def _start_total(
        self, items: Sequence[object], checkpoints: tuple[_Checkpoint, ...], make_tally: Callable[[], Any]
    ) -> _Total:
        """Return a total over the items that are not changed, continued from a copy, together with a new copy."""
        kept = min(self._kept, len(items))
        fitting = [checkpoint for checkpoint in checkpoints if checkpoint.fits(items, kept)]
        count, tally = (fitting[-1].count, _copy_tally(fitting[-1].tally)) if fitting else (0, make_tally())
        for index in range(count, kept):
            tally.add(items[index])
        if kept - count >= CHECKPOINT_ITEMS:
            fitting = [*fitting, _Checkpoint(kept, items[kept - 1], _copy_tally(tally))][-MAX_CHECKPOINTS:]
        return _Total(kept, items[kept - 1] if kept else None, tally, tuple(fitting))


_NO_TOTAL = _Total(0, None, None)


def _copy_tally(tally: T) -> T:
    """Return a copy of a total, with copies of its lists, sets, dicts and deques."""
    copied = object.__new__(type(tally))
    for name in getattr(type(tally), "__slots__", None) or vars(tally):
        value = getattr(tally, name)
        setattr(copied, name, value.copy() if isinstance(value, list | set | dict | deque) else value)
    return copied
