"""Output to a terminal: functions that replace control characters, shorten long texts and build tables."""

from collections.abc import Iterable, Sequence
from typing import Literal

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness.errors import format_count
from harness.text import replace_control_characters

PLAIN_WIDTH = 200
"""Width in columns of command output that does not go to a terminal, except of tables, which are as wide as their content."""

MAX_TABLE_WIDTH = 10_000
"""Maximum width in columns of a table that does not go to a terminal."""


def format_line(text: str, width: int = 200) -> str:
    """Return a text on one line, without control characters, cut to a maximum number of characters."""
    line = " ".join(replace_control_characters(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def format_counts(*counts: tuple[int, str]) -> str:
    """Return several counts with their nouns in singular or plural, e.g. `1 turn, 3 steps`."""
    return ", ".join(format_count(count, noun) for count, noun in counts)


def list_first(lines: Sequence[str], limit: int = 10) -> list[str]:
    """Return the first `limit` lines, followed by a line such as `and 3 more` if there are more than that."""
    return [*lines[:limit], f"and {len(lines) - limit} more"] if len(lines) > limit else list(lines)


def print_line(text: str, *, to_stderr: bool = False) -> None:
    """Print a text as one line of output, with its control characters replaced."""
    click.echo(replace_control_characters(text), err=to_stderr)


def print_parts(*parts: RenderableType) -> None:
    """Print strings and rich renderables; output that does not go to a terminal does not depend on its width.

    There, each row of a table with a header is one line, so that other programs find whole ids and names in it. A string is
    printed literally (no rich markup) with its control characters replaced.
    """
    console = Console(highlight=False)
    for part in parts:
        shown = Text(replace_control_characters(part)) if isinstance(part, str) else part
        if console.is_terminal:
            console.print(shown)
        else:
            _print_plain(shown)


def _print_plain(part: RenderableType) -> None:
    console = Console(highlight=False, width=PLAIN_WIDTH)
    if isinstance(part, Table) and part.show_header:
        unlimited = console.options.update(max_width=MAX_TABLE_WIDTH)
        console = Console(highlight=False, width=max(PLAIN_WIDTH, console.measure(part, options=unlimited).maximum))
    with console.capture() as captured:
        console.print(part)
    for line in captured.get().removesuffix("\n").split("\n"):  # rich fills the last column with spaces
        click.echo(line.rstrip())


def build_table(
    columns: Sequence[str], rows: Iterable[Iterable[str | int]], justify_rest: Literal["left", "right"] = "left"
) -> Table:
    """Return a table for the terminal with a bold header and without borders.

    Args:
        columns: Titles of the columns in the header.
        rows: Content of the cells of each row; integers are written with thousands separators.
        justify_rest: Alignment of all columns but the first.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify=justify_rest if place else "left")
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else format_line(cell)) for cell in row))
    return table


def build_named_grid(rows: Iterable[tuple[str, str]], indent: str = "") -> Table:
    """Return a table for the terminal with two columns: dimmed names, and the text that belongs to each name."""
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(f"{indent}{name}", style="dim"), Text(replace_control_characters(text)))
    return table
