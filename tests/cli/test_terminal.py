from contextlib import redirect_stdout
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st

from harness.cli.terminal import build_table, format_line, print_parts


@given(st.text(), st.integers(2, 50))
def test_a_formatted_line_is_printable_and_no_longer_than_its_width(text, width):
    line = format_line(text, width)
    assert len(line) <= width
    assert line.isprintable()


def test_ordinary_text_stays_as_it_is():
    assert format_line("a\n  b") == "a b"


@given(
    st.lists(
        st.lists(st.text("ab-7", min_size=40, max_size=150).map(format_line), min_size=6, max_size=6), min_size=1, max_size=4
    )
)
def test_a_row_of_a_table_is_one_line_where_no_terminal_is(rows):
    file = StringIO()
    with redirect_stdout(file):
        print_parts(build_table(["name"] * 6, rows))
    header, *lines = file.getvalue().splitlines()
    assert header.split() == ["name"] * 6
    assert [line.split() for line in lines] == [" ".join(row).split() for row in rows]
