"""Counts with their nouns in messages."""

import pytest

from harness.errors import format_count


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (0, "step", "0 steps"),
        (1, "step", "1 step"),
        (2, "step", "2 steps"),
        (1200, "message", "1,200 messages"),
        (1, "entry", "1 entry"),
        (3, "entry", "3 entries"),
    ],
)
def test_one_is_no_more_than_one(count, noun, said):
    assert format_count(count, noun) == said
