"""Storage of workspace snapshots that outlive their sandbox: lists of files (trees), and the contents of the files by hash.

The snapshots are stored, compressed, in the journal. All sessions of the journal share them, so a fork of a session stores only
changed files. File contents from a sandbox are buffered until the list of files is saved, so each step takes one transaction.
"""

import json
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import zstandard

from harness.errors import SandboxError, StoreError
from harness.files.blobs import TemporaryBlobStore
from harness.protocols import BlobStore, FileState, SandboxLimits, Snapshot
from harness.store.database import Database
from harness.store.journal import Journal
from harness.store.texts import check_unpacked_size, find_hashes

_LEVEL = 3
MAX_BUFFERED_BYTES = 32 * 2**20
"""Number of buffered bytes of file contents above which they are written to the journal without waiting for the snapshot."""
MAX_CONTENT_BYTES = SandboxLimits().disk_bytes
"""Maximum size in bytes of a stored file that is unpacked; by default a workspace holds no larger file."""
MAX_TREE_BYTES = 160 * 2**20
"""Maximum size of a stored list of the files of a workspace, in bytes."""


class Workspaces(BlobStore, Protocol):
    """Store for snapshots of workspaces (the agent's files) and the contents of the files. Thread-safe."""

    def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot of a workspace, whose file contents were passed to `put` before.

        Storing it again has no effect.

        Raises:
            StoreError: The snapshot could not be stored.
        """
        ...

    def load(self, tree_id: str) -> Snapshot:
        """Return the workspace snapshot with a given id.

        Raises:
            StoreError: No snapshot with this id is stored.
        """
        ...


class MemoryWorkspaces:
    """Store in memory for snapshots of workspaces and the contents of their files."""

    def __init__(self) -> None:
        self._contents = TemporaryBlobStore()
        self._snapshots: dict[str, Snapshot] = {}

    def put(self, sha256: str, content: bytes) -> None:
        """Store the content of a file under its SHA-256 hash until the process ends."""
        self._contents.put(sha256, content)

    def get(self, sha256: str) -> bytes:
        """Return the content of the file with a SHA-256 hash."""
        return self._contents.get(sha256)

    def save(self, snapshot: Snapshot) -> None:
        """Store in memory a snapshot of a workspace whose file contents were passed to `put` before."""
        self._snapshots[snapshot.tree_id] = snapshot

    def load(self, tree_id: str) -> Snapshot:
        """Return the workspace snapshot with a given id."""
        if tree_id not in self._snapshots:
            raise StoreError(f"no workspace {tree_id} is stored in memory; use a journal to keep workspaces beyond the process")
        return self._snapshots[tree_id]


class JournalWorkspaces:
    """Store for workspace snapshots in a journal file. The store opens the file; its creator closes the store."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the journal file that holds the snapshots.

        Args:
            path: Path of the journal file.
            read_only: Whether to open the file for reading only; then no file is created or changed.

        Raises:
            StoreError: The file cannot be written or is no journal.
        """
        self._journal = Journal.open(path, read_only=read_only)
        self._database = self._journal.database
        self._new: dict[str, bytes] = {}
        self._new_bytes = 0
        self._lock = threading.Lock()

    def put(self, sha256: str, content: bytes) -> None:
        """Buffer the content of a file under its SHA-256 hash; `save` or a full buffer writes it to the journal."""
        with self._lock:
            self._new_bytes += 0 if sha256 in self._new else len(content)
            self._new[sha256] = content
            if self._new_bytes > MAX_BUFFERED_BYTES:
                with self._database.transaction():
                    self._write_contents()
                self._forget_contents()

    def get(self, sha256: str) -> bytes:
        """Return the content of the file with a SHA-256 hash, whether it is in the journal or not written yet."""
        with self._lock:
            if sha256 in self._new:
                return self._new[sha256]
            data = self._fetch_data("SELECT data FROM blob WHERE sha256 = ?", sha256)
        if data is None:
            raise SandboxError(f"no file content with hash {sha256} in journal {str(self._journal.path)!r}")
        check_unpacked_size(
            data, MAX_CONTENT_BYTES, f"the file content with hash {sha256} in journal {str(self._journal.path)!r}"
        )
        return zstandard.ZstdDecompressor().decompress(data)

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot of a workspace to the journal, with the file contents that `put` has buffered."""
        pack = zstandard.ZstdCompressor(level=_LEVEL).compress
        files = {path: (state.mode, state.sha256, state.size_bytes) for path, state in snapshot.files.items()}
        tree = pack(json.dumps(files, separators=(",", ":")).encode())
        with self._lock:
            with self._database.transaction():
                self._write_contents()
                self._database.execute("INSERT OR IGNORE INTO tree VALUES (?, ?)", (snapshot.tree_id, tree))
            self._forget_contents()

    def _write_contents(self) -> None:
        pack = zstandard.ZstdCompressor(level=_LEVEL).compress
        blobs = ((sha256, len(content), pack(content)) for sha256, content in self._new.items())
        self._database.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?, ?)", blobs)

    def _forget_contents(self) -> None:
        self._new.clear()
        self._new_bytes = 0

    def load(self, tree_id: str) -> Snapshot:
        """Return the workspace snapshot with a given id."""
        with self._lock:
            data = self._fetch_data("SELECT data FROM tree WHERE tree_id = ?", tree_id)
        if data is None:
            raise StoreError(
                f"journal {str(self._journal.path)!r} has no workspace {tree_id}; it was deleted or never merged into the file"
            )
        check_unpacked_size(data, MAX_TREE_BYTES, f"workspace {tree_id} in journal {str(self._journal.path)!r}")
        files_by_path: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(data))
        files = {
            path: FileState(mode=mode, sha256=sha256, size_bytes=size) for path, (mode, sha256, size) in files_by_path.items()
        }
        return Snapshot(tree_id=tree_id, files=files)

    def has_workspace(self, tree_id: str) -> bool:
        """Return whether a workspace snapshot with a given id is stored in the journal."""
        with self._lock:
            return self._fetch_data("SELECT data FROM tree WHERE tree_id = ?", tree_id) is not None

    def close(self) -> None:
        """Close the journal that holds the snapshots; closing again has no effect."""
        with self._lock:
            self._journal.close()

    def _fetch_data(self, sql: str, name: str) -> bytes | None:
        rows = self._database.fetch(sql, name)
        return bytes(rows[0][0]) if rows else None


