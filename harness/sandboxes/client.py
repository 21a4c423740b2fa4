"""A sandbox whose work is done by a tool server: the one implementation of the protocol behind every launcher.

A launcher brings a server up somewhere and takes it away again; this module speaks with it. After a broken protocol, a
missed deadline or a lost connection the sandbox is dead and says so at every call: it is never restarted or swapped.
"""

import hashlib
import json
import shlex
import signal
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, NamedTuple, NoReturn, Protocol, Self, TypeAlias

from harness.errors import FileMissing, PathRefused, SandboxDied, SandboxError, SandboxUnavailable, ToolError, UsageError
from harness.protocols import BlobStore, ExecResult, FileChange, FileEntry, FileState, SandboxInfo, SandboxLimits, Snapshot
from harness.sandboxes.framing import ByteStream, Frame, FrameConnection
from harness.sandboxes.snapshots import MemoryBlobStore, compute_tree_id, diff_snapshots, format_path, order_files, plan_restore
from harness.sandboxes.toolserver import load_source


def build_fork_request(command: str, modules: Sequence[str]) -> dict[str, Any] | None:
    """The request for `python3 [-OPTION...] SCRIPT [ARGUMENT...]`; None if the command is another one or there are no modules."""
    words = shlex.split(command)
    options = list(takewhile(lambda word: word.startswith("-"), words[1:]))
    script, arguments = words[1 + len(options) : 2 + len(options)], words[2 + len(options) :]
    if not modules or words[:1] != ["python3"] or not script or {"-c", "-m", "-X", "-W"} & set(options):
        return None
    return {
        "python": ["python3", *options],
        "source": load_source("forkserver").decode(),
        "modules": list(modules),
        "script": script[0],
        "arguments": arguments,
    }


START_SECONDS = 30.0
GRACE_SECONDS = 20.0
"""How much longer than its own time-out an answer may take before the sandbox counts as dead."""
MAX_TIMEOUT_SECONDS = 86_400
PIECE_BYTES = 8 * 2**20
"""Most file content in one request of a restore."""
NEW_FILE_MODE, NEW_DIRECTORY_MODE = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
MAX_SNAPSHOT_FILES = 200_000
"""In one snapshot."""
ENVIRONMENT = {
    "BUN_RUNTIME_TRANSPILER_CACHE_PATH": "0",  # keeps none: what stands outside of the workspace is not remembered
    "LANG": "C.UTF-8",
    "LANGUAGE": "C",  # else every program looks for translations that there are not: a third of the time of a Python parser
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "0",
    "TERM": "dumb",
    "TZ": "UTC",
}
"""The environment of commands, the same in every backend; HOME and TMPDIR are the scratch directory."""
WORKSPACE = "/workspace"
SCRATCH = "/tmp"  # noqa: S108  it is the private one of a sandbox
SCRATCH_BYTES = 64 * 2**20
"""Size of the scratch directory where a backend limits it."""
_Piece: TypeAlias = tuple[list[Any], bytes]
"""An entry of a restored tree (path, mode, size, whether to append) and its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedServer:
    """A server that runs, not yet spoken to."""

    stream: ByteStream
    info: SandboxInfo
    workspace: str = WORKSPACE
    """Where the workspace lies, as the server sees it."""
    scratch: str = SCRATCH
    """Where temporary files go, as the server sees it."""
    program_directory: str | None = None
    """A directory that commands search for programs first."""
    rlimits: tuple[tuple[str, int], ...]
    """What commands are limited to by the kernel, by the names of `resource`, without `RLIMIT_`."""


class TracedResult(NamedTuple):
    """A command's result, and what the server saw around it."""

    result: ExecResult
    contained: bool
    """It left no process behind and nothing outside of the workspace."""
    repeatable: bool
    """It ran to its own end and all that it printed was kept."""


class Launcher(Protocol):
    """Brings one tool server up and takes it away. Used by one sandbox, once."""

    def launch(self) -> LaunchedServer:
        """Start it. Raises SandboxUnavailable when that cannot be, having removed what it made."""

    def remove(self) -> None:
        """Take away all that `launch` made, whatever its state; idempotent."""

    def read_stderr(self) -> str:
        """What the server printed in despair; may be empty."""


