"""How long a tool output may be when it is logged, what is shown of a longer one, and how the whole is named (S0.9, S3.1).

Pure text, no I/O.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The limits of a tool output, each None = none, and which end of a longer one stays."""

    max_characters: int | None = None
    max_lines: int | None = None
    max_bytes: int | None = None
    """Of the UTF-8 of the lines, line ends not counted."""
    keep: Literal["head", "tail", "ends"] = "head"
    """Which end stays where lines or bytes are too many. Of too many characters it is the head, or with `ends` both, half each;
    of lines and bytes `ends` keeps the head."""
    saved: bool = False
    """Whether the whole output is kept apart, for tools that search and page through it."""


class Preview(NamedTuple):
    """What is left of an output."""

    text: str
    cut_bytes: int = 0
    """Of the UTF-8; 0 = it is whole."""
    cut_characters: int = 0


def preview_output(text: str, limits: Truncation) -> Preview:
    """An output within its limits of lines and bytes, in whole lines.

    Of a first line that is too long alone as much is kept as may be; the seed would show nothing of it.
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
    """The first lines that fit, and their bytes."""
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
    """One end of a line, whole characters."""
    data = line.encode(errors="surrogatepass")
    part = data[:most_bytes] if keep == "head" else data[len(data) - most_bytes :]
    return part.decode(errors="ignore")


def format_preview(preview: Preview, limits: Truncation, name: str) -> str:
    """A preview with a mark where the rest was, and where that is now.

    Args:
        preview: of an output that was cut.
        limits: by which it was.
        name: of the saved output; empty = it was not saved.
    """
    gone = f"...{preview.cut_bytes} bytes truncated..."
    text = f"{preview.text}\n\n{gone}" if limits.keep != "tail" else f"{gone}\n\n{preview.text}"
    return f"{text}\n\n{describe_location(name)}" if name else text


def name_output(text: str) -> str:
    """The name of a saved tool output, short enough for a model to repeat: equal texts have equal names."""
    return f"output-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


def describe_location(name: str) -> str:
    """Two lines that tell a model where a whole output is, and by which tools it is read."""
    return f"Full output saved to: {name}\nUse search_output to query the full content or read_output to read specific sections."
