"""Output to a terminal: hostile text made harmless, and tables."""

from collections.abc import Sequence
from typing import Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness.text import replace_control_characters

PLAIN_WIDTH = 200
"""Columns where the output is no terminal."""


def format_line(text: str, width: int = 200) -> str:
    """Return the text on one line without control characters, cut to a width."""
    line = " ".join(replace_control_characters(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def print_renderables(*parts: RenderableType) -> None:
    """Print to the terminal, or to a fixed width where there is none."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    for part in parts:
        console.print(part)


def build_table(*columns: str, justify_rest: Literal["left", "right"] = "left") -> Table:
    """Return an empty table with a bold header and no lines; `justify_rest` applies to all columns but the first."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify=justify_rest if place else "left")
    return table


def build_named_grid(rows: Sequence[tuple[str, str]], indent: str = "") -> Table:
    """Return dimmed names in a narrow column with texts beside them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=10)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(f"{indent}{name}", style="dim"), Text(replace_control_characters(text)))
    return table
