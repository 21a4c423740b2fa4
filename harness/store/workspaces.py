"""Workspaces that outlive their sandbox: the contents of files by address, and the trees that name them.

They stand in the journal beside the sessions, packed, and are shared by all of them: a fork stores only what it changes. What
a sandbox puts in is held back until a tree is saved, so a step costs one transaction.
"""

import json
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import zstandard

from harness.errors import SandboxError, StoreError
from harness.protocols import BlobStore, FileState, Snapshot
from harness.store.database import Database
from harness.store.journal import Journal
from harness.store.texts import find_hashes

_LEVEL = 3


class Workspaces(BlobStore, Protocol):
    """Store of snapshots of workspaces, beside the contents of their files. Thread-safe."""

    def save(self, snapshot: Snapshot) -> None:
        """Keep a state whose contents were put before; idempotent.

        Raises:
            StoreError: nothing was kept.
        """
        ...

    def load(self, tree_id: str) -> Snapshot:
        """The state of that name.

        Raises:
            StoreError: it was not kept here.
        """
        ...


class MemoryWorkspaces:
    """As long as the object lives."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._contents: dict[str, bytes] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def put(self, sha256: str, content: bytes) -> None:
        """See `harness.protocols.BlobStore`."""
        self._contents.setdefault(sha256, content)

    def get(self, sha256: str) -> bytes:
        """See `Workspaces`."""
        if sha256 not in self._contents:
            raise SandboxError(f"no content {sha256} was kept")
        return self._contents[sha256]

    def save(self, snapshot: Snapshot) -> None:
        """See `Workspaces`."""
        self._snapshots[snapshot.tree_id] = snapshot

    def load(self, tree_id: str) -> Snapshot:
        """See `Workspaces`."""
        if tree_id not in self._snapshots:
            raise StoreError(f"no workspace {tree_id} was kept in memory; name a journal to keep it beyond the process")
        return self._snapshots[tree_id]


class JournalWorkspaces:
    """In a journal file, by a connection of their own. The opener closes it."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file.

        Args:
            path: of the journal.
            read_only: nothing is made or changed.

        Raises:
            StoreError: it cannot be written, or is no journal.
        """
        self._journal = Journal.open(path, read_only=read_only)
        self._database = self._journal.database
        self._new: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, sha256: str, content: bytes) -> None:
        """See `Workspaces`."""
        with self._lock:
            self._new[sha256] = content

    def get(self, sha256: str) -> bytes:
        """See `Workspaces`."""
        with self._lock:
            if sha256 in self._new:
                return self._new[sha256]
            data = self._fetch_data("SELECT data FROM blob WHERE sha256 = ?", sha256)
        if data is None:
            raise SandboxError(f"no content {sha256} in journal {str(self._journal.path)!r}")
        return zstandard.ZstdDecompressor().decompress(data)

    def save(self, snapshot: Snapshot) -> None:
        """See `Workspaces`."""
        pack = zstandard.ZstdCompressor(level=_LEVEL).compress
        files = {path: (state.mode, state.sha256, state.size_bytes) for path, state in snapshot.files.items()}
        tree = pack(json.dumps(files, separators=(",", ":")).encode())
        with self._lock:
            blobs = [(sha256, len(content), pack(content)) for sha256, content in self._new.items()]
            with self._database.transaction():
                self._database.executemany("INSERT OR IGNORE INTO blob VALUES (?, ?, ?)", blobs)
                self._database.execute("INSERT OR IGNORE INTO tree VALUES (?, ?)", (snapshot.tree_id, tree))
            self._new.clear()

    def load(self, tree_id: str) -> Snapshot:
        """See `Workspaces`."""
        with self._lock:
            data = self._fetch_data("SELECT data FROM tree WHERE tree_id = ?", tree_id)
        if data is None:
            raise StoreError(
                f"journal {str(self._journal.path)!r} keeps no workspace {tree_id}; it was removed, or never merged in"
            )
        files_by_path: dict[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(data))
        files = {
            path: FileState(mode=mode, sha256=sha256, size_bytes=size) for path, (mode, sha256, size) in files_by_path.items()
        }
        return Snapshot(tree_id=tree_id, files=files)

    def has_workspace(self, tree_id: str) -> bool:
        """Whether the state of that name is kept here."""
        with self._lock:
            return self._fetch_data("SELECT data FROM tree WHERE tree_id = ?", tree_id) is not None

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._journal.close()

    def _fetch_data(self, sql: str, name: str) -> bytes | None:
        rows = self._database.fetch(sql, name)
        return bytes(rows[0][0]) if rows else None


def copy_workspaces(trees: Iterable[str], source: Workspaces, target: Workspaces) -> None:
    """Bring states from one place to another.

    Raises:
        StoreError: one was not kept, or nothing could be written.
        SandboxError: a content is missing.
    """
    for tree_id in trees:
        snapshot = source.load(tree_id)
        for sha256 in {state.sha256 for state in snapshot.files.values() if not stat.S_ISDIR(state.mode)}:
            target.put(sha256, source.get(sha256))
        target.save(snapshot)


def find_file_hashes(database: Database, trees: Iterable[str], *, schema: str = "main") -> set[str]:
    """Return the hashes of the files of kept workspaces.

    Args:
        database: that holds the workspaces.
        trees: their hashes; what is no workspace is left out.
        schema: `main`, or the name of an attached database.
    """
    file_hashes: set[str] = set()
    for tree in trees:
        for (data,) in database.execute(f"SELECT data FROM {schema}.tree WHERE tree_id = ?", (tree,)):
            file_hashes.update(find_hashes(database.packer.unpack(data)))
    return file_hashes
