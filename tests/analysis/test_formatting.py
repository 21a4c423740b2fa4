"""Formatting of numbers and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.formatting import format_label, format_short_number, format_usd


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
