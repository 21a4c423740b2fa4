"""Limits on the length of a logged tool output, and the preview that replaces a longer output.

Every function here is pure and works on texts; saving the whole output is left to the caller.
"""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Limits on the length of a tool output; None disables a limit."""

    max_characters: int | None = None
    """Maximum number of characters of a tool output; None disables the limit."""
    max_lines: int | None = None
    """Maximum number of lines of a tool output; None disables the limit."""
    max_bytes: int | None = None
    """Maximum number of UTF-8 bytes of a tool output, line ends not counted; None disables the limit."""
    keep: Literal["head", "tail", "ends"] = "head"
    """Part of a longer output to keep: the beginning (`head`), the end (`tail`), or half of the space for each (`ends`).

    `tail` has an effect only under the limits on lines and bytes, `ends` only under the limit on characters. Otherwise the
    beginning is kept.
    """
    keep_essentials: bool = False
    """Whether a command's exit code and the last lines of its standard error are kept, wherever the output is cut."""
    saved: bool = False
    """Whether the whole tool output is saved, so that the agent can search and page through it later."""
    proposes_explore: bool = False
    """Whether the note below a cut output proposes the tool `explore`, in sessions whose agent has this tool."""


class Preview(NamedTuple):
    """Part of a tool output that the model sees, with the size of the part that was cut."""

    text: str
    """Part of the tool output that the model sees."""
    cut_bytes: int
    """Number of cut UTF-8 bytes that the model is told, which includes the line ends between lines that it sees.

    0 means that the output is whole. `measure_cut` returns the exact number.
    """
    essential: str
    """Text that is kept in addition although it lies in the part that was cut, such as the exit code of a command."""


class Cut(NamedTuple):
    """Size of the part that was cut from a tool output."""

    characters: int
    size_bytes: int
    """Number of UTF-8 bytes of the characters that were cut."""


def measure_cut(text: str, *kept_texts: str) -> Cut:
    """Return the size of what was cut from a tool output, of which the given parts are left."""
    return Cut(len(text) - sum(map(len, kept_texts)), count_bytes(text) - sum(map(count_bytes, kept_texts)))


def count_bytes(text: str) -> int:
    """Return the number of UTF-8 bytes of a text, which may contain lone surrogates."""
    return len(text.encode(errors="surrogatepass"))


class Essentials(NamedTuple):
    """Parts of a tool output that are kept wherever the output is cut, such as the exit code of a command."""

    opening: str
    """Beginning of the output that is always kept."""
    ending: str
    """End of the output that is always kept."""


NOTHING_ESSENTIAL = Essentials("", "")
"""Value for an output without essential parts, which may be cut anywhere."""


def preview_output(text: str, limits: Truncation, essentials: Essentials = NOTHING_ESSENTIAL) -> Preview:
    """Return the part of a tool output that fits the limits on lines and bytes.

    The part consists of whole lines. If not even one line fits, as much of the line is kept as fits. Essential text that was cut,
    such as an exit code, is kept in addition, even beyond the limits.
    """
    lines, tail = text.split("\n"), limits.keep == "tail"
    most_lines = len(lines) if limits.max_lines is None else limits.max_lines
    total = count_bytes(text)
    most_bytes = total if limits.max_bytes is None else limits.max_bytes
    if len(lines) <= most_lines and total <= most_bytes:
        return Preview(text, 0, "")
    shown_lines, shown_bytes = _take_lines(lines[::-1] if tail else lines, most_lines, most_bytes)
    if not shown_lines and most_lines:
        shown_lines = [_cut_line(lines[-1], most_bytes, "tail") if tail else _cut_line(lines[0], most_bytes, "head")]
        shown_bytes = count_bytes(shown_lines[0])
    shown = "\n".join(shown_lines[::-1] if tail else shown_lines)
    if shown == text:
        return Preview(text, 0, "")
    rest = text[: len(text) - len(shown)] if tail else text[len(shown) :]
    essential = rest[: len(essentials.opening)] if tail else rest[len(rest) - min(len(rest), len(essentials.ending)) :]
    cut = rest[len(essential) :] if tail else rest[: len(rest) - len(essential)]
    if essential and not cut.strip("\n"):
        return Preview(text, 0, "")
    return Preview(shown, total - shown_bytes - count_bytes(essential), essential)


