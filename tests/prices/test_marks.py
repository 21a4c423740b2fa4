"""The latest request that another one begins with is found as by comparing all messages."""

from hypothesis import given
from hypothesis import strategies as st

from harness.prices.marks import find_whole_requests


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=20))
def test_whole_requests_are_those_that_a_comparison_of_all_messages_finds(changes):
    """Each request keeps some messages of the one before, and adds others that were never sent, or none."""
    requests, kept = list[list[int]](), list[int]()
    for number, (shared, added) in enumerate(changes):
        before = requests[-1] if requests else []
        kept.append(min(shared, len(before)))
        requests.append([*before[: kept[-1]], *range(100 * number, 100 * number + added)])
    places = find_whole_requests([len(request) for request in requests], kept)
    for index, request in enumerate(requests):
        begins_with = [place for place in range(index) if request[: len(requests[place])] == requests[place]]
        longest = max(begins_with, key=lambda place: len(requests[place]), default=-1)
        assert (len(requests[places[index]]) if places[index] >= 0 else 0) == (len(requests[longest]) if longest >= 0 else 0)
        assert places[index] == -1 or places[index] in begins_with


def test_a_result_that_is_masked_at_each_step_leaves_nothing_to_find():
    assert find_whole_requests([2, 4, 6, 8, 10], [0, 2, 4, 6, 8]) == [-1, 0, 1, 2, 3]
    assert find_whole_requests([4, 6, 8, 10], [0, 3, 5, 7]) == [-1, -1, -1, -1]
    assert find_whole_requests([4, 6, 8, 7], [0, 4, 6, 5]) == [-1, 0, 1, 0]