def copy_workspaces(trees: Iterable[str], source: Workspaces, target: Workspaces) -> None:
    """Copy snapshots of workspaces, with the contents of their files, from one store to another.

    Args:
        trees: Ids of the snapshots to copy.
        source: Store to copy from.
        target: Store to copy to.

    Raises:
        StoreError: A snapshot is not in the source, or the target cannot be written.
        SandboxError: The content of a file is not in the source.
    """
    for tree_id in trees:
        snapshot = source.load(tree_id)
        copy_contents(snapshot, source, target)
        target.save(snapshot)


def copy_contents(snapshot: Snapshot, source: BlobStore, target: BlobStore) -> None:
    """Copy the contents of all files of a workspace from one store to another.

    Raises:
        SandboxError: The content of a file is not in the source.
    """
    for sha256 in {state.sha256 for state in snapshot.files.values() if not stat.S_ISDIR(state.mode)}:
        target.put(sha256, source.get(sha256))


def find_file_hashes(database: Database, trees: Iterable[str], *, schema: str = "main") -> set[str]:
    """Return the SHA-256 hashes of all files in stored snapshots of workspaces.

    Args:
        database: Connection to the journal that holds the snapshots.
        trees: Ids of the snapshots; unknown ids are ignored.
        schema: Name of the SQLite database: `main` or the name of an attached database.
    """
    file_hashes: set[str] = set()
    for tree in trees:
        for (data,) in database.execute(f"SELECT data FROM {schema}.tree WHERE tree_id = ?", (tree,)):
            file_hashes.update(find_hashes(database.packer.unpack(data)))
    return file_hashes
