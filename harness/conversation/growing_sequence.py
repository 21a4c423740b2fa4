"""Immutable sequence that grows in constant time: a longer sequence shares the memory of the shorter one that it extends.

A session of ten thousand steps has ten thousand views, each a few messages longer than the one before. If views were tuples, all
messages would be copied at every step. A policy that masks old results changes a message near the end of the view at every step;
the messages before it are shared too.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, count, islice
from operator import is_not, length_hint
from typing import Any, TypeVar, overload

T = TypeVar("T")
MAX_COPIED_ITEMS = 128
"""Maximum number of items behind the shared beginning of a sequence.

An extension of a sequence that was extended before copies them; if there are more, all items are copied once.
"""
_append_lock = threading.Lock()
"""Lock held while items are appended, so that two threads that extend the same sequence do not write to the same place."""


class GrowingSequence(Sequence[T]):
    """Immutable sequence of items, equal to a tuple with the same items. Slices are tuples. Thread-safe.

    A sequence consists of the first items of one list, the head, and of the first items of another list, the storage. Items are
    only appended to these lists, so many sequences share them. Most sequences have no head.
    """

    __slots__ = ("_head", "_head_length", "_length", "_storage")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._head: list[T] = []
        self._head_length = 0
        self._storage = list(items)
        self._length = len(self._storage)

    @classmethod
    def _share(cls, head: list[T], head_length: int, storage: list[T], length: int) -> "GrowingSequence[T]":
        sequence: GrowingSequence[T] = cls.__new__(cls)
        sequence._head, sequence._head_length, sequence._storage, sequence._length = head, head_length, storage, length
        return sequence

    def extend(self, items: Iterable[T]) -> "GrowingSequence[T]":
        """Return a longer sequence with items appended.

        Nothing is copied if this sequence was not extended before. Otherwise, at most `MAX_COPIED_ITEMS` of its items are copied
        in most calls.
        """
        added = list(items)
        stored, length = self._length - self._head_length, self._length + len(added)
        with _append_lock:
            if len(self._storage) == stored:
                self._storage.extend(added)
                return self._share(self._head, self._head_length, self._storage, length)
        if not self._head_length:
            return self._share(self._storage, self._length, added, length)
        if stored <= MAX_COPIED_ITEMS:
            return self._share(self._head, self._head_length, [*self._storage[:stored], *added], length)
        return self._share([], 0, [*self, *added], length)

    def take(self, length: int) -> "GrowingSequence[T]":
        """Return a sequence of the first items, which shares their memory; all items if there are fewer than `length`."""
        length = min(length, self._length)
        if length <= self._head_length:
            return self._share([], 0, self._head, length)
        return self._share(self._head, self._head_length, self._storage, length)

    def starts_with(self, prefix: Sequence[T]) -> bool:
        """Return whether this sequence begins with the items of `prefix`.

        No items are compared if one of the two sequences was made by extending the other.
        """
        length = len(prefix)
        if length > self._length:
            return False
        shared = self._count_shared(prefix) if isinstance(prefix, GrowingSequence) else 0
        return shared == length or self[shared:length] == tuple(prefix[shared:])

    def _count_shared(self, other: "GrowingSequence[T]") -> int:
        """Return how many of the first items lie at the same place in memory in both sequences, without comparing any."""
        shortest = min(self._length, other._length)
        if self._storage is other._storage and self._head_length == other._head_length:
            return shortest
        (first, length), (other_first, other_length) = self._first_part, other._first_part
        return min(length, other_length) if first is other_first else 0

    @property
    def _first_part(self) -> tuple[list[T], int]:
        return (self._head, self._head_length) if self._head_length else (self._storage, self._length)

    def find_difference(self, other: "GrowingSequence[T]") -> int:
        """Return the index of the first item that is another object in the other sequence.

        If one of the two sequences begins with all items of the other, the index is the smaller length. Items in shared memory
        are not compared.
        """
        shared, shortest = self._count_shared(other), min(self._length, other._length)
        if shared == shortest:
            return shortest
        differences = map(is_not, self[shared:shortest], other[shared:shortest])
        return next(compress(count(shared), differences), shortest)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        if not self._head_length:
            return islice(self._storage, self._length)
        return chain(islice(self._head, self._head_length), islice(self._storage, self._length - self._head_length))

    def __reversed__(self) -> Iterator[T]:
        stored = _reverse_first(self._storage, self._length - self._head_length)
        return chain(stored, _reverse_first(self._head, self._head_length)) if self._head_length else stored

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        head_length = self._head_length
        if type(index) is int and 0 <= index < self._length:  # the usual case first: reducers look at single items very often
            return self._storage[index - head_length] if index >= head_length else self._head[index]
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step != 1:
                return tuple([self[position] for position in range(start, stop, step)])
            if start >= head_length:
                return tuple(self._storage[start - head_length : max(stop - head_length, 0)])
            beginning = self._head[start : min(stop, head_length)]
            return tuple(beginning + self._storage[: stop - head_length] if stop > head_length else beginning)
        if not -self._length <= index < self._length:
            raise IndexError(f"there is no index {index} in a sequence of {self._length} items")
        return self[index if index >= 0 else index + self._length]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GrowingSequence):
            return self._length == other._length and self.starts_with(other)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return GrowingSequence, (tuple(self),)


def _reverse_first(items: list[T], length: int) -> Iterator[T]:
    """Yield the first items of a list, to which another thread may append, from the last to the first."""
    backwards = reversed(items)
    return islice(backwards, length_hint(backwards) - length, None)


def has_prefix(items: Sequence[T], prefix: Sequence[T]) -> bool:
    """Return whether a sequence begins with the items of `prefix`."""
    if isinstance(items, GrowingSequence):
        return items.starts_with(prefix)
    return tuple(items[: len(prefix)]) == tuple(prefix)


def to_growing_sequence(items: Sequence[T]) -> GrowingSequence[T]:
    """Return a sequence as a `GrowingSequence`, without a copy if it is one already."""
    return items if isinstance(items, GrowingSequence) else GrowingSequence(items)


def extend_sequence(items: Sequence[T], added: Iterable[T]) -> GrowingSequence[T]:
    """Return a longer sequence with items appended; the memory of a `GrowingSequence` is shared."""
    return to_growing_sequence(items).extend(added)


def find_difference(items: Sequence[T], others: Sequence[T]) -> int:
    """Return the index of the first item that is another object in the other sequence, or else the smaller length."""
    return to_growing_sequence(items).find_difference(to_growing_sequence(others))
