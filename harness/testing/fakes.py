"""A model that says what it was told to say, and fails loudly when it has nothing left."""

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Mapping

from harness import protocols
from harness.errors import FileMissing, ModelError, PathRefused
from harness.events import TextDelta
from harness.messages import Message
from harness.sandboxes.snapshots import MemoryBlobStore, diff_snapshots
from harness.tokens import Measured, QuarterOfCharacters, Usage, Window


class FakeModel:
    """Gives prepared replies in order, raising the errors among them; keeps the requests that it got in `requests`."""

    def __init__(self, replies: Iterable[Message | ModelError], *, name: str = "puppet", window_tokens: int = 128_000) -> None:
        """Prepare the replies."""
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self.requests: list[protocols.Request] = []
        self._replies = iter(replies)

    def reply(self, request: protocols.Request, listen: Callable[[TextDelta], None] = protocols.ignore) -> protocols.Reply:
        """The next prepared reply.

        Raises:
            AssertionError: no reply is left.
        """
        self.requests.append(request)
        prepared = next(self._replies, None)
        if prepared is None:
            raise AssertionError(f"{self.name!r} was asked {len(self.requests)} times and has no reply left")
        if isinstance(prepared, ModelError):
            raise prepared
        for line in prepared.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        counter = QuarterOfCharacters()
        usage = Usage(
            input_tokens=Measured(sum(counter.count(message) for message in request.messages)),
            output_tokens=Measured(counter.count(prepared)),
        )
        return protocols.Reply(message=prepared, usage=usage, seconds=0.0)


def succeed(_: str) -> protocols.ExecResult:
    """Every command ends well and prints nothing."""
    return protocols.ExecResult(exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)


class MemorySandbox:
    """Keeps the protocol of `harness.protocols.Sandbox`, except that a command is whatever `answer` says."""

    def __init__(self, answer: Callable[[str], protocols.ExecResult] = succeed) -> None:
        """Start with an empty workspace."""
        self.info = protocols.SandboxInfo(
            backend="memory", image=None, isolation=(), limits=protocols.SandboxLimits(), enforced=()
        )
        self._answer = answer
        self._files: dict[str, bytes] = {}
        self._blobs = MemoryBlobStore()

    def start(self) -> None:
        """Nothing to bring up."""

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> protocols.ExecResult:
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

    def list(self, path: str) -> tuple[protocols.FileEntry, ...]:
        """The entries of a directory by name."""
        folder = _normalize_path(path)
        prefix = "" if folder == "." else folder + "/"
        below = [name.removeprefix(prefix) for name in self._files if name.startswith(prefix)]
        if not below and folder != ".":
            raise FileMissing(path)
        found: dict[str, protocols.FileEntry] = {}
        for name in below:
            first, inner, _ = name.partition("/")
            size = 0 if inner else len(self._files[prefix + name])
            found[first] = protocols.FileEntry(name=first, kind="directory" if inner else "file", size_bytes=size)
        return tuple(found[name] for name in sorted(found))

    def snapshot(self) -> protocols.Snapshot:
        """The state of the workspace now."""
        files = {}
        for name, content in sorted(self._files.items()):
            digest = hashlib.sha256(content).hexdigest()
            self._blobs.put(digest, content)
            files[name] = protocols.FileState(sha256=digest, mode=0o644, size_bytes=len(content))
        return protocols.Snapshot(tree_id=hashlib.sha256(repr(files).encode()).hexdigest(), files=files)

    def diff(self, older: protocols.Snapshot, newer: protocols.Snapshot) -> tuple[protocols.FileChange, ...]:
        """Return what changed, by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: protocols.Snapshot) -> None:
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
