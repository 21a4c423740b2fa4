"""A growing sequence behaves as the tuple of its items, whatever other sequences share its memory."""

import pickle
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.growing_sequence import MAX_COPIED_ITEMS, GrowingSequence, extend_sequence, find_difference, has_prefix

INDEXES = st.none() | st.integers(-9, 9)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.lists(st.integers(), max_size=4)), max_size=12),
    st.tuples(INDEXES, INDEXES, INDEXES.filter(lambda step: step != 0)),
)
def test_every_branch_equals_a_tuple(steps, bounds):
    pairs: list[tuple[GrowingSequence[int], tuple[int, ...]]] = [(GrowingSequence(), ())]
    for origin, added in steps:
        sequence, items = pairs[origin % len(pairs)]
        pairs.append((sequence.extend(added), items + tuple(added)))
    for sequence, items in pairs:
        assert (tuple(sequence), tuple(reversed(sequence)), len(sequence)) == (items, items[::-1], len(items))
        assert sequence == items
        assert items == sequence
        assert hash(sequence) == hash(items)
        assert sequence[slice(*bounds)] == items[slice(*bounds)]
        assert pickle.loads(pickle.dumps(sequence)) == items
        assert sequence != [*items]
        for index in range(-len(items), len(items)):
            assert sequence[index] == items[index]
        for index in (len(items), -len(items) - 1):
            with pytest.raises(IndexError):
                sequence[index]
        for other, others in pairs:
            assert (sequence == other) == (items == others)
            assert has_prefix(sequence, other) == has_prefix(items, others) == (items[: len(others)] == others)
            assert has_prefix(sequence, others) == has_prefix(items, other)


def test_extending_copies_nothing():
    sequence = GrowingSequence(range(100_000))
    before = sys.getsizeof(sequence._storage)
    longer = extend_sequence(sequence, [1])
    assert longer._storage is sequence._storage
    assert sys.getsizeof(longer._storage) < 1.2 * before
    assert sequence.extend([2])._storage is not sequence._storage
    assert (longer[-1], len(sequence)) == (1, 100_000)


def test_threads_that_extend_one_sequence_get_their_own_items():
    base = GrowingSequence([0])
    sequences = {}

    def extend(number):
        sequence = base
        for _ in range(200):
            sequence = sequence.extend([number])
        sequences[number] = sequence

    threads = [threading.Thread(target=extend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(sequence == (0, *[number] * 200) for number, sequence in sequences.items())


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 300), st.integers(0, MAX_COPIED_ITEMS)), max_size=12),
    st.tuples(INDEXES, INDEXES, INDEXES.filter(lambda step: step != 0)),
)
def test_sequences_that_share_a_beginning_equal_tuples(steps, bounds):
    pairs: list[tuple[GrowingSequence[object], tuple[object, ...]]] = [(GrowingSequence(), ())]
    for origin, length, count in steps:
        sequence, items = pairs[origin % len(pairs)]
        added = [object() for _ in range(count)]
        pairs.append((sequence.take(length).extend(added), (*items[:length], *added)))
    for sequence, items in pairs:
        assert (tuple(sequence), tuple(reversed(sequence)), len(sequence)) == (items, items[::-1], len(items))
        assert [sequence[index] for index in range(-len(items), len(items))] == [*items, *items]
        assert sequence[slice(*bounds)] == items[slice(*bounds)]
        for length in (0, len(items) // 2, len(items) + 1):
            assert sequence.take(length) == items[:length]
        for other, others in pairs:
            same = [left is right for left, right in zip(items, others, strict=False)]
            assert find_difference(sequence, other) == find_difference(items, other) == [*same, False].index(False)
            assert (sequence == other, has_prefix(sequence, other)) == (items == others, items[: len(others)] == others)


def test_a_change_near_the_end_copies_few_items():
    sequence = GrowingSequence(range(100_000))
    copied = 0
    for number in range(1_000):
        changed = sequence.take(len(sequence) - 10).extend([number] * 12)
        copied += len(changed._storage) if changed._storage is not sequence._storage else 0
        sequence = changed
    assert sequence[-12:] == (999,) * 12
    assert copied < 40 * 100_000, "all items are copied once in dozens of changes"
