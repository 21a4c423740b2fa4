"""Tools `read_output` and `search_output`, which page through and search outputs that were too long to be shown as a whole.

Lines are numbered from 1. A very long line counts as several lines, so that every part of an output can be reached. The results
of both tools are limited in size and are therefore never truncated themselves.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.errors import ToolError
from harness.protocols import OutputStore
from harness.tools.function_tool import FunctionTool, build_spec

PAGE_LINES = 200
"""Maximum number of lines that one call of the tool `read_output` shows."""
MAX_MATCHES = 50
"""Maximum number of matching lines that one call of the tool `search_output` shows."""
LINE_CHARACTERS = 500
"""Maximum number of characters of a line of a saved output; a longer line is split and counts as several lines."""
PAGE_CHARACTERS = 8_000
"""Maximum number of characters that one call of `read_output` or `search_output` returns."""


def make_output_tools(store: OutputStore) -> tuple[FunctionTool, ...]:
    """Return the tools `read_output` and `search_output`, which show parts of saved outputs.

    The caller closes `store`.
    """

    def read(arguments: Mapping[str, Any]) -> str:
        lines = _split_lines(store.load(_require_text(arguments, "output")))
        first = _require_whole_number(arguments, "from_line", 1)
        if first > len(lines):
            raise ToolError(f"from_line={first}: the output has {len(lines)} lines")
        max_lines = _require_whole_number(arguments, "lines", PAGE_LINES, most=PAGE_LINES)
        page = list(_iter_page(enumerate(lines[first - 1 :], first), max_lines))
        last = first + len(page) - 1
        rest = f"; go on with from_line={last + 1}" if last < len(lines) else ""
        return "\n".join([*page, f"[lines {first} to {last} of {len(lines)}{rest}]"])

    def search(arguments: Mapping[str, Any]) -> str:
        lines, text = _split_lines(store.load(_require_text(arguments, "output"))), _require_text(arguments, "text").casefold()
        first = _require_whole_number(arguments, "from_line", 1)
        matches = [(number, line) for number, line in enumerate(lines, 1) if text in line.casefold()]
        page = list(_iter_page(iter([match for match in matches if match[0] >= first]), MAX_MATCHES))
        before = sum(number < first for number, _ in matches)
        later_matches = len(matches) - before - len(page)
        rest = f"; go on with from_line={matches[before + len(page)][0]}" if later_matches else ""
        return "\n".join([*page, f"[{len(page)} of {len(matches)} lines that hold it{rest}]"])

    name = {"type": "string", "description": "Name of the saved output, as the mark of a truncated result tells it"}
    start = {"type": "integer", "description": "Line to begin with, from 1"}
    count = {"type": "integer", "description": f"How many, at most {PAGE_LINES}"}
    wanted = {"type": "string", "description": "What the lines hold"}
    read_spec = build_spec(
        "read_output",
        "Read a section of a saved output, its lines numbered",
        {"output": name, "from_line": start, "lines": count},
        ["output"],
    )
    search_spec = build_spec(
        "search_output",
        "Find the lines of a saved output that hold a text, whatever its case",
        {"output": name, "text": wanted, "from_line": start},
        ["output", "text"],
    )
    return FunctionTool(read_spec, read), FunctionTool(search_spec, search)


def _require_text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise ToolError(f"{name}: a text is needed")
    return value


def _require_whole_number(arguments: Mapping[str, Any], name: str, default: int, *, most: int | None = None) -> int:
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ToolError(f"{name}: a whole number from 1 is needed")
    return value if most is None else min(value, most)


def _split_lines(text: str) -> list[str]:
    size = LINE_CHARACTERS
    return [line[start : start + size] for line in text.split("\n") for start in range(0, max(1, len(line)), size)]


def _iter_page(numbered: Iterator[tuple[int, str]], max_lines: int) -> Iterator[str]:
    """Yield at least one line, and more as long as the limits on lines and characters allow."""
    character_count = 0
    for index, (number, line) in enumerate(numbered):
        shown = f"{number}: {line}"
        character_count += len(shown) + 1
        if index and (index >= max_lines or character_count > PAGE_CHARACTERS):
            return
        yield shown
