"""Readable differences between two workspaces, as one unified diff for each file.

File names and contents may be hostile: unprintable characters are shown as escape sequences, long lines and long files are cut,
and binary files are only reported as changed. The diffs are only for reading; a workspace is restored from its snapshots.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from harness.errors import format_count
from harness.protocols import BlobStore, FileState, Snapshot
from harness.sandboxes.snapshots import MAX_DIFFED_LINES, find_file, format_path
from harness.text import escape_control_characters

CONTEXT_LINES = 3
"""Number of unchanged lines shown before and after each change in a diff."""
MAX_LINE_CHARACTERS = 500
"""Maximum number of characters shown of one line in a diff."""
MAX_FILE_LINES = 400
"""Maximum number of lines shown of the diff of one file."""
MAX_TOTAL_CHARACTERS = 200_000
"""Maximum number of characters shown of the diffs of all files together."""
MAX_FILES = 100
"""Maximum number of files whose diffs are shown."""
MAX_FILE_BYTES = 2**20
"""File size in bytes above which a diff only reports that the file has changed, without its lines."""
_HUNK_HEADER = re.compile(r"@@ -(\d+)(.*) \+(\d+)(.*) @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """Change of one file between two workspaces, as a readable diff."""

    path: str
    """Path of the changed file on one line, without control characters."""
    kind: Literal["added", "modified", "deleted"]
    text: str
    """Unified diff of the changed file.

    For a binary or very large file, the text only contains the header of the diff and a sentence about the change.
    """


def build_patches(blobs: BlobStore, older: Snapshot, newer: Snapshot) -> tuple[FilePatch, ...]:
    """Return the diff of each file that differs between two workspace snapshots, sorted by path.

    At most `MAX_FILES` diffs are returned.

    Raises:
        SandboxError: The content of a file is missing in `blobs`.
    """
    paths = sorted(older.files.keys() | newer.files.keys())
    pairs = ((path, find_file(older, path), find_file(newer, path)) for path in paths)
    changed_files = islice(((path, old, new) for path, old, new in pairs if old != new), MAX_FILES)
    return tuple([_build_patch(blobs, path, old, new) for path, old, new in changed_files])


def join_patches(file_patches: Sequence[FilePatch]) -> str:
    """Join the diffs of several files into one text of at most `MAX_TOTAL_CHARACTERS` characters.

    A note follows if more was cut.
    """
    overflow_note = ["(there may be more files; these are the first)\n"] if len(file_patches) == MAX_FILES else []
    text = "".join([*(file_patch.text for file_patch in file_patches), *overflow_note])
    cut_characters = len(text) - MAX_TOTAL_CHARACTERS
    return f"{text[:MAX_TOTAL_CHARACTERS]}\n({cut_characters:,} characters more)\n" if cut_characters > 0 else text


def _build_patch(blobs: BlobStore, path: str, old: FileState | None, new: FileState | None) -> FilePatch:
    name = escape_control_characters(format_path(path), keep="\t")
    head = f"--- {f'a/{name}' if old else '/dev/null'}\n+++ {f'b/{name}' if new else '/dev/null'}\n"
    lines = [*_describe_mode_change(old, new), *_iter_differences(blobs, old, new)]
    cut_note = [f"({format_count(len(lines) - MAX_FILE_LINES, 'more line')})\n"] if len(lines) > MAX_FILE_LINES else []
    kind: Literal["added", "modified", "deleted"] = "added" if old is None else "deleted" if new is None else "modified"
    return FilePatch(path=name, kind=kind, text="".join((head, *lines[:MAX_FILE_LINES], *cut_note)))


def _describe_mode_change(old: FileState | None, new: FileState | None) -> Iterator[str]:
    if old and new and old.mode != new.mode:
        yield f"(mode {old.mode:o} -> {new.mode:o})\n"


def _iter_differences(blobs: BlobStore, old: FileState | None, new: FileState | None) -> Iterator[str]:
    if old and new and old.sha256 == new.sha256:
        return
    sizes = " -> ".join(f"{state.size_bytes:,} bytes" if state else "nothing" for state in (old, new))
    if max(state.size_bytes for state in (old, new) if state) > MAX_FILE_BYTES:
        yield f"(too large to be shown: {sizes})\n"
        return
    before, after = (blobs.get(state.sha256) if state else b"" for state in (old, new))
    if any(b"\0" in content[:8192] for content in (before, after)):  # Git recognizes binary files in the same way
        yield f"(binary: {sizes})\n"
        return
    hunks = _compute_hunks(_split_lines(before), _split_lines(after))
    yield from [f"(more than {MAX_DIFFED_LINES:,} lines differ: {sizes})\n"] if hunks is None else hunks


def _split_lines(content: bytes) -> list[str]:
    # Only a line feed ends a line, unlike in `str.splitlines`.
    *complete_lines, rest = content.decode("utf-8", "backslashreplace").split("\n")
    return [f"{line}\n" for line in complete_lines] + [rest] * bool(rest)


def _compute_hunks(old: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """Return the changed lines of a file with some unchanged lines around them; None if too many lines differ."""
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    end = next((index for index in range(shorter - start) if old[-1 - index] != new[-1 - index]), shorter - start)
    if len(old) + len(new) - 2 * (start + end) > MAX_DIFFED_LINES:
        return None
    skipped_lines, trailing_lines = max(0, start - CONTEXT_LINES), max(0, end - CONTEXT_LINES)
    before, after = old[skipped_lines : len(old) - trailing_lines], new[skipped_lines : len(new) - trailing_lines]
    diff_lines = list(difflib.unified_diff(before, after, n=CONTEXT_LINES, lineterm=""))[2:]
    return [_shift_header(line, skipped_lines) if line.startswith("@@") else _format_line(line) for line in diff_lines]


def _shift_header(header: str, offset: int) -> str:
    def shift_numbers(match: re.Match[str]) -> str:
        return f"@@ -{int(match[1]) + offset}{match[2]} +{int(match[3]) + offset}{match[4]} @@"

    return f"{_HUNK_HEADER.sub(shift_numbers, header)}\n"


def _format_line(line: str) -> str:
    """Return a line of a diff, escaped and cut; a last line without line feed gets the mark that diff and git print."""
    text = escape_control_characters(line.removesuffix("\n"), keep="\t")
    if (excess := len(text) - MAX_LINE_CHARACTERS) > 0:
        text = f"{text[:MAX_LINE_CHARACTERS]}… ({excess:,} characters more)"
    return f"{text}\n" if line.endswith("\n") else f"{text}\n\\ No newline at end of file\n"
