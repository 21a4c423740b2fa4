"""Functions that format text for display, and make untrusted text safe, e.g. without control characters."""

from collections.abc import Sequence
from html import escape


def replace_surrogates(text: str) -> str:
    """Return the text with every lone surrogate replaced by `?`, because UTF-8 cannot encode lone surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def replace_control_characters(text: str, replacement: str = "�", keep: str = "\n\t") -> str:
    """Return the text with each control character replaced, except the characters in `keep`."""
    return "".join(character if character.isprintable() or character in keep else replacement for character in text)


def escape_control_characters(text: str, keep: str = "") -> str:
    """Return the text with control characters as Python escape sequences, except those in `keep`."""
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )


def escape_html(text: str, keep: str = "") -> str:
    """Return the text for a place in HTML: special characters as entities, control characters as escape sequences.

    Control characters include those that change the direction of a text and those without a width.
    """
    return escape(escape_control_characters(text, keep))


def shorten_line(text: str, max_characters: int) -> str:
    """Return the beginning of a text as one line of limited length.

    Each run of white space is replaced by one space.
    """
    return " ".join(text[: 4 * max_characters].split())[:max_characters]


def format_percent(share: float, decimals: int = 0, *, signed: bool = False) -> str:
    """Return a share, where 1 is the whole, in percent: `40 %`, or `+40 %` with a sign. Zero has no minus."""
    return f"{100 * share:{'+' if signed else ''}z.{decimals}f} %"


def format_duration(seconds: float) -> str:
    """Return a duration as text with its unit, e.g. `3 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


_CELL_STYLE = "padding:2px 10px 2px 0;text-align:{align};white-space:nowrap;vertical-align:top"


def render_html_table(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Return a heading, a table and notes as HTML, with all texts escaped.

    No word is broken; a table that is wider than the page can be scrolled.

    Args:
        heading: Heading above the table.
        columns: Headings of the columns; without columns there is no table.
        rows: Cells of each row; the first column is aligned to the left.
        notes: Sentences below the table.
    """

    def render_cell(tag: str, place: int, text: str) -> str:
        style = _CELL_STYLE.format(align="right" if place else "left")
        return f'<{tag} style="{style}">{escape_html(text)}</{tag}>'

    parts = [f"<h4>{escape_html(heading, keep='')}</h4>"]
    if columns:
        head = "".join(render_cell("th", place, text) for place, text in enumerate(columns))
        body = "".join(f"<tr>{''.join(render_cell('td', place, text) for place, text in enumerate(row))}</tr>" for row in rows)
        table = f'<table style="margin:0 0 8px"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        parts.append(f'<div style="overflow-x:auto">{table}</div>')
    parts += [f'<p style="margin:2px 0;max-width:110ch;overflow-wrap:normal">{escape_html(note)}</p>' for note in notes]
    return "".join(parts)
