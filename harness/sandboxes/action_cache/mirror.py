"""A copy of a workspace in memory, which answers file operations and identifies the exact state of the workspace.

The copy contains only ordinary files and directories that their owner can open; a workspace with links or other files cannot be
copied. A file operation whose result in a real sandbox is not certain raises `MirrorMiss`, and the caller uses a real sandbox.
"""

import hashlib
import stat
from collections.abc import Iterable, Mapping

from harness.errors import FileMissing, PathRefused
from harness.files.blobs import TemporaryBlobStore
from harness.protocols import ExecResult, FileEntry, FileState, SandboxLimits, Snapshot
from harness.sandboxes.action_cache.entry import CacheEntry, ChangedPath
from harness.sandboxes.client import NEW_DIRECTORY_MODE, NEW_FILE_MODE, WORKSPACE, check_size, truncate_content
from harness.sandboxes.snapshots import compute_ordered_id, compute_tree_id, format_path, join_path, list_children, walk_paths

MAX_FILES = 10_000
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 380
"""Maximum length in bytes of a path in the copy of the workspace, chosen so that the tool server accepts every such path."""
PAGE_BYTES = 4096
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class MirrorMiss(Exception):
    """Raised when the copy of a workspace in memory cannot answer a file operation.

    A real sandbox is then needed.
    """


