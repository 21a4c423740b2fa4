from hypothesis import given
from hypothesis import strategies as st

from harness.cli.terminal_text import format_line, replace_control_characters


def test_escape_sequences_lose_their_power():
    assert "\x1b" not in replace_control_characters("\x1b]0;owned\x07\x1b[2Jhello")
    assert replace_control_characters("\x1b[2Jhello").endswith("[2Jhello")


@given(st.text())
def test_nothing_but_line_ends_and_tabs_controls_the_terminal(text):
    assert all(character.isprintable() or character in "\n\t" for character in replace_control_characters(text))


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_line_of_at_most_its_width(text, width):
    line = format_line(text, width)
    assert len(line) <= width
    assert line.isprintable()


def test_ordinary_text_stays_as_it_is():
    assert replace_control_characters("naïve → ok\n\tnext") == "naïve → ok\n\tnext"
    assert format_line("a\n  b") == "a b"
