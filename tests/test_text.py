"""Untrusted text in a terminal or on a chart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.text import escape_control_characters, format_duration, format_percent, replace_control_characters, shorten_line


def test_escape_sequences_lose_their_power():
    assert "\x1b" not in replace_control_characters("\x1b]0;owned\x07\x1b[2Jhello")
    assert replace_control_characters("\x1b[2Jhello").endswith("[2Jhello")
    assert escape_control_characters("\x1b[2Jhello\t", keep="\t") == "\\x1b[2Jhello\t"


@given(st.text())
def test_only_kept_characters_control_the_terminal(text):
    assert all(character.isprintable() or character in "\n\t" for character in replace_control_characters(text))
    assert replace_control_characters(text, " ", keep="").isprintable()
    assert escape_control_characters(text).isprintable()


def test_ordinary_text_stays_as_it_is():
    assert replace_control_characters("naïve → ok\n\tnext") == "naïve → ok\n\tnext"
    assert escape_control_characters("naïve → ok") == "naïve → ok"


@given(st.text(), st.integers(1, 50))
def test_a_shortened_line_has_no_line_end_and_at_most_its_length(text, max_characters):
    line = shorten_line(text, max_characters)
    assert len(line) <= max_characters
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (5_399, "90 min"), (5_400, "1.5 h")])
def test_a_duration_has_a_unit(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "decimals", "signed", "text"),
    [
        (0.4, 0, False, "40 %"),
        (0.123, 1, False, "12.3 %"),
        (0.4, 0, True, "+40 %"),
        (-0.126, 1, True, "-12.6 %"),
        (-0.001, 0, True, "+0 %"),
        (-0.001, 0, False, "0 %"),
        (2, 0, False, "200 %"),
    ],
)
def test_a_percentage_has_a_space_and_zero_no_minus(share, decimals, signed, text):
    assert format_percent(share, decimals, signed=signed) == text