class Mirror:
    """A copy of the files of a workspace in memory, which answers file operations without a sandbox."""

    def __init__(self, limits: SandboxLimits) -> None:
        self.blobs = TemporaryBlobStore()
        self._limits = limits
        self._files: dict[str, FileState] = {}
        self._children: dict[str, dict[str, None]] = {"": {}}
        self._state_id: str | None = None
        self._snapshot: Snapshot | None = None
        """Snapshot with the same files, if one was adopted and nothing has changed since."""

    @property
    def state_id(self) -> str:
        """SHA-256 (hexadecimal) that identifies the exact state of the workspace.

        It covers the paths, modes and contents of all files, and the order of names in each directory, which commands can see.
        """
        if self._state_id is None:
            self._state_id = compute_ordered_id(self._order_files())
        return self._state_id

    def snapshot(self) -> Snapshot:
        """Return the current files as a snapshot that a real sandbox can restore."""
        files = self._order_files()
        return Snapshot(tree_id=compute_tree_id(files), files=files)

    @property
    def has_room(self) -> bool:
        """Whether a real sandbox certainly has space for the files, because they are far below the disk limit."""
        return self._has_room_for(0, 0)

    def _has_room_for(self, more_files: int, more_bytes: int) -> bool:
        pages = more_files + more_bytes // PAGE_BYTES
        pages += sum(1 + state.size_bytes // PAGE_BYTES for state in self._files.values())
        return len(self._files) + more_files <= MAX_FILES and pages * PAGE_BYTES <= self._limits.disk_bytes // 2

    def read(self, path: str, max_bytes: int | None) -> bytes:
        """Return the content of a file in the workspace, cut to `max_bytes` if given."""
        state = self._files.get(self._resolve_path(path))
        if state is None or not stat.S_ISREG(state.mode):
            raise MirrorMiss
        max_content_bytes = self._limits.file_bytes if max_bytes is None else min(max_bytes, self._limits.file_bytes)
        return truncate_content(self.blobs.get(state.sha256), max_content_bytes, self._limits, path)

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file in the copy of the workspace and create missing parent directories."""
        check_size(content, self._limits, path)
        parts = _split_path(path)
        name = "/".join(parts)
        if not parts or ".." in parts or len(name.encode()) > MAX_PATH_BYTES or not self._has_room_for(len(parts), len(content)):
            raise MirrorMiss
        parents = ["/".join(parts[:end]) for end in range(1, len(parts))]
        if any(parent in self._files and parent not in self._children for parent in parents):
            raise MirrorMiss
        old = self._files.get(name)
        mode = NEW_FILE_MODE if old is None else old.mode
        if not stat.S_ISREG(mode) or not mode & 0o200 or mode & 0o7000:
            raise MirrorMiss
        for parent in parents:
            if parent not in self._files:
                self._put(parent, FileState(sha256=_EMPTY_SHA256, mode=NEW_DIRECTORY_MODE, size_bytes=0))
        self._put(name, self._store_content(mode, content))

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory in the workspace, sorted by name."""
        directory = self._resolve_path(path)
        if directory not in self._children:
            raise MirrorMiss
        entries = [_build_file_entry(name, self._files[join_path(directory, name)]) for name in self._children[directory]]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def apply_entry(self, entry: CacheEntry) -> "Mirror | None":
        """Return a copy of the workspace as it is after a cached command.

        Return None if the changes in the cache entry do not fit the workspace, because the entry is damaged.
        """
        if not (entry.deleted_paths or entry.changed_paths or entry.name_orders):
            return self if entry.state_id == self.state_id else None
        new = self._copy()
        for path in entry.deleted_paths:
            new._files.pop(path, None)
        for change in entry.changed_paths:
            directory = stat.S_ISDIR(change.mode)
            state = FileState(sha256=_EMPTY_SHA256, mode=change.mode, size_bytes=0)
            new._files[change.path] = state if directory else new._store_content(change.mode, change.content)
        new._set_name_orders({**self._children, **entry.name_orders})
        try:
            return new if new.state_id == entry.state_id else None
        except KeyError:  # an order contains a name that does not exist
            return None

    def adopt_snapshot(self, snapshot: Snapshot, result: ExecResult) -> CacheEntry | None:
        """Update this copy of the workspace to a snapshot taken after a command; return the change as a cache entry.

        The result is None if the snapshot contains files that cannot be copied, such as links. The contents of the files must
        already be in `blobs`, which the real sandbox uses, too.
        """
        if snapshot is self._snapshot:
            return CacheEntry(result=result, deleted_paths=(), changed_paths=(), name_orders={}, state_id=self.state_id)
        old, before = self._files, self._children
        changed_states = {path: state for path, state in snapshot.files.items() if old.get(path) != state}
        if not all(_is_plain(state.mode) for state in changed_states.values()):
            return None
        changed = tuple(
            ChangedPath(path=path, mode=state.mode, content=b"" if stat.S_ISDIR(state.mode) else self.blobs.get(state.sha256))
            for path, state in changed_states.items()
        )
        self._files = dict(snapshot.files)
        self._set_name_orders(list_children(snapshot.files))
        self._snapshot = snapshot
        orders = {path: tuple(names) for path, names in self._children.items() if list(before.get(path, ())) != list(names)}
        deleted_paths = tuple([path for path in old if path not in snapshot.files])
        return CacheEntry(
            result=result, deleted_paths=deleted_paths, changed_paths=changed, name_orders=orders, state_id=self.state_id
        )

    def _resolve_path(self, path: str) -> str:
        """Return the path of an existing file relative to the workspace; the workspace itself is `""`.

        Errors for a path that is missing or leads outside are the same as in a real sandbox.
        """
        resolved_parts: list[str] = []
        for part in _split_path(path):
            resolved_path = "/".join(resolved_parts)
            if part == "..":
                if not resolved_parts:
                    raise PathRefused(path)
                if resolved_path not in self._children:
                    raise MirrorMiss
                resolved_parts.pop()
                continue
            if resolved_path not in self._children:
                raise MirrorMiss
            if part not in self._children[resolved_path]:
                raise FileMissing(path)
            resolved_parts.append(part)
        return "/".join(resolved_parts)

    def _order_files(self) -> dict[str, FileState]:
        return {path: self._files[path] for path in walk_paths(self._children)}

    def _store_content(self, mode: int, content: bytes) -> FileState:
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs.put(sha256, content)
        return FileState(sha256=sha256, mode=mode, size_bytes=len(content))

    def _put(self, path: str, state: FileState) -> None:
        directory, _, name = path.rpartition("/")
        self._files[path] = state
        self._children[directory][name] = None
        if stat.S_ISDIR(state.mode):
            self._children.setdefault(path, {})
        self._state_id = self._snapshot = None

    def _set_name_orders(self, names: Mapping[str, Iterable[str]]) -> None:
        directories = ["", *(path for path, state in self._files.items() if stat.S_ISDIR(state.mode))]
        self._children = {path: dict.fromkeys(names.get(path, ())) for path in directories}
        self._state_id = self._snapshot = None

    def _copy(self) -> "Mirror":
        new = Mirror(self._limits)
        new.blobs, new._files = self.blobs, dict(self._files)
        return new


def _build_file_entry(name: str, state: FileState) -> FileEntry:
    is_directory = stat.S_ISDIR(state.mode)
    return FileEntry(name=format_path(name), kind="directory" if is_directory else "file", size_bytes=state.size_bytes)


def _split_path(path: str) -> list[str]:
    """Split a path by the same rules as the tool server."""
    original_path = path
    if path == WORKSPACE or path.startswith(WORKSPACE + "/"):
        path = path[len(WORKSPACE) :].lstrip("/")
    if path.startswith("/"):
        raise PathRefused(original_path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(not _is_plain_name(part) for part in parts):
        raise MirrorMiss
    return parts


def _is_plain_name(name: str) -> bool:
    try:
        return "\0" not in name and len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _is_plain(mode: int) -> bool:
    """Return whether a file or directory with this mode can be copied."""
    if mode & 0o7000:  # writing may clear special bits such as setuid, and new files may inherit them
        return False
    return mode & 0o700 == 0o700 if stat.S_ISDIR(mode) else stat.S_ISREG(mode) and bool(mode & 0o400)
