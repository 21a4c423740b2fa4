"""Store for file contents of workspace snapshots, by hash, until the process ends: in memory or in an unnamed temporary file."""

import os
import tempfile
import threading
import weakref

from harness.errors import SandboxError

MAX_MEMORY_BYTES = 32 * 2**20
"""Maximum number of bytes of contents that one store keeps in memory."""
MAX_FILE_BYTES = 16 * 2**30
"""Maximum size of the temporary file of one store in bytes."""


class TemporaryBlobStore:
    """Store for file contents by hash, until the process ends. Thread-safe.

    Contents beyond `MAX_MEMORY_BYTES` are kept in a temporary file, which disappears with the store.
    """

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._memory_bytes = self._file_bytes = 0
        self._fd: int | None = None
        self._lock = threading.Lock()

    def put(self, sha256: str, content: bytes) -> None:
        """Store the content of a file under its SHA-256 hash; storing it again has no effect.

        Raises:
            SandboxError: The disk is full, or the contents exceed `MAX_FILE_BYTES`.
        """
        with self._lock:
            if sha256 in self._contents or sha256 in self._places:
                return
            if self._memory_bytes + len(content) <= MAX_MEMORY_BYTES:
                self._contents[sha256] = content
                self._memory_bytes += len(content)
                return
            if self._file_bytes + len(content) > MAX_FILE_BYTES:
                raise SandboxError(f"the files of all snapshots have more than {MAX_FILE_BYTES:,} bytes")
            try:
                self._write(content)
            except OSError as error:
                raise SandboxError(f"cannot keep a snapshot in {tempfile.gettempdir()!r}: {error.strerror}") from None
            self._places[sha256] = (self._file_bytes, len(content))
            self._file_bytes += len(content)

    def _write(self, content: bytes) -> None:
        if self._fd is None:
            with tempfile.TemporaryFile() as file:
                self._fd = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._fd)
        view, offset = memoryview(content), self._file_bytes
        while view:
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def get(self, sha256: str) -> bytes:
        """Return the file content that was stored under a SHA-256 hash.

        Raises:
            SandboxError: No content was stored under this hash.
        """
        with self._lock:
            if sha256 in self._contents:
                return self._contents[sha256]
            if sha256 not in self._places or self._fd is None:
                raise SandboxError(f"no file content with hash {sha256} in this store; the snapshot belongs to another store")
            offset, size = self._places[sha256]
            content = bytearray()
            while len(content) < size:
                piece = os.pread(self._fd, min(size - len(content), 2**26), offset + len(content))
                if not piece:
                    raise SandboxError(f"the temporary file of the blob store ends before content {sha256}")
                content += piece
            return bytes(content)