def format_container_name(session_id: str) -> str:
    """The name of the container of a session, in backends that name them."""
    return f"coding-agent-{session_id}"


class StartedOnce(ABC):
    """A sandbox as a context manager: started on entry, closed on exit, with information that is known from its start on."""

    _info: SandboxInfo | None = None

    @property
    def info(self) -> SandboxInfo:
        """Known after `start`."""
        if self._info is None:
            raise SandboxError("the sandbox has not been started; call start() first")
        return self._info

    @abstractmethod
    def start(self) -> None:
        """Bring it up, empty."""

    @abstractmethod
    def close(self) -> None:
        """End every process and remove everything; idempotent."""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class ServedSandbox(StartedOnce):
    """A sandbox behind a tool server. Calls from several threads wait for each other; `close` from another thread ends a run."""

    def __init__(self, launcher: Launcher, limits: SandboxLimits, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._launcher, self._grace_seconds = launcher, grace_seconds
        self.limits = limits
        self._blobs: BlobStore = MemoryBlobStore()
        self._files: dict[str, FileState] = {}
        self._orders: dict[str, Sequence[str]] = {}
        self.has_incomplete_snapshot = False
        """Whether the last snapshot lacks something: what is linked twice, special or unreadable; links count as well."""
        self._is_contained = True
        self._connection: FrameConnection | None = None
        self._death_reason: str | None = "not started"
        self._lock = threading.RLock()
        self._removal_lock = threading.RLock()
        """Held around the launcher's end: one thread closes while another finds that its wire is dead."""

    def use_blobs(self, blobs: BlobStore) -> Self:
        """Let snapshots keep contents there; shared by several sandboxes, one can restore what another one took."""
        if self._files:
            raise SandboxError("a sandbox's blobs are named while its workspace is empty")
        self._blobs = blobs
        return self

    def start(self) -> None:
        """Bring it up, empty."""
        if self._info is not None:
            raise SandboxError("a sandbox is started once; open another one")
        server = self._launcher.launch()
        self._connection = FrameConnection(server.stream)
        try:
            self._connection.send_source(START_SECONDS)
            hello = self._connection.request(Frame(header=self._build_config(server)), START_SECONDS)
            if "error" in hello.header:
                raise SandboxDied(str(hello.header.get("detail")))
        except SandboxDied as error:
            words = self._read_stderr()
            self.close()
            reason = f"the tool server did not start ({words or error})"
            advice = "the image needs python3 (3.8 or later) and /bin/sh"
            raise SandboxUnavailable(server.info.backend, reason, advice) from error
        except BaseException:
            self.close()
            raise
        self._info, self._death_reason = server.info, None

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Run a shell command in the workspace."""
        return self.run_traced(command, timeout_seconds=timeout_seconds).result

    def run_program(self, command: str, *, modules: Sequence[str], timeout_seconds: float) -> ExecResult:
        """End every process, then run a program.

        Args:
            command: the program with its arguments, in the words of a shell, which becomes it.
            modules: of the standard library. A `python3 [-OPTION...] SCRIPT [ARGUMENT...]` is forked, if it can be, of an
                interpreter that has loaded them, which waits for more such programs until a command of another kind is run.
            timeout_seconds: after which it is killed.
        """
        header = {"fork": build_fork_request(command, modules)}
        return self.run_traced(f"exec {command}", timeout_seconds=timeout_seconds, extra_header=header).result

    def run_traced(self, command: str, *, timeout_seconds: float = 60.0, extra_header: Mapping[str, Any] = {}) -> TracedResult:
        """Run a shell command; the result also says whether the command left anything that a snapshot does not hold."""
        check_timeout(timeout_seconds)
        header = {"op": "run", "command": command, "timeout_seconds": timeout_seconds, **extra_header}
        reply = self._request(Frame(header=header), timeout_seconds + self._grace_seconds)
        with self._guard_reply():
            stdout_kept_bytes = int(reply.header["stdout_kept"])
            result = ExecResult(
                exit_code=int(reply.header["exit_code"]),
                stdout=reply.body[:stdout_kept_bytes],
                stderr=reply.body[stdout_kept_bytes:],
                stdout_bytes=int(reply.header["stdout_bytes"]),
                stderr_bytes=int(reply.header["stderr_bytes"]),
                timed_out=bool(reply.header["timed_out"]),
                oom_killed=bool(reply.header["oom_killed"]),
                seconds=float(reply.header["seconds"]),
            )
            if max(len(result.stdout), len(result.stderr)) > self.limits.output_bytes:
                raise ValueError("more output than agreed")
            contained, started = bool(reply.header["contained"]), bool(reply.header.get("started", True))
            self._is_contained = self._is_contained and contained
        return TracedResult(result, contained, started and _is_whole(result))

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The content of a file, its first `max_bytes` only if given; more than `file_bytes` is a ToolError."""
        max_content_bytes = self.limits.file_bytes if max_bytes is None else min(max_bytes, self.limits.file_bytes)
        content = self._request(Frame(header={"op": "read", "path": path, "max_bytes": max_content_bytes}), path=path).body
        return truncate_content(content, max_content_bytes, self.limits, path)

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file, making its directories."""
        check_size(content, self.limits, path)
        self._request(Frame(header={"op": "write", "path": path}, body=content), path=path)

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """The entries of a directory by name."""
        reply = self._request(Frame(header={"op": "list", "path": path}), path=path)
        with self._guard_reply():
            entries = [_parse_entry(*entry) for entry in json.loads(reply.body)]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def snapshot(self) -> Snapshot:
        """The state of the workspace now: all files, links and directories. Costs what changed since the last one.

        Raises:
            ToolError: it holds more than a snapshot can; the sandbox works on.
        """
        with self._lock:
            total, partial, first, more = 0, bytearray(), True, True
            while more:
                reply = self._scan(first)
                with self._guard_reply():
                    start = int(reply.header["index_bytes"])
                    for entry in json.loads(reply.body[:start]):
                        start = self._store_entry(entry, reply.body, start, partial)
                    first, more, total = False, bool(reply.header["more"]), total + len(reply.body)
                    self.has_incomplete_snapshot = bool(reply.header["odd"])
                if total > self._max_scan_bytes:
                    self._die(f"it sent more than {self._max_scan_bytes} bytes of its workspace")
            files = order_files(self._files, self._orders)
        return Snapshot(tree_id=compute_tree_id(files), files=files)

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """What changed between two snapshots, by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the workspace back to a snapshot; every process ends and temporary files go, as in a new sandbox."""
        with self._lock:
            self._request(Frame(header={"op": "reset"}))
            delete, make = plan_restore(self.snapshot().files, snapshot.files)
            try:
                for batch in _generate_batches(snapshot.files, make, self._blobs):
                    self._apply(delete, batch)
                    delete = []
            except ToolError as error:
                self._die(f"the workspace could not be restored: {error}")
            restored_tree_id = self.snapshot().tree_id
            if restored_tree_id != snapshot.tree_id:
                self._die(f"restored to tree {restored_tree_id} where {snapshot.tree_id} was wanted")

    def lay(self, files: Mapping[str, bytes]) -> None:
        """End every process, empty the scratch directory, and put files in place of whatever stands where they belong."""
        for path in files:
            if path.startswith("/") or ".." in path.split("/"):
                raise PathRefused(path)
        parents = dict.fromkeys(str(parent) for path in files for parent in reversed(PurePosixPath(path).parents[:-1]))
        pieces: Sequence[_Piece] = [
            *(([parent, NEW_DIRECTORY_MODE, 0, False], b"") for parent in parents),
            *(([path, NEW_FILE_MODE, len(content), False], content) for path, content in files.items()),
        ]
        with self._lock:
            self._request(Frame(header={"op": "reset"}))
            self._apply(sorted({PurePosixPath(path).parts[0] for path in files}), pieces)

    def reset_for_reuse(self) -> bool:
        """Empty it for another session; False if it cannot be as a new one.

        So it is when it was lost or is at work, and when a command left what emptying does not take away.
        """
        if self._death_reason is not None or not self._is_contained or not self._lock.acquire(blocking=False):
            return False
        try:
            self.restore(Snapshot(tree_id=compute_tree_id({})))
            self._request(Frame(header={"op": "reset", "forget": True}))
            self._blobs = MemoryBlobStore()
        except (SandboxError, ToolError):
            return False
        finally:
            self._lock.release()
        return not self.has_incomplete_snapshot

    def close(self) -> None:
        """End every process and remove everything."""
        self._death_reason = self._death_reason or "closed"
        if self._connection is not None:
            self._connection.close()
        with self._removal_lock:
            self._launcher.remove()

    def _build_config(self, server: LaunchedServer) -> dict[str, Any]:
        scratch = server.scratch
        search = ":".join(filter(None, (server.program_directory, ENVIRONMENT["PATH"])))
        return {
            "workspace": server.workspace,
            "scratch": scratch,
            "rlimits": dict(server.rlimits),
            "env": ENVIRONMENT | {"HOME": scratch, "PATH": search, "TMPDIR": scratch},
            "output_bytes": self.limits.output_bytes,
            "snapshot_bytes": self._max_scan_bytes,
            "snapshot_files": MAX_SNAPSHOT_FILES,
        }

    @property
    def _max_scan_bytes(self) -> int:
        """Most that one scan may send: files with holes are longer than the disk."""
        return 2 * self.limits.disk_bytes + PIECE_BYTES

    def _scan(self, first: bool) -> Frame:
        """The next piece of a scan; after a refusal the server tells everything again."""
        try:
            return self._request(Frame(header={"op": "scan", "first": first}), path=WORKSPACE)
        except ToolError:
            self._files.clear()
            self._orders.clear()
            raise

    def _request(self, frame: Frame, timeout_seconds: float = 60.0, path: str = "") -> Frame:
        with self._lock:
            if self._death_reason is not None or self._connection is None:
                raise SandboxDied(f"the sandbox is gone: {self._death_reason}")
            try:
                reply = self._connection.request(frame, timeout_seconds)
            except SandboxDied as error:
                self._die(str(error))
            except BaseException:  # an interrupt between request and reply: the wire is out of step
                self._death_reason = "interrupted in mid-request"
                self.close()
                raise
        match reply.header.get("error"):
            case None:
                return reply
            case "outside":
                raise PathRefused(path)
            case "missing":
                raise FileMissing(path)
            case _:
                raise ToolError(f"{path!r}: {str(reply.header.get('detail'))[:200]}")

    def _die(self, reason: str) -> NoReturn:
        words = self._read_stderr()
        self._death_reason = f"{reason}; its last words: {words}" if words else reason
        self.close()
        raise SandboxDied(f"the sandbox died: {self._death_reason}")

    def _read_stderr(self) -> str:
        with self._removal_lock:
            return self._launcher.read_stderr().strip()[-500:]

    @contextmanager
    def _guard_reply(self) -> Iterator[None]:
        """Around the reading of a reply: a reply that does not parse ends the sandbox."""
        try:
            yield
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
            self._die(f"its reply makes no sense: {error!r}")

    def _store_entry(self, entry: Any, body: bytes, start: int, partial: bytearray) -> int:
        """Book one entry of a scan; the position in the body after its content."""
        path, mode, size, sha256, length = entry
        if mode == -1:
            self._files.pop(path, None)
            return start
        content = body[start : start + int(length)]
        if mode == -2:
            self._orders[path] = [str(name) for name in json.loads(content)]
            return start + len(content)
        if sha256 is None:
            partial += content
            return start + len(content)
        whole = bytes(partial) + content
        partial.clear()
        if len(whole) == size:
            if hashlib.sha256(whole).hexdigest() != sha256:
                raise ValueError("content does not fit its address")
            self._blobs.put(sha256, whole)
        is_outside = path.startswith("/") or ".." in path.split("/")
        if is_outside or len(self._files) >= 2 * MAX_SNAPSHOT_FILES:  # deleted files are reported last
            raise ValueError(f"path {path[:200]!r} as file number {len(self._files) + 1}")
        self._files[path] = FileState(sha256=str(sha256), mode=int(mode), size_bytes=int(size))
        return start + len(content)

    def _apply(self, delete: Sequence[str], pieces: Sequence[_Piece]) -> None:
        """Delete and make entries of the workspace in one request."""
        index = json.dumps({"delete": delete, "entries": [entry for entry, _ in pieces]}).encode()
        body = index + b"".join([content for _, content in pieces])
        path = delete[0] if delete else ""
        self._request(Frame(header={"op": "apply", "index_bytes": len(index)}, body=body), path=path)


def _generate_batches(files: Mapping[str, FileState], paths: Iterable[str], blobs: BlobStore) -> Iterator[list[_Piece]]:
    """Yield the pieces that make those paths, as many at a time as fit one request."""
    batch: list[_Piece] = []
    size_bytes = 0
    for entry, content in _generate_pieces(files, paths, blobs):
        batch.append((entry, content))
        size_bytes += len(content)
        if size_bytes >= PIECE_BYTES or len(batch) >= 1_000:
            yield batch
            batch, size_bytes = [], 0
    yield batch


def _generate_pieces(files: Mapping[str, FileState], paths: Iterable[str], blobs: BlobStore) -> Iterator[_Piece]:
    """What makes those paths: directories first open, contents in pieces, exact directory modes last."""
    closed_directories = []
    for path in paths:
        state = files[path]
        if stat.S_ISDIR(state.mode):
            closed_directories.append(path)
            yield [path, state.mode | 0o700, 0, False], b""
            continue
        content = blobs.get(state.sha256)
        for offset in range(0, max(len(content), 1), PIECE_BYTES):
            piece = content[offset : offset + PIECE_BYTES]
            last = offset + PIECE_BYTES >= len(content)
            yield [path, state.mode if last else state.mode | 0o200, len(piece), offset > 0], piece
    for path in reversed(closed_directories):
        if files[path].mode & 0o700 != 0o700:
            yield [path, files[path].mode, 0, False], b""


def _parse_entry(name: Any, kind: Any, size: Any) -> FileEntry:
    if kind not in ("file", "directory", "link", "other"):
        raise ValueError(f"kind {kind!r}")
    return FileEntry(name=format_path(str(name)), kind=kind, size_bytes=int(size) if kind == "file" else 0)


def check_timeout(timeout_seconds: float) -> None:
    """Refuse a time-out that cannot be. Raises UsageError."""
    if not 0 < timeout_seconds < MAX_TIMEOUT_SECONDS:
        raise UsageError(f"timeout_seconds is {timeout_seconds!r}; it must be above 0 and below {MAX_TIMEOUT_SECONDS}")


def check_size(content: bytes, limits: SandboxLimits, path: str) -> None:
    """Refuse to write more than the limit. Raises ToolError."""
    if len(content) > limits.file_bytes:
        raise ToolError(f"{len(content)} bytes for {path!r} are more than the {limits.file_bytes} allowed")


def truncate_content(content: bytes, max_bytes: int, limits: SandboxLimits, path: str) -> bytes:
    """The first bytes of a content. Raises ToolError where the limit, and not the caller, would cut it."""
    if len(content) > max_bytes and max_bytes == limits.file_bytes:
        raise ToolError(f"file {path!r} is larger than {max_bytes} bytes, the most that can be read at once")
    return content[:max_bytes]


def _is_whole(result: ExecResult) -> bool:
    kept = (len(result.stdout), len(result.stderr)) == (result.stdout_bytes, result.stderr_bytes)
    return kept and not result.timed_out and not result.oom_killed and result.exit_code != 128 + signal.SIGKILL
