from hypothesis import given
from hypothesis import strategies as st

from harness.cli.terminal import format_line


@given(st.text(), st.integers(2, 50))
def test_a_formatted_line_is_printable_and_no_longer_than_its_width(text, width):
    line = format_line(text, width)
    assert len(line) <= width
    assert line.isprintable()


def test_ordinary_text_stays_as_it_is():
    assert format_line("a\n  b") == "a b"
