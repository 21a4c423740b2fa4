"""Formatting of numbers and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.formatting import (
    format_label,
    format_short_number,
    format_usd,
    shorten_arm_names,
)


@pytest.mark.parametrize(
    ("value", "text"), [(7, "7"), (12.5, "12.5"), (900, "900"), (1234, "1.23k"), (32768, "32.8k"), (2.5e6, "2.5M")]
)
def test_counts_are_short(value, text):
    assert format_short_number(value) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "0.00"), (1.234, "1.23"), (0.00012, "0.00012"), (float("nan"), "?")])
def test_dollars_are_never_rounded_to_nothing(amount, text):
    assert format_usd(amount) == text


@given(st.text())
def test_no_name_can_steer_a_terminal(text):
    assert format_label(text, 20).isprintable()
    assert len(format_label(text, 20)) <= 20


def test_arms_of_a_grid_are_named_by_their_values_below_a_heading():
    heading, names = shorten_arm_names(["a=1 b=x", "a=2 b=x", "control"])
    assert heading == "a, b"
    assert names == {"a=1 b=x": "1, x", "a=2 b=x": "2, x", "control": "control"}


@pytest.mark.parametrize("arms", [["a=1"], ["a=1", "b=2"], ["one", "two"], ["a=1 x", "a=2 x"]])
def test_other_arms_keep_their_names(arms):
    assert shorten_arm_names(arms) == ("arm", {arm: arm for arm in arms})
