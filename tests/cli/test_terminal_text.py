from hypothesis import given
from hypothesis import strategies as st

from harness.cli.terminal_text import one_line, printable


def test_escape_sequences_lose_their_power():
    assert "\x1b" not in printable("\x1b]0;owned\x07\x1b[2Jhello")
    assert printable("\x1b[2Jhello").endswith("[2Jhello")


@given(st.text())
def test_nothing_but_line_ends_and_tabs_controls_the_terminal(text):
    assert all(character.isprintable() or character in "\n\t" for character in printable(text))


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_line_of_at_most_its_width(text, width):
    line = one_line(text, width)
    assert len(line) <= width
    assert line.isprintable()


def test_ordinary_text_stays_as_it_is():
    assert printable("naïve → ok\n\tnext") == "naïve → ok\n\tnext"
    assert one_line("a\n  b") == "a b"
