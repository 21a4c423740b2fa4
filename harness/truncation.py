"""Limits on the length of a logged tool output, and the preview that replaces a longer output.

Every function here is pure and works on texts; saving the whole output is left to the caller.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Limits on the length of a tool output; None disables a limit."""

    max_characters: int | None = None
    """Maximum number of characters."""
    max_lines: int | None = None
    """Maximum number of lines."""
    max_bytes: int | None = None
    """Maximum number of UTF-8 bytes, line ends not counted."""
    keep: Literal["head", "tail", "ends"] = "head"
    """End of a longer output to keep. `head` and `tail` apply to the limits on lines and bytes; a limit on characters always
    keeps the head. `ends` keeps both ends, half each, under the limit on characters, and the head under the other limits."""
    saved: bool = False
    """Whether the whole output is saved, so that tools can search and page through it."""


class Preview(NamedTuple):
    """Part of a tool output that stays in view."""

    text: str
    """Kept part of the output."""
    cut_bytes: int = 0
    """Number of UTF-8 bytes that were cut; 0 means that the output is whole."""
    cut_characters: int = 0
    """Number of characters that were cut."""


def preview_output(text: str, limits: Truncation) -> Preview:
    """Return the part of an output that fits the limits on lines and bytes, in whole lines.

    If the first line alone exceeds the limits, as much of that line is kept as fits.
    """
    lines, tail = text.split("\n"), limits.keep == "tail"
    most_lines = len(lines) if limits.max_lines is None else limits.max_lines
    total = len(text.encode(errors="surrogatepass"))
    most_bytes = total if limits.max_bytes is None else limits.max_bytes
    if len(lines) <= most_lines and total <= most_bytes:
        return Preview(text)
    shown_lines, shown_bytes = _take_lines(lines[::-1] if tail else lines, most_lines, most_bytes)
    if not shown_lines and most_lines:
        shown_lines = [_cut_line(lines[-1], most_bytes, "tail") if tail else _cut_line(lines[0], most_bytes, "head")]
        shown_bytes = len(shown_lines[0].encode(errors="surrogatepass"))
    shown = "\n".join(shown_lines[::-1] if tail else shown_lines)
    return Preview(text) if shown == text else Preview(shown, total - shown_bytes, len(text) - len(shown))


def _take_lines(lines: list[str], most_lines: int, most_bytes: int) -> tuple[list[str], int]:
    """Return the first lines that fit the limits, and their size in bytes."""
    fitting_lines: list[str] = []
    total_bytes = 0
    for line in lines[:most_lines]:
        size = len(line.encode(errors="surrogatepass"))
        if total_bytes + size > most_bytes:
            break
        fitting_lines.append(line)
        total_bytes += size
    return fitting_lines, total_bytes


def _cut_line(line: str, most_bytes: int, keep: Literal["head", "tail"]) -> str:
    """Return one end of a line, cut between characters."""
    data = line.encode(errors="surrogatepass")
    part = data[:most_bytes] if keep == "head" else data[len(data) - most_bytes :]
    return part.decode(errors="ignore")


def format_preview(preview: Preview, limits: Truncation, name: str) -> str:
    """Return a preview with a mark where the rest was cut, and with the location of the saved output.

    Args:
        preview: Preview of an output that was cut.
        limits: Limits that the preview was made with.
        name: Name of the saved output; empty if the output was not saved.
    """
    gone = f"...{preview.cut_bytes} bytes truncated..."
    text = f"{preview.text}\n\n{gone}" if limits.keep != "tail" else f"{gone}\n\n{preview.text}"
    return f"{text}\n\n{describe_location(name)}" if name else text


def name_output(text: str) -> str:
    """Return the name of a saved tool output: short enough for a model to repeat, and equal for equal texts."""
    return f"output-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


def describe_location(name: str) -> str:
    """Return two lines that give the name of a saved output and the tools to read it with."""
    return f"Full output saved to: {name}\nUse search_output to query the full content or read_output to read specific sections."