def _take_lines(lines: list[str], most_lines: int, most_bytes: int) -> tuple[list[str], int]:
    fitting_lines: list[str] = []
    total_bytes = 0
    for line in lines[:most_lines]:
        size = count_bytes(line)
        if total_bytes + size > most_bytes:
            break
        fitting_lines.append(line)
        total_bytes += size
    return fitting_lines, total_bytes


def _cut_line(line: str, most_bytes: int, keep: Literal["head", "tail"]) -> str:
    """Return as much of one end of a line as fits, without cutting a character in two."""
    data = line.encode(errors="surrogatepass")
    part = data[:most_bytes] if keep == "head" else data[len(data) - most_bytes :]
    return part.decode(errors="ignore")


def format_preview(preview: Preview, limits: Truncation, mark: str) -> str:
    """Return the shortened tool output as the model reads it, with notes on how to see the rest.

    Args:
        preview: Part of the output that is left after the cut.
        limits: Limits on the length of a tool output that were used to make the preview.
        mark: Text from `build_mark` that says how to see the rest of the output; may be empty.
    """
    notice = f"...{preview.cut_bytes} bytes truncated..."
    text = f"{preview.text}\n\n{notice}" if limits.keep != "tail" else f"{notice}\n\n{preview.text}"
    if preview.essential:
        text = f"{text}\n\n{preview.essential}" if limits.keep != "tail" else f"{preview.essential}\n\n{text}"
    return f"{text}\n\n{mark}" if mark else text


def name_output(text: str) -> str:
    """Return the name under which a tool output is saved; equal texts have equal names.

    The name is short enough for a model to repeat.
    """
    return f"output-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


RETENTION_DAYS = 7
"""Time for which a saved tool output is kept, in days."""
_LOCATION = "Full output saved to: "
_NAMED_LOCATION = re.compile(rf"^{_LOCATION}(output-[0-9a-f]{{12}})$", re.MULTILINE)


def describe_location(name: str) -> str:
    """Return two lines that tell the model the name of a saved output and the tools that read it."""
    return f"{_LOCATION}{name}\nUse search_output to query the full content or read_output to read specific sections."


def list_locations(text: str) -> list[str]:
    """Return the names of the saved outputs to which the marks in a text refer."""
    return _NAMED_LOCATION.findall(text) if _LOCATION in text else []


def note_expired_outputs(text: str, kept_names: Collection[str] | None) -> str:
    """Return a text for display, in which the marks of cut outputs say whether the whole output has been deleted since.

    The log and what the model sees do not change.

    Args:
        text: Text with any number of marks, such as a tool result.
        kept_names: Names of the saved outputs that still exist; None if they are unknown, which changes nothing.
    """
    if kept_names is None or _LOCATION not in text:
        return text
    note = f" (deleted since: saved outputs are kept for {RETENTION_DAYS} days)"
    return _NAMED_LOCATION.sub(lambda match: match[0] + note * (match[1] not in kept_names), text)


EXPLORE_NAME = "explore"
"""Name of the tool with which an agent sends a sub-agent to explore."""
EXPLORE_PROPOSAL = (
    f"Delegate large outputs to {EXPLORE_NAME}: a sub-agent looks through them and answers a question in a few lines."
)
"""Line for the model below a cut output that proposes the tool `explore`."""


def build_mark(name: str, limits: Truncation) -> str:
    """Return the lines below a cut output that tell the model how to see the rest; may be empty.

    Args:
        name: Name of the saved whole output; empty if the output was not saved.
        limits: Limits on the length of a tool output; they decide whether the lines propose the tool `explore`.
    """
    lines = (describe_location(name) if name else "", EXPLORE_PROPOSAL if limits.proposes_explore else "")
    return "\n".join(filter(None, lines))
