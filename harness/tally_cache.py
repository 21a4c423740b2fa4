"""What is tallied over a list while it only grows, so that a question about all of it costs what came since the last one.

A policy is a pure function of a view, and a view of ten thousand messages is asked before every step. Most of those questions
are sums and counts, oldest first: a tally is fed every item once and read at every asking. It is a memory and nothing else:
whoever reads it gets what a tally fed from the beginning would tell.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar


class Tally(Protocol):
    """What is known of the items so far."""

    def add(self, item: Any, /) -> None:
        """Take in the next one."""
        ...


T = TypeVar("T", bound=Tally)
R = TypeVar("R")


class TallyCache:
    """The tallies of lists that grew out of one another by plain appends, and of nothing else.

    Two lists may have grown out of the same one in different ways; a tally goes on only where the last item that it took in
    still stands in its place, and it is that very object. May be read in several threads; copies and pickles begin anew.
    """

    __slots__ = ("_tallies",)

    def __init__(self) -> None:
        """Nothing is tallied yet."""
        self._tallies: dict[Hashable, tuple[int, object, Any]] = {}

    def __reduce__(self) -> "tuple[type[TallyCache], tuple[()]]":
        """Identity of items is all that it rests on, and a copy has others."""
        return TallyCache, ()

    def read(self, items: Sequence[object], key: Hashable, make_tally: Callable[[], T], read_tally: Callable[[T], R]) -> R:
        """What a tally of all items tells; the cost is that of what came since it was last read.

        Args:
            items: of this growth.
            key: of the tally: who asks, as a value.
            make_tally: makes the tally of no items.
            read_tally: reads the tally; it must not keep it.
        """
        count, last, tally = self._tallies.pop(key, (0, None, None))  # taken out, so that no other thread feeds it meanwhile
        if tally is None or count > len(items) or (count and items[count - 1] is not last):
            count, tally = 0, make_tally()
        for index in range(count, len(items)):
            tally.add(items[index])
        answer = read_tally(tally)
        if items:
            self._tallies[key] = len(items), items[-1], tally
        return answer
