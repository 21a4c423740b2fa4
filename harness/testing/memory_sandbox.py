"""A sandbox without a process: files in a dict, commands answered by a function. For tests and overhead measurements only."""

import hashlib
import posixpath
from collections.abc import Callable, Mapping

from harness.errors import FileMissing, PathRefused
from harness.protocols import ExecResult, FileChange, FileEntry, FileState, SandboxInfo, SandboxLimits, Snapshot
from harness.sandboxes.snapshots import MemoryBlobStore, diff_snapshots


def succeed(_: str) -> ExecResult:
    """Every command ends well and prints nothing."""
    return ExecResult(exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)


class MemorySandbox:
    """Keeps the protocol of `harness.protocols.Sandbox`, except that a command is whatever `answer` says."""

    def __init__(self, answer: Callable[[str], ExecResult] = succeed) -> None:
        """Start with an empty workspace."""
        self.info = SandboxInfo(backend="memory", image=None, isolation=(), limits=SandboxLimits(), enforced=())
        self._answer = answer
        self._files: dict[str, bytes] = {}
        self._blobs = MemoryBlobStore()

    def start(self) -> None:
        """Nothing to bring up."""

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """What the answering function says."""
        return self._answer(command)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The content of a file."""
        name = _normalize_path(path)
        if name not in self._files:
            raise FileMissing(path)
        return self._files[name][:max_bytes]

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file."""
        self._files[_normalize_path(path)] = content

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """The entries of a directory by name."""
        folder = _normalize_path(path)
        prefix = "" if folder == "." else folder + "/"
        below = [name.removeprefix(prefix) for name in self._files if name.startswith(prefix)]
        if not below and folder != ".":
            raise FileMissing(path)
        found: dict[str, FileEntry] = {}
        for name in below:
            first, inner, _ = name.partition("/")
            size = 0 if inner else len(self._files[prefix + name])
            found[first] = FileEntry(name=first, kind="directory" if inner else "file", size_bytes=size)
        return tuple(found[name] for name in sorted(found))

    def snapshot(self) -> Snapshot:
        """The state of the workspace now."""
        files = {}
        for name, content in sorted(self._files.items()):
            digest = hashlib.sha256(content).hexdigest()
            self._blobs.put(digest, content)
            files[name] = FileState(sha256=digest, mode=0o644, size_bytes=len(content))
        return Snapshot(tree_id=hashlib.sha256(repr(files).encode()).hexdigest(), files=files)

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return what changed, by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the workspace back to a snapshot."""
        self._files = {path: self._blobs.get(state.sha256) for path, state in snapshot.files.items()}

    def lay(self, files: Mapping[str, bytes]) -> None:
        """Put files in place of whatever stands where they belong."""
        own = {path.partition("/")[0] for path in files}
        self._files = {path: content for path, content in self._files.items() if path.partition("/")[0] not in own}
        for path, content in files.items():
            self.write(path, content)

    def close(self) -> None:
        """Nothing to remove."""


def _normalize_path(path: str) -> str:
    name = posixpath.normpath(path.removeprefix("/workspace/") if path != "/workspace" else ".")
    if name.startswith(("/", "..")):
        raise PathRefused(path)
    return name
