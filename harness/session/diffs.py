"""What changed between two workspaces line by line, as unified diffs fit to be shown to a person (S3.11).

Names and contents are hostile text: of what is no printable character only its escape is shown, long lines and long files are
cut, and of what is no text it is said that it changed. So a patch can be read, and most can be applied, but it is not made for
that: the snapshots are.
"""

import difflib
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import format_count
from harness.protocols import FileState, Snapshot
from harness.sandboxes.snapshots import MAX_DIFFED_LINES, BlobStore, format_path

CONTEXT_LINES = 3
LINE_CHARACTERS = 500
"""Shown of a line."""
FILE_LINES = 400
"""Shown of a file's patch."""
ALL_CHARACTERS = 200_000
"""Shown of all patches together."""
MOST_FILES = 100
MOST_BYTES = 2**20
"""A larger file is not looked into."""
_HUNK = re.compile(r"@@ -(\d+)(.*) \+(\d+)(.*) @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePatch:
    """One file that differs."""

    path: str
    """On one line, without control characters."""
    kind: Literal["added", "modified", "deleted"]
    text: str
    """Its unified diff, or under the same head a sentence on what changed."""


def patches(blobs: BlobStore, older: Snapshot, newer: Snapshot) -> tuple[FilePatch, ...]:
    """The patch of each file that differs between two snapshots, by path; of very many the first.

    Raises:
        SandboxError: a content is not there.
    """
    differ = sorted(path for path in older.files.keys() | newer.files.keys() if _file(older, path) != _file(newer, path))
    return tuple([_patch(blobs, path, _file(older, path), _file(newer, path)) for path in differ[:MOST_FILES]])


def joined(found: Sequence[FilePatch]) -> str:
    """Several patches as one text, cut where it gets too long for a page."""
    rest = ["(there may be more files; these are the first)\n"] if len(found) == MOST_FILES else []
    text = "".join([*(one.text for one in found), *rest])
    cut = len(text) - ALL_CHARACTERS
    return f"{text[:ALL_CHARACTERS]}\n({cut:,} characters more)\n" if cut > 0 else text


def _file(snapshot: Snapshot, path: str) -> FileState | None:
    state = snapshot.files.get(path)
    return None if state is None or stat.S_ISDIR(state.mode) else state


def _patch(blobs: BlobStore, path: str, old: FileState | None, new: FileState | None) -> FilePatch:
    name = _visible(format_path(path))
    head = f"--- {f'a/{name}' if old else '/dev/null'}\n+++ {f'b/{name}' if new else '/dev/null'}\n"
    lines = [*_modes(old, new), *_differences(blobs, old, new)]
    more = [f"({format_count(len(lines) - FILE_LINES, 'more line')})\n"] if len(lines) > FILE_LINES else []
    kind: Literal["added", "modified", "deleted"] = "added" if old is None else "deleted" if new is None else "modified"
    return FilePatch(path=name, kind=kind, text="".join((head, *lines[:FILE_LINES], *more)))


def _modes(old: FileState | None, new: FileState | None) -> Iterator[str]:
    if old and new and old.mode != new.mode:
        yield f"(mode {old.mode:o} -> {new.mode:o})\n"


def _differences(blobs: BlobStore, old: FileState | None, new: FileState | None) -> Iterator[str]:
    if old and new and old.sha256 == new.sha256:
        return
    sizes = " -> ".join(f"{one.size_bytes:,} bytes" if one else "nothing" for one in (old, new))
    if max(one.size_bytes for one in (old, new) if one) > MOST_BYTES:
        yield f"(too large to be shown: {sizes})\n"
        return
    before, after = (blobs.get(one.sha256) if one else b"" for one in (old, new))
    if any(b"\0" in content[:8192] for content in (before, after)):
        yield f"(binary: {sizes})\n"
        return
    hunks = _hunks(_lines(before), _lines(after))
    yield from [f"(more than {MAX_DIFFED_LINES:,} lines differ: {sizes})\n"] if hunks is None else hunks


def _lines(content: bytes) -> list[str]:
    """The lines with their ends; only a line feed ends one."""
    *whole, rest = content.decode("utf-8", "backslashreplace").split("\n")
    return [f"{line}\n" for line in whole] + [rest] * bool(rest)


def _hunks(old: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """The changes with their context; None = too many to look for them."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    end = next((at for at in range(shorter - start) if old[-1 - at] != new[-1 - at]), shorter - start)
    if len(old) + len(new) - 2 * (start + end) > MAX_DIFFED_LINES:
        return None
    skipped, left = max(0, start - CONTEXT_LINES), max(0, end - CONTEXT_LINES)
    before, after = old[skipped : len(old) - left], new[skipped : len(new) - left]
    told = list(difflib.unified_diff(before, after, n=CONTEXT_LINES, lineterm=""))[2:]
    return [_moved(line, skipped) if line.startswith("@@") else _shown(line) for line in told]


def _moved(header: str, by: int) -> str:
    def numbers(found: re.Match[str]) -> str:
        return f"@@ -{int(found[1]) + by}{found[2]} +{int(found[3]) + by}{found[4]} @@"

    return f"{_HUNK.sub(numbers, header)}\n"


def _shown(line: str) -> str:
    text = _visible(line.removesuffix("\n"))
    cut = f"{text[:LINE_CHARACTERS]}… ({len(text) - LINE_CHARACTERS:,} characters more)" if len(text) > LINE_CHARACTERS else text
    return f"{cut}\n" if line.endswith("\n") else f"{cut}\n\\ No newline at end of file\n"


def _visible(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode() for one in text)
