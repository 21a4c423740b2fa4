"""Immutable sequence that grows in constant time: a longer sequence shares the memory of the shorter one that it extends.

A session of ten thousand steps has ten thousand views, each a few messages longer than the one before. If views were tuples, all
messages would be copied at every step.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import Any, TypeVar, overload

T = TypeVar("T")
_append_lock = threading.Lock()
"""Lock held while items are appended, so that two threads that extend the same sequence do not write to the same place."""


class GrowingSequence(Sequence[T]):
    """Immutable sequence of items, equal to a tuple with the same items. Slices are tuples. Thread-safe.

    Sequences made by extending one another share one list, to which items are only appended. Each of them consists of the first
    items of this list.
    """

    __slots__ = ("_length", "_storage")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._storage = list(items)
        self._length = len(self._storage)

    def extend(self, items: Iterable[T]) -> "GrowingSequence[T]":
        """Return a longer sequence with items appended.

        This sequence's items are copied only if it was extended before.
        """
        added = list(items)
        longer: GrowingSequence[T] = GrowingSequence.__new__(GrowingSequence)
        longer._length = self._length + len(added)
        with _append_lock:
            if len(self._storage) == self._length:
                self._storage.extend(added)
                longer._storage = self._storage
                return longer
        longer._storage = [*self, *added]
        return longer

    def starts_with(self, prefix: Sequence[T]) -> bool:
        """Return whether this sequence begins with the items of `prefix`.

        No items are compared if one of the two sequences was made by extending the other.
        """
        if len(prefix) > self._length:
            return False
        if isinstance(prefix, GrowingSequence) and prefix._storage is self._storage:
            return True
        return self[: len(prefix)] == tuple(prefix)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._storage, self._length)

    def __reversed__(self) -> Iterator[T]:
        backwards = reversed(self._storage)
        return islice(backwards, length_hint(backwards) - self._length, None)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if type(index) is int and 0 <= index < self._length:  # the usual case first: reducers look at single items very often
            return self._storage[index]
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return tuple(self._storage[start:stop])
            return tuple([self._storage[position] for position in range(start, stop, step)])
        if not -self._length <= index < self._length:
            raise IndexError(f"there is no index {index} in a sequence of {self._length} items")
        return self._storage[index if index >= 0 else index + self._length]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GrowingSequence):
            return self._length == other._length and (self._storage is other._storage or tuple(self) == tuple(other))
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return GrowingSequence, (tuple(self),)


def has_prefix(items: Sequence[T], prefix: Sequence[T]) -> bool:
    """Return whether a sequence begins with the items of `prefix`."""
    if isinstance(items, GrowingSequence):
        return items.starts_with(prefix)
    return tuple(items[: len(prefix)]) == tuple(prefix)


def extend_sequence(items: Sequence[T], added: Iterable[T]) -> GrowingSequence[T]:
    """Return a longer sequence with items appended; the memory of a `GrowingSequence` is shared."""
    return (items if isinstance(items, GrowingSequence) else GrowingSequence(items)).extend(added)
