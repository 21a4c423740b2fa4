"""Inferred compactions: each part of the rule, on sessions that are given by the sizes of their prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import assistant
from harness.conversation.tokens import Measured, Usage
from harness.recordings.inferred import CALLS_WITHOUT_REBOUND, MIN_DROP_TOKENS, infer_compactions
from harness.recordings.recording import RecordedMessage


def make_session(sizes):
    """Return the answers of a session whose prompts have the given sizes in tokens; None is a call without usage."""
    return [
        RecordedMessage(
            message=assistant("Go on."),
            step=number,
            usage=None if size is None else Usage(input_tokens=Measured(size), output_tokens=Measured(5)),
        )
        for number, size in enumerate(sizes, start=1)
    ]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([100_000, 160_000, 40_000, 50_000], [(2, 160_000, 40_000)]),
        ([100_000, 160_000, None, 40_000, 50_000], [(3, 160_000, 40_000)]),
        ([160_000, 96_000], [(1, 160_000, 96_000)]),
        ([160_000, 96_001], []),
        ([200_000, 149_000, 40_000], []),
        ([200_000, 150_000, 40_000, 160_000, 50_000], [(4, 160_000, 50_000)]),
        ([160_000, 40_000, 50_000, 60_000, 97_000], []),
        ([160_000, 40_000, 50_000, 60_000, 70_000, 120_000], [(1, 160_000, 40_000)]),
    ],
    ids=[
        "drop",
        "call without usage",
        "just enough",
        "too little",
        "below the peak",
        "rebound",
        "late rebound",
        "after three",
    ],
)
def test_a_large_drop_near_the_peak_that_lasts_is_a_compaction(sizes, expected):
    compactions = infer_compactions(make_session(sizes))
    assert [(event.position, event.tokens_before, event.tokens_after) for event in compactions] == expected
    assert all(event.inferred for event in compactions)


@given(st.lists(st.integers(1, 300_000), max_size=12))
def test_a_session_that_only_grows_has_no_inferred_compaction(sizes):
    assert infer_compactions(make_session(sorted(sizes))) == ()


@given(st.lists(st.integers(1, 300_000), min_size=2, max_size=12))
def test_each_inferred_compaction_keeps_the_rule(sizes):
    for event in infer_compactions(make_session(sizes)):
        before, behind = sizes[event.position - 1], sizes[event.position : event.position + 1 + CALLS_WITHOUT_REBOUND]
        assert before >= 0.75 * max(sizes)
        assert max(behind) <= before - MIN_DROP_TOKENS
