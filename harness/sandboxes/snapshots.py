"""Snapshots of workspaces as the harness keeps them: a list of files, their contents by hash, and an id of the whole state.

The tool server in the sandbox sends only what has changed. Files are kept outside of the sandbox, so that they outlast the
sandbox, and so that all sandboxes with the same store for file contents can share them.
"""

import difflib
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Reversible, Sequence
from typing import NamedTuple

from harness.protocols import BlobStore, FileChange, FileState, Snapshot

MAX_DIFFED_LINES = 4_000
"""Maximum number of changed lines of a file up to which the order of lines counts; with more lines, their order is ignored."""
_LINE_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def compute_tree_id(files: Mapping[str, FileState]) -> str:
    """Return the id of a state of the workspace.

    The id is the SHA-256 (hexadecimal) over paths, modes and contents of all files.
    """
    return compute_ordered_id({path: files[path] for path in sorted(files)})


def compute_ordered_id(files: Mapping[str, FileState]) -> str:
    """Return the SHA-256 (hexadecimal) over paths, modes and contents of files in the given order."""
    # encoded in one piece, because a workspace has hundreds of files and its id is computed after each command
    text = "".join([f"{state.mode:o} {state.sha256} {path}\0" for path, state in files.items()])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def list_children(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the names in each directory that is not empty, by path of the directory.

    The workspace itself is the empty path. The names are in the order of `files`.
    """
    names_by_directory: dict[str, list[str]] = {}
    for path in files:
        directory, _, name = path.rpartition("/")
        names_by_directory.setdefault(directory, []).append(name)
    return names_by_directory


def order_files(files: Mapping[str, FileState], orders: Mapping[str, Sequence[str]]) -> dict[str, FileState]:
    """Return the files of a workspace in the order in which they were created.

    Each directory comes before its contents. Programs can see this order, because unsorted listings follow it.

    Args:
        files: State of each file, by path.
        orders: Names in each directory in order of creation, by path of the directory.
    """
    children = list_children(files)
    for directory, names in children.items():
        recorded_order = orders.get(directory, ())
        if names != recorded_order:
            present, recorded = set(names), set(recorded_order)
            children[directory] = [name for name in recorded_order if name in present] + [
                name for name in names if name not in recorded
            ]
    return {path: files[path] for path in walk_paths(children)}


def walk_paths(children: Mapping[str, Reversible[str]]) -> Iterator[str]:
    """Yield the paths of all files and directories of the workspace, each directory before its contents.

    Args:
        children: Names in each directory, by path of the directory; the workspace itself is the empty path.
    """
    waiting = [""]
    while waiting:
        path = waiting.pop()
        if path:
            yield path
        if path in children:
            waiting += [join_path(path, name) for name in reversed(children[path])]


def plan_restore(current: Mapping[str, FileState], target: Mapping[str, FileState]) -> tuple[list[str], list[str]]:
    """Return what to delete and what to write so that the current files become those of a snapshot.

    A file or directory whose position in its directory must change is created again, with everything below it.

    Args:
        current: State of each current file, by path.
        target: State of each file of the snapshot, by path.

    Returns:
        Paths to delete, from the deepest up, and paths to write, each directory before its contents.
    """
    reusable_paths = {path for path, state in target.items() if path in current and _is_same_kind(current[path], state)}
    recreated_paths = {path for path in target if path in current and path not in reusable_paths}
    present = list_children(current)
    for directory, names in list_children(target).items():
        stays = [name for name in present.get(directory, ()) if join_path(directory, name) in reusable_paths]
        # commands such as `ls -U` show names in order of creation, so all from the first wrong place on are created again
        in_place = next((index for index, name in enumerate(stays) if name != names[index]), len(stays))
        recreated_paths.update(join_path(directory, name) for name in stays[in_place:])
    created_paths = []
    for path, state in order_files(target, list_children(target)).items():
        if path.rpartition("/")[0] in recreated_paths:
            recreated_paths.add(path)
        if path in recreated_paths or current.get(path) != state:
            created_paths.append(path)
    return sorted((path for path in current if path not in target or path in recreated_paths), reverse=True), created_paths


def join_path(directory: str, name: str) -> str:
    """Return the path of a file in a directory; an empty `directory` is the workspace itself."""
    return f"{directory}/{name}" if directory else name


def _is_same_kind(current: FileState, target: FileState) -> bool:
    """Return whether a file can become another without being deleted first; a symbolic link cannot."""
    if stat.S_IFMT(current.mode) != stat.S_IFMT(target.mode):
        return False
    return not stat.S_ISLNK(current.mode) or current == target


def diff_snapshots(blobs: BlobStore, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
    """Return the files that differ between two snapshots, sorted by path.

    Each has the numbers of lines added and removed, which are 0 if only the mode has changed. Directories are left out.
    """
    file_changes = []
    for path in sorted(older.files.keys() | newer.files.keys()):
        before, after = find_file(older, path), find_file(newer, path)
        if before == after:
            continue
        removed, added = _count_line_changes(_read_lines(blobs, before), _read_lines(blobs, after))
        kind = "added" if before is None else "deleted" if after is None else "modified"
        file_changes.append(FileChange(path=format_path(path), kind=kind, added_lines=added, removed_lines=removed))  # type: ignore[arg-type]
    return tuple(file_changes)


MAX_LISTED_FILES = 1_000
"""Maximum number of files that are listed as changed between two snapshots."""


class SnapshotPatch(NamedTuple):
    """Changes between two snapshots of a workspace, as a log stores them."""

    patch_hash: str
    """SHA-256 (hexadecimal) over the changed files' paths, with mode and content before and after; empty if no file changed."""
    changed_files: tuple[str, ...]
    """Paths of the changed files as text, sorted; at most `MAX_LISTED_FILES`."""


def summarize_patch(older: Snapshot, newer: Snapshot) -> SnapshotPatch:
    """Return a hash of the changes between two snapshots, and the paths of the changed files.

    Directories are left out.
    """
    digest, changed = hashlib.sha256(), list[str]()
    for path in sorted(older.files.keys() | newer.files.keys()):
        before, after = find_file(older, path), find_file(newer, path)
        if before != after:
            changed.append(path)
            states = [f"{state.mode:o} {state.sha256}" if state else "-" for state in (before, after)]
            digest.update(f"{' '.join(states)} ".encode() + os.fsencode(path) + b"\0")
    return SnapshotPatch(digest.hexdigest() if changed else "", tuple(map(format_path, changed[:MAX_LISTED_FILES])))


def format_path(path: str) -> str:
    r"""Return a path as text that can be stored and displayed on one line.

    Bytes that are not UTF-8 are written as `\xff`. Control characters and line separators are written as escape sequences such as
    `\n`, so that a name cannot imitate a line of a listing.
    """
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _LINE_BREAKING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def find_file(snapshot: Snapshot, path: str) -> FileState | None:
    """Return the file or link at a path of a snapshot; None if there is none, or a directory."""
    state = snapshot.files.get(path)
    return None if state is None or stat.S_ISDIR(state.mode) else state


def _read_lines(blobs: BlobStore, state: FileState | None) -> list[bytes]:
    if state is None:
        return []
    content = blobs.get(state.sha256)
    return [] if b"\0" in content[:8192] else content.splitlines()  # binary files have no lines, as in Git


def _count_line_changes(old: list[bytes], new: list[bytes]) -> tuple[int, int]:
    """Return the numbers of lines removed and added between two versions of a file."""
    # `SequenceMatcher` takes quadratic time, so it gets only the lines between equal beginnings and ends
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not old or not new:
        return len(old), len(new)
    if len(old) + len(new) > MAX_DIFFED_LINES:  # then the order of lines is ignored
        return (Counter(old) - Counter(new)).total(), (Counter(new) - Counter(old)).total()
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return len(old) - same, len(new) - same
