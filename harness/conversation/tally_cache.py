"""Cache of running totals (tallies) over a growing list, such as the tokens in a conversation; only new items are added.

A compaction policy is called before every step, and mostly computes sums and counts over all messages that the model sees next,
which may be ten thousand. With the cache, each message is added to a total only once. The result is always the same as if the
total were computed anew from the first message on.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar


class Tally(Protocol):
    """Running total over the items of a list, such as the number of tokens in all messages of a conversation."""

    def add(self, item: Any, /) -> None:
        """Add the next item of the list to the total."""
        ...


T = TypeVar("T", bound=Tally)
R = TypeVar("R")


class TallyCache:
    """Cache of running totals (tallies) over a list that grows by appended items. Thread-safe.

    A total is continued only if the item that it added last is still at the same index and is the same object. Otherwise, the
    total starts again. Copies and pickles start empty.
    """

    __slots__ = ("_tallies",)

    def __init__(self) -> None:
        self._tallies: dict[Hashable, tuple[int, object, Any]] = {}

    def __reduce__(self) -> "tuple[type[TallyCache], tuple[()]]":
        # The totals are valid only for the same objects in memory, not for copies.
        return TallyCache, ()

    def read(self, items: Sequence[object], key: Hashable, make_tally: Callable[[], T], read_tally: Callable[[T], R]) -> R:
        """Return a running total over a list, adding only the items that are new since the last call.

        Args:
            items: Complete list, including the items that earlier calls have counted.
            key: Name of the total within the cache; equal keys continue the same total.
            make_tally: Function that creates a new total, to which no item has been added.
            read_tally: Function that computes the result from a total; it must not keep the total.
        """
        size = len(items)
        count, last, tally = self._tallies.pop(key, (0, None, None))  # removed, so that no other thread updates the tally
        if tally is None or count > size or (count and items[count - 1] is not last):
            count, tally = 0, make_tally()
        for index in range(count, size):
            tally.add(items[index])
        answer = read_tally(tally)
        if size:
            self._tallies[key] = size, items[size - 1], tally
        return answer
