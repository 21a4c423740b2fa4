"""A workspace kept in this process: enough of it to answer for files, and to say exactly which state it is in.

It holds plain files and directories that their owner can open, and nothing else: links and special files cannot be mirrored.
Whatever it does not know for certain how a real sandbox would answer it refuses with `Unsure`, and a real one is asked.
"""

import hashlib
import stat
from collections.abc import Iterable, Iterator, Mapping

from harness.errors import FileMissing, PathRefused
from harness.protocols import ExecResult, FileEntry, FileState, SandboxLimits, Snapshot
from harness.sandboxes.action_cache.entry import Change, Entry
from harness.sandboxes.client import NEW_DIRECTORY, NEW_FILE, WORKSPACE, beginning, check_size
from harness.sandboxes.snapshots import MemoryBlobs, children, shown, tree_id

MOST_FILES = 10_000
MOST_NAME_BYTES = 255
MOST_PATH_BYTES = 380
"""Short enough for every depth that the tool server takes."""
PAGE_BYTES = 4096
_EMPTY = hashlib.sha256(b"").hexdigest()


class Unsure(Exception):
    """Only a real sandbox can answer this."""


class Mirror:
    """The files of a workspace, by path, with their contents in `blobs`."""

    def __init__(self, limits: SandboxLimits) -> None:
        self.blobs = MemoryBlobs()
        self._limits = limits
        self._files: dict[str, FileState] = {}
        self._below: dict[str, dict[str, None]] = {"": {}}
        self._state_id: str | None = None

    @property
    def state_id(self) -> str:
        """SHA-256 (hex) over paths, modes and contents, and over the order of names in each directory.

        That order is part of what a command can see: `grep -r` prints in it.
        """
        if self._state_id is None:
            digest = hashlib.sha256()
            for path, state in self._walk():
                digest.update(f"{state.mode:o} {state.sha256} ".encode() + _encoded(path) + b"\0")
            self._state_id = digest.hexdigest()
        return self._state_id

    def snapshot(self) -> Snapshot:
        """The state as a value that a real sandbox can be brought to."""
        files = dict(self._walk())
        return Snapshot(tree_id=tree_id(files), files=files)

    @property
    def fits(self) -> bool:
        """Whether there is so much room left that no limit of a real sandbox's disk can matter."""
        pages = sum(1 + state.size_bytes // PAGE_BYTES for state in self._files.values())
        return len(self._files) <= MOST_FILES and pages * PAGE_BYTES <= self._limits.disk_bytes // 2

    def read(self, path: str, max_bytes: int | None) -> bytes:
        """As `Sandbox.read`."""
        state = self._files.get(self._found(path))
        if state is None or not stat.S_ISREG(state.mode):
            raise Unsure
        most = self._limits.file_bytes if max_bytes is None else min(max_bytes, self._limits.file_bytes)
        return beginning(self.blobs.get(state.sha256), most, self._limits, path)

    def write(self, path: str, content: bytes) -> None:
        """As `Sandbox.write`."""
        check_size(content, self._limits, path)
        parts = _parts(path)
        name = "/".join(parts)
        if not parts or ".." in parts or len(name.encode()) > MOST_PATH_BYTES:
            raise Unsure
        parents = ["/".join(parts[:end]) for end in range(1, len(parts))]
        if any(parent in self._files and parent not in self._below for parent in parents):
            raise Unsure
        old = self._files.get(name)
        mode = NEW_FILE if old is None else old.mode
        if not stat.S_ISREG(mode) or not mode & 0o200 or mode & 0o7000:
            raise Unsure
        for parent in parents:
            if parent not in self._files:
                self._put(parent, FileState(sha256=_EMPTY, mode=NEW_DIRECTORY, size_bytes=0))
        self._put(name, self._keep(mode, content))

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """As `Sandbox.list`."""
        directory = self._found(path)
        if directory not in self._below:
            raise Unsure
        entries = (self._entry(directory, name) for name in self._below[directory])
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def after(self, entry: Entry) -> "Mirror | None":
        """The mirror as that action leaves it; None if it does not fit this state, which a damaged entry would not."""
        if not (entry.deleted or entry.changed or entry.orders):
            return self if entry.state_id == self.state_id else None
        new = self._copy()
        for path in entry.deleted:
            new._files.pop(path, None)
        for change in entry.changed:
            directory = stat.S_ISDIR(change.mode)
            state = FileState(sha256=_EMPTY, mode=change.mode, size_bytes=0)
            new._files[change.path] = state if directory else new._keep(change.mode, change.content)
        new._arrange({**self._below, **entry.orders})
        try:
            return new if new.state_id == entry.state_id else None
        except KeyError:  # an order names what is not there
            return None

    def become(self, snapshot: Snapshot, result: ExecResult) -> Entry | None:
        """Take over what a command left, and return it as an entry; None if it cannot be mirrored.

        Its contents are in `blobs` already: the real sandbox keeps them there.
        """
        if not all(_is_plain(state.mode) for state in snapshot.files.values()):
            return None
        old, before = self._files, self._below
        changed = tuple(
            Change(path=path, mode=state.mode, content=b"" if stat.S_ISDIR(state.mode) else self.blobs.get(state.sha256))
            for path, state in snapshot.files.items()
            if old.get(path) != state
        )
        self._files = dict(snapshot.files)
        self._arrange(children(snapshot.files))
        orders = {path: tuple(names) for path, names in self._below.items() if tuple(before.get(path, ())) != tuple(names)}
        gone = tuple(path for path in old if path not in snapshot.files)
        return Entry(result=result, deleted=gone, changed=changed, orders=orders, state_id=self.state_id)

    def _found(self, path: str) -> str:
        """The path from the workspace, `""` for itself; what leads there is there. Raises as a real sandbox would."""
        at: list[str] = []
        for part in _parts(path):
            here = "/".join(at)
            if part == "..":
                if not at:
                    raise PathRefused(path)
                at.pop()
                continue
            if here not in self._below:
                raise Unsure
            if part not in self._below[here]:
                raise FileMissing(path)
            at.append(part)
        return "/".join(at)

    def _entry(self, directory: str, name: str) -> FileEntry:
        state = self._files[f"{directory}/{name}" if directory else name]
        if stat.S_ISDIR(state.mode):
            return FileEntry(name=shown(name), kind="directory", size_bytes=0)
        return FileEntry(name=shown(name), kind="file", size_bytes=state.size_bytes)

    def _walk(self) -> Iterator[tuple[str, FileState]]:
        todo = [""]
        while todo:
            path = todo.pop()
            if path:
                yield path, self._files[path]
            if path in self._below:
                todo += [f"{path}/{name}" if path else name for name in reversed(self._below[path])]

    def _keep(self, mode: int, content: bytes) -> FileState:
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs.put(sha256, content)
        return FileState(sha256=sha256, mode=mode, size_bytes=len(content))

    def _put(self, path: str, state: FileState) -> None:
        directory, _, name = path.rpartition("/")
        self._files[path] = state
        self._below[directory][name] = None
        if stat.S_ISDIR(state.mode):
            self._below.setdefault(path, {})
        self._state_id = None

    def _arrange(self, names: Mapping[str, Iterable[str]]) -> None:
        directories = ["", *(path for path, state in self._files.items() if stat.S_ISDIR(state.mode))]
        self._below = {path: dict.fromkeys(names.get(path, ())) for path in directories}
        self._state_id = None

    def _copy(self) -> "Mirror":
        new = Mirror(self._limits)
        new.blobs, new._files = self.blobs, dict(self._files)
        return new


def _parts(path: str) -> list[str]:
    """The components of a path as the tool server takes it."""
    given = path
    if path == WORKSPACE or path.startswith(WORKSPACE + "/"):
        path = path[len(WORKSPACE) :].lstrip("/")
    if path.startswith("/"):
        raise PathRefused(given)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(not _is_plain_name(part) for part in parts):
        raise Unsure
    return parts


def _is_plain_name(name: str) -> bool:
    try:
        return "\0" not in name and len(name.encode()) <= MOST_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _is_plain(mode: int) -> bool:
    """A file or directory that its owner can open, without special bits, which writing may clear or new files inherit."""
    if mode & 0o7000:
        return False
    return mode & 0o700 == 0o700 if stat.S_ISDIR(mode) else stat.S_ISREG(mode) and bool(mode & 0o400)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
