"""A continued tally equals a tally from the first item, whatever was read in between and wherever a list branched."""

import pickle
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.tally_cache import TallyCache


class Thing:
    """Item that is equal to other items but identical only to itself."""

    def __init__(self, number: int) -> None:
        self.number = number


class Numbers:
    """Tally that records the items it was given."""

    def __init__(self) -> None:
        self.fed: list[int] = []

    def add(self, thing: Thing) -> None:
        self.fed.append(thing.number)


def numbers(growth: TallyCache, things: tuple[Thing, ...]) -> list[int]:
    return growth.read(things, "numbers", Numbers, lambda tally: list(tally.fed))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=40))
def test_lists_that_branch_off_one_another_are_distinguished(acts: list[tuple[int, int]]) -> None:
    growth, lists = TallyCache(), [tuple[Thing, ...]()]
    for which, number in acts:
        grown_from = lists[which % len(lists)]
        lists.append((*grown_from, Thing(number)))
        for things in (lists[-1], grown_from):
            assert numbers(growth, things) == [thing.number for thing in things]


def test_only_items_added_since_the_last_read_are_counted() -> None:
    growth, begun = TallyCache(), []

    def begin() -> Numbers:
        begun.append(Numbers())
        return begun[-1]

    things = tuple(Thing(number) for number in range(9))
    for count in (3, 3, 7, 9):
        growth.read(things[:count], "numbers", begin, lambda tally: len(tally.fed))
    assert [tally.fed for tally in begun] == [list(range(9))]
    growth.read(things, "other", begin, lambda tally: len(tally.fed))
    assert len(begun) == 2, "who asks for something else has a tally of its own"


def test_a_tally_that_raised_an_error_starts_again() -> None:
    growth, things = TallyCache(), (Thing(1), Thing(2))

    def spoil(tally: Numbers) -> None:
        tally.fed.append(99)
        raise LookupError

    assert numbers(growth, things[:1]) == [1]
    with pytest.raises(LookupError):
        growth.read(things, "numbers", Numbers, spoil)
    assert numbers(growth, things) == [1, 2]


def test_a_copy_of_a_tally_cache_is_empty() -> None:
    growth, things = TallyCache(), (Thing(1),)
    numbers(growth, things)
    for copy in (deepcopy(growth), pickle.loads(pickle.dumps(growth))):
        assert numbers(copy, (Thing(2), Thing(3))) == [2, 3]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 6), st.booleans()), max_size=30))
def test_a_tally_of_a_changed_list_is_that_of_all_its_items(changes: list[tuple[int, int, int, bool]]) -> None:
    """Some items are replaced by others, and items behind them stay as they are."""
    cache, things = TallyCache(), tuple[Thing, ...]()
    for from_end, replaced, added, is_read in changes:
        kept = max(0, len(things) - from_end)
        new = [Thing(len(things) + number) for number in range(added)]
        changed = (*things[:kept], *new, *things[kept + replaced :])
        branch = cache.branch(kept)
        if is_read:
            assert numbers(branch, changed) == [thing.number for thing in changed]
            assert numbers(cache, things) == [thing.number for thing in things], "the former list keeps its tally"
        cache, things = branch, changed
    assert numbers(cache, things) == [thing.number for thing in things]


def test_two_changes_without_a_read_between_them_count_the_earlier_one() -> None:
    """The last item of an old copy of the total stays, but an item before it is replaced."""
    cache, things = TallyCache(), tuple(Thing(number) for number in range(10))
    numbers(cache, things)
    cache = cache.branch(8)
    numbers(cache, things)  # makes a copy of the total over eight items
    first = (*things[:3], Thing(99), *things[4:])
    second = (*first, Thing(10))
    assert numbers(cache.branch(3).branch(10), second) == [thing.number for thing in second]


def test_a_tally_is_continued_at_the_change() -> None:
    cache, things, added = TallyCache(), tuple(Thing(number) for number in range(100)), list[int]()

    class Counted(Numbers):
        def add(self, thing: Thing) -> None:
            added.append(thing.number)
            super().add(thing)

    for number in range(100, 200):
        cache.read(things, "numbers", Counted, lambda tally: None)
        cache, things = cache.branch(len(things) - 5), (*things[:-5], *[Thing(number)] * 7)
    assert len(added) < 100 + 100 * 2 * 7 + 100, "only the last messages are added again"


def test_a_result_is_computed_once_for_the_same_objects_also_by_the_cache_of_a_changed_list():
    cache, items, calls = TallyCache(), [1], list[int]()

    def compute() -> int:
        calls.append(1)
        return len(calls)

    assert [cache.compute_once((items, cache), compute) for _ in range(2)] == [1, 1]
    assert cache.branch(0).compute_once((items, cache), compute) == 1
    assert cache.compute_once(([1], cache), compute) == 2  # equal, but another object
    assert cache.compute_once((items,), compute) == 3
    assert cache.compute_once((items, cache), compute) == 4  # no longer kept
    assert TallyCache().compute_once((items, cache), compute) == 5
