"""Fakes for tests and overhead measurements: a model with prepared replies, a tool with prepared results, a sandbox in memory."""

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from harness import protocols
from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, ToolCall, ToolResult
from harness.conversation.tokens import Measured, QuarterOfCharacters, Usage, Window
from harness.errors import FileMissing, ModelError, PathRefused
from harness.files.blobs import TemporaryBlobStore
from harness.sandboxes.snapshots import diff_snapshots


class FakeModel:
    """Model for tests that returns prepared replies in order and keeps the requests it received in `requests`.

    An error among the prepared replies is raised instead of returned. When no reply is left, the model raises AssertionError, so
    that a test fails if it calls the model too often.

    Args:
        replies: Messages that the model returns and errors that it raises, in order.
        name: Name that the model reports. Default: `"puppet"`.
        window_tokens: Context window in tokens; the model does not enforce the window. Default: `128_000`.

    Example:
        >>> from harness.conversation.messages import assistant, user
        >>> from harness.protocols import Request
        >>> from harness.testing import FakeModel
        >>> model = FakeModel([assistant("Done.")])
        >>> model.reply(Request(messages=(user("Build it."),))).message.text
        'Done.'
    """

    def __init__(self, replies: Iterable[Message | ModelError], *, name: str = "puppet", window_tokens: int = 128_000) -> None:
        """Prepare the replies that the model will return."""
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self.requests: list[protocols.Request] = []
        self._replies = iter(replies)

    def reply(self, request: protocols.Request, listen: Callable[[TextDelta], None] = protocols.ignore) -> protocols.Reply:
        """Return the next prepared reply, with token counts that assume four characters for each token.

        Raises:
            ModelError: The next prepared reply is an error.
            AssertionError: No reply is left.
        """
        self.requests.append(request)
        next_reply = next(self._replies, None)
        if next_reply is None:
            raise AssertionError(f"{self.name!r} was called {len(self.requests)} times and has no reply left")
        if isinstance(next_reply, ModelError):
            raise next_reply
        for line in next_reply.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        count = QuarterOfCharacters().count
        input_tokens = Measured(sum(map(count, request.messages)))
        usage = Usage(input_tokens=input_tokens, output_tokens=Measured(count(next_reply)))
        return protocols.Reply(message=next_reply, usage=usage, seconds=0.0)


@dataclass(frozen=True, slots=True)
class FakeTool:
    """Tool for tests that returns a prepared result for each tool call, chosen by the id of the call.

    Attributes:
        name: Name of the tool, as used in tool calls. Required.
        outputs: Prepared result of each tool call, by call id. Required.

    Example:
        >>> from harness.conversation.messages import ToolCall, ToolResult
        >>> from harness.testing import FakeTool
        >>> result = ToolResult(call_id="c1", name="read_file", output="port = 8080", status="completed")
        >>> tool = FakeTool(name="read_file", outputs={"c1": result})
        >>> tool.run(ToolCall(call_id="c1", name="read_file", arguments_json='{"path": "app.py"}')).output
        'port = 8080'
    """

    name: str
    outputs: Mapping[str, ToolResult]

    @property
    def spec(self) -> protocols.ToolSpec:
        """Description of this tool as a model receives it, with the tool's name and no parameters."""
        return protocols.ToolSpec(name=self.name, description="", parameters_json="{}")

    def run(self, call: ToolCall) -> ToolResult:
        """Return the result that was prepared for the id of this tool call."""
        return self.outputs[call.call_id]


def succeed(_: str) -> protocols.ExecResult:
    """Return the result of a command that exits with code 0 and prints nothing, whatever the command is."""
    return protocols.ExecResult(exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)


class MemorySandbox:
    """Sandbox for tests without a process: files are kept in memory, and a function answers commands.

    The class implements `harness.protocols.Sandbox`, except that commands neither read nor change the files.

    Args:
        answer: Function from a command to its result. Default: every command succeeds and prints nothing.

    Example:
        >>> from harness.testing import MemorySandbox
        >>> sandbox = MemorySandbox()
        >>> before = sandbox.snapshot()
        >>> sandbox.write("app.py", b"PORT = 8080")
        >>> [change.path for change in sandbox.diff(before, sandbox.snapshot())]
        ['app.py']
    """

    def __init__(self, answer: Callable[[str], protocols.ExecResult] = succeed) -> None:
        """Create the sandbox with an empty workspace in memory."""
        limits = protocols.SandboxLimits()
        self.info = protocols.SandboxInfo(backend="memory", image=None, isolation=(), limits=limits, enforced=())
        self._answer = answer
        self._files: dict[str, bytes] = {}
        self._blobs = TemporaryBlobStore()

    def start(self) -> None:
        """Do nothing, because an in-memory sandbox has no process to start."""

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> protocols.ExecResult:
        """Return the result that the function `answer` gives for a command; the time limit is ignored."""
        return self._answer(command)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file in memory, or its first `max_bytes` bytes."""
        name = _normalize_path(path)
        if name not in self._files:
            raise FileMissing(path)
        return self._files[name][:max_bytes]

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file in memory."""
        self._files[_normalize_path(path)] = content

    def list(self, path: str) -> tuple[protocols.FileEntry, ...]:
        """Return the files and directories in a directory of the workspace, sorted by name."""
        folder = _normalize_path(path)
        prefix = "" if folder == "." else folder + "/"
        below = [name.removeprefix(prefix) for name in self._files if name.startswith(prefix)]
        if not below and folder != ".":
            raise FileMissing(path)
        entries: dict[str, protocols.FileEntry] = {}
        for name in below:
            first, inner, _ = name.partition("/")
            size = 0 if inner else len(self._files[prefix + name])
            entries[first] = protocols.FileEntry(name=first, kind="directory" if inner else "file", size_bytes=size)
        return tuple(entries[name] for name in sorted(entries))

    def allow_parallel_calls(self) -> AbstractContextManager[None]:
        """Return a context that does nothing, because calls of several threads may run at the same time anyway."""
        return nullcontext()

    def snapshot(self) -> protocols.Snapshot:
        """Return a snapshot of the files in memory."""
        files = {}
        for name, content in sorted(self._files.items()):
            digest = hashlib.sha256(content).hexdigest()
            self._blobs.put(digest, content)
            files[name] = protocols.FileState(sha256=digest, mode=0o644, size_bytes=len(content))
        return protocols.Snapshot(tree_id=hashlib.sha256(repr(files).encode()).hexdigest(), files=files)

    def diff(self, older: protocols.Snapshot, newer: protocols.Snapshot) -> tuple[protocols.FileChange, ...]:
        """Return the file changes between two snapshots, sorted by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: protocols.Snapshot) -> None:
        """Replace the files in memory by those of a snapshot."""
        self._files = {path: self._blobs.get(state.sha256) for path, state in snapshot.files.items()}

    def prepare_grading(self, files: Mapping[str, bytes]) -> None:
        """Write the files of a grader after deleting everything at the top level of their paths.

        For example, the whole folder `a` is deleted before `a/b.py` is written.
        """
        folders = {path.partition("/")[0] for path in files}
        self._files = {path: content for path, content in self._files.items() if path.partition("/")[0] not in folders}
        for path, content in files.items():
            self.write(path, content)

    def close(self) -> None:
        """Do nothing, because an in-memory sandbox has no process to stop."""


def _normalize_path(path: str) -> str:
    name = posixpath.normpath(path.removeprefix("/workspace/") if path != "/workspace" else ".")
    if name.startswith(("/", "..")):
        raise PathRefused(path)
    return name
