"""The client of a tool server, which implements the interface of a sandbox for all backends.

A launcher starts the tool server and removes it; this module communicates with the tool server. After an invalid reply, a missed
deadline or a lost connection, every further call raises SandboxDied: a sandbox is never restarted or replaced.
"""

import errno
import hashlib
import json
import os
import shlex
import signal
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, NoReturn, Protocol, Self, TypeAlias

from harness.errors import (
    FileMissing,
    PathRefused,
    SandboxDied,
    SandboxError,
    SandboxKilled,
    SandboxUnavailable,
    ToolError,
    UsageError,
)
from harness.files.blobs import TemporaryBlobStore
from harness.protocols import BlobStore, ExecResult, FileChange, FileEntry, FileState, SandboxInfo, SandboxLimits, Snapshot
from harness.sandboxes.deaths import ActionHistory, ServerEnd
from harness.sandboxes.framing import ByteStream, Frame, FrameConnection, PendingReply
from harness.sandboxes.seccomp import KEYCTL_NUMBERS, SECCOMP, assemble_program
from harness.sandboxes.snapshots import compute_tree_id, diff_snapshots, format_path, order_files, plan_restore
from harness.sandboxes.toolserver import compile_source

START_SECONDS = 30.0
CANCEL_SECONDS = 10.0
"""Seconds that the tool server has to end an interrupted command; after that, the sandbox is considered lost."""
GRACE_SECONDS = 20.0
"""Seconds that the tool server may take beyond the timeout of a command; after that, the sandbox is considered lost."""
SCAN_SECONDS = 60.0
"""Seconds that the tool server has to send one part of a scan of the workspace."""
MAX_TIMEOUT_SECONDS = 86_400
PIECE_BYTES = 8 * 2**20
"""Maximum number of bytes of file contents sent in one request when a workspace is restored."""
NEW_FILE_MODE, NEW_DIRECTORY_MODE = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
NO_SPACE = os.strerror(errno.ENOSPC)
MAX_SNAPSHOT_FILES = 200_000
"""Maximum number of files in a snapshot of a workspace."""
ENVIRONMENT = {
    "BUN_RUNTIME_TRANSPILER_CACHE_PATH": "0",  # no cache, because it would lie outside the workspace
    "LANG": "C.UTF-8",
    "LANGUAGE": "C",  # spares programs the search for translations, a third of the start of argparse
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "0",
    "TERM": "dumb",
    "TZ": "UTC",
}
"""Environment variables of commands, equal in every backend.

HOME and TMPDIR, which name the directory for temporary files, are added when a sandbox starts.
"""
WORKSPACE = "/workspace"
SCRATCH, SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108  private to each sandbox
SCRATCH_BYTES = 64 * 2**20
"""Size in bytes of the directory for temporary files, in backends that limit it."""
WORKSPACE_FILES, SCRATCH_FILES = 50 * 2**10, 20 * 2**10
"""Maximum numbers of files and directories, in backends that limit them: in the workspace, and in each temporary directory."""
FILES: Final = "files"
"""Name under which `SandboxInfo.enforced` lists the limits on the number of files."""
_Piece: TypeAlias = tuple[list[Any], bytes]
"""File or directory to write into a workspace, as a list and the content as bytes.

The list contains the path, the mode, the size, whether to append, and whether the content, as a whole, is in the blob store.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedServer:
    """A tool server that is running but has not been contacted yet."""

    stream: ByteStream
    info: SandboxInfo
    workspace: str = WORKSPACE
    """Path of the workspace inside the sandbox, as seen by the tool server."""
    scratch: str = SCRATCH
    """Path of the directory for temporary files inside the sandbox, as seen by the tool server."""
    program_directory: str | None = None
    """Directory in which the programs that commands call are searched first; None if there is no such directory."""
    rlimits: tuple[tuple[str, int], ...]
    """Limits of each process in the sandbox, by their names in the module `resource` without the prefix `RLIMIT_`."""


class TracedResult(NamedTuple):
    """Result of a command, with notes on its effects and, if asked for, a snapshot of the workspace after it."""

    result: ExecResult
    contained: bool
    """Whether the command left no running process behind and changed nothing outside the workspace."""
    repeatable: bool
    """Whether the command ended by itself and none of its output was cut off, so that its result may be cached."""
    snapshot: Snapshot | None
    """State of the workspace after the command; None if it was not asked for, or did not come with the result."""


class Launcher(Protocol):
    """Interface of an object that starts the tool server of one sandbox, and removes it later.

    Each launcher is used only once.
    """

    def launch(self) -> LaunchedServer:
        """Start the sandbox's tool server.

        Raises:
            SandboxUnavailable: The start failed; everything that was created has been removed.
        """

    def remove(self) -> None:
        """Remove the tool server and everything that was created for it.

        May be called in any state, and more than once.
        """

    def read_stderr(self) -> str:
        """Return what the sandbox's tool server wrote to stderr; may be empty."""

    def find_end(self, oom_kills: int) -> ServerEnd:
        """Return how the tool server ended.

        Called after the connection was lost, and before `remove`.

        Args:
            oom_kills: Number of processes that the kernel had killed for lack of memory at the last reply of the tool server.
        """


def format_container_name(session_id: str) -> str:
    """Return the name of the container of a session, for backends that use named containers."""
    return f"coding-agent-{session_id}"


class StartedOnce(ABC):
    """Base class of sandboxes, which start when a `with` block begins and close when it ends."""

    _info: SandboxInfo | None = None

    @property
    def info(self) -> SandboxInfo:
        """Backend, image and limits of the sandbox; available after the sandbox was started."""
        if self._info is None:
            raise SandboxError("the sandbox has not been started; call start() first")
        return self._info

    @abstractmethod
    def start(self) -> None:
        """Start the sandbox with an empty workspace."""

    @abstractmethod
    def close(self) -> None:
        """End every process of the sandbox and delete the sandbox; may be called more than once."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Batch:
    """Calls of several threads that use a sandbox at the same time. Thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._calls, self._has_ended = 0, False

    def begin_call(self) -> bool:
        """Add a call; return False if the batch has ended and accepts no calls."""
        with self._condition:
            self._calls += not self._has_ended
            return not self._has_ended

    def end_call(self) -> None:
        with self._condition:
            self._calls -= 1
            self._condition.notify_all()

    def end(self) -> None:
        """Accept no further calls, and wait until all calls have ended."""
        with self._condition:
            self._has_ended = True
            self._condition.wait_for(lambda: self._calls == 0)


class ServedSandbox(StartedOnce):
    """A sandbox whose first process, the tool server, runs commands and reads and writes files on request.

    Calls from several threads wait for each other, except in the context of `allow_parallel_calls`. `close` from another thread
    ends a running command.
    """

    def __init__(
        self,
        launcher: Launcher,
        limits: SandboxLimits,
        *,
        grace_seconds: float = GRACE_SECONDS,
        make_launcher: Callable[[], Launcher] | None = None,
    ) -> None:
        """Prepare a sandbox without starting it.

        Args:
            launcher: Object that starts the tool server.
            limits: Limits on the resources of the sandbox.
            grace_seconds: Seconds that the tool server may take beyond the timeout of a command.
            make_launcher: Function that returns the launcher of an equal sandbox. If this sandbox dies, its last commands are
                repeated in the equal one, to learn whether they were the cause. None repeats nothing.
        """
        self._launcher, self._grace_seconds, self._make_launcher = launcher, grace_seconds, make_launcher
        self.limits = limits
        self._history = ActionHistory()
        self._oom_kills = 0
        """Number of processes that the kernel has killed for lack of memory, as reported with the last command."""
        self._twin: ServedSandbox | None = None
        """Sandbox in which the last commands are being repeated, to learn whether they ended this sandbox."""
        self._death_type = SandboxDied
        self._blobs: BlobStore = TemporaryBlobStore()
        self._files: dict[str, FileState] = {}
        self._orders: dict[str, Sequence[str]] = {}
        self._snapshot: Snapshot | None = None
        """Last snapshot, which is used again if no file has changed since."""
        self._is_scan_lost = False
        """Whether changes that the tool server has sent may not be stored here, so that the next scan must send all files.

        True while changes are received, so that an interrupt, such as Ctrl-C, leaves it true.
        """
        self.has_incomplete_snapshot = False
        """Whether the last snapshot may be incomplete, because the workspace contains links, special or unreadable files."""
        self._connection: FrameConnection | None = None
        self._death_reason: str | None = "not started"
        self._lock = threading.RLock()
        """Lock held during a call, or during a batch of parallel calls."""
        self._batch: _Batch | None = None
        self._death_lock = threading.RLock()
        """Lock held while the cause of the sandbox's death is sought, because several threads may notice the death at once."""
        self._removal_lock = threading.RLock()
        """Lock held while the tool server is removed, because two threads may try to remove it at the same time."""

    @property
    def contents(self) -> BlobStore:
        """Store of the contents of the files in snapshots of this sandbox; a snapshot to restore needs its contents there."""
        return self._blobs

    def use_blobs(self, blobs: BlobStore) -> Self:
        """Keep the file contents of snapshots in the given store, and return this sandbox.

        Sandboxes that share a store can restore each other's snapshots.
        """
        if self._files:
            raise SandboxError(
                "the blob store of a sandbox can be set only while its workspace is empty; call use_blobs() before start()"
            )
        self._blobs = blobs
        return self

    def start(self) -> None:
        """Start the sandbox and its tool server with an empty workspace."""
        if self._info is not None:
            raise SandboxError("a sandbox can be started only once; open another sandbox")
        server = self._launcher.launch()
        self._connection = FrameConnection(server.stream)
        try:
            self._connection.send_source(START_SECONDS)
            program = assemble_program() if SECCOMP in server.info.enforced else b""
            hello = self._connection.request(Frame(header=self._build_config(server), body=program), START_SECONDS)
            if "error" in hello.header:
                raise SandboxDied(str(hello.header.get("detail")))
        except SandboxDied as error:
            words = self._read_stderr()
            end = self._find_end()
            self.close()
            if end.signal_number is not None:
                raise SandboxDied(
                    f"the tool server was killed by signal {end.signal_number} while it started; try again"
                ) from error
            reason = f"the tool server did not start ({words or error})"
            advice = "the sandbox must contain /bin/sh and python3 (3.8 or later) with its whole standard library"
            raise SandboxUnavailable(server.info.backend, reason, advice) from error
        except BaseException:
            self.close()
            raise
        self._info, self._death_reason = server.info, None

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Run a shell command in the workspace and return its result."""
        return self.run_traced(command, timeout_seconds=timeout_seconds).result

    def run_traced(self, command: str, *, timeout_seconds: float = 60.0, with_snapshot: bool = False) -> TracedResult:
        """Run a shell command, and return its result with notes on its effects.

        The notes say whether the command affected only the workspace, and whether its result may be cached. With `with_snapshot`,
        the tool server sends the changed files together with the result, unless the command affected more than the workspace.
        """
        if not with_snapshot or self._is_scan_lost:
            return self._run(Frame(header={"command": command}), timeout_seconds)
        with self._lock:
            return self._run(Frame(header={"command": command, "scan": True}), timeout_seconds)

    def _run(self, frame: Frame, timeout_seconds: float) -> TracedResult:
        check_timeout(timeout_seconds)
        header = {"output_bytes": self.limits.output_bytes, **frame.header, "op": "run", "timeout_seconds": timeout_seconds}
        is_scanned = "scan" in header
        self._is_scan_lost |= is_scanned
        scan_seconds = SCAN_SECONDS if is_scanned else 0.0
        reply = self._request(Frame(header=header, body=frame.body), timeout_seconds + self._grace_seconds + scan_seconds)
        with self._guard_reply():
            scan = reply.header.get("scan") if is_scanned else None
            stdout_kept_bytes = int(reply.header["stdout_kept"])
            output_bytes = len(reply.body) if scan is None else stdout_kept_bytes + int(reply.header["stderr_kept"])
            result = ExecResult(
                exit_code=int(reply.header["exit_code"]),
                stdout=reply.body[:stdout_kept_bytes],
                stderr=reply.body[stdout_kept_bytes:output_bytes],
                stdout_bytes=int(reply.header["stdout_bytes"]),
                stderr_bytes=int(reply.header["stderr_bytes"]),
                stdout_tail_bytes=int(reply.header["stdout_tail"]),
                stderr_tail_bytes=int(reply.header["stderr_tail"]),
                timed_out=bool(reply.header["timed_out"]),
                oom_killed=bool(reply.header["oom_killed"]),
                seconds=float(reply.header["seconds"]),
            )
            if max(len(result.stdout), len(result.stderr)) > header["output_bytes"]:
                raise ValueError("more output than the limit allows")
            if not (0 <= result.stdout_tail_bytes <= len(result.stdout) and 0 <= result.stderr_tail_bytes <= len(result.stderr)):
                raise ValueError("the end of an output is longer than the output")
            contained, started = reply.header["contained"], bool(reply.header.get("started", True))
            self._history.is_contained &= contained is not False
            self._oom_kills = int(reply.header.get("oom_kills", 0))
        snapshot = None
        if scan is not None:
            with suppress(ToolError):  # the workspace contains more than a snapshot can hold
                snapshot = self._collect_snapshot(Frame(header=scan, body=reply.body[output_bytes:]))
        elif is_scanned:
            self._is_scan_lost = False
        return TracedResult(result, contained is True, started and _is_whole(result), snapshot)

    def run_program(self, name: str, *arguments: str, timeout_seconds: float, output_bytes: int) -> ExecResult:
        """Run a Python program of this package whose file is in the workspace, and return its result.

        The result is that of the command `python3 -S -B` with the arguments. If the tool server was started with the same options
        and environment, a fork of it runs the program, which saves the start of another Python.

        Args:
            name: Name of the program in `harness.sandboxes.toolserver`.
            arguments: Path of the program's file in the workspace, and the arguments of the program.
            timeout_seconds: Seconds after which the program is killed.
            output_bytes: Maximum number of bytes that are kept of each output of the program, in place of the sandbox's limit.
        """
        command = shlex.join(["exec", "python3", "-S", "-B", *arguments])
        forked = {"arguments": arguments, "magic": MAGIC_NUMBER.hex()}
        frame = Frame(header={"command": command, "output_bytes": output_bytes, **forked}, body=compile_source(name))
        return self._run(frame, timeout_seconds).result

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file in the workspace, cut to `max_bytes` if given.

        Raises:
            ToolError: The content is larger than the sandbox's maximum file size.
        """
        max_content_bytes = self.limits.file_bytes if max_bytes is None else min(max_bytes, self.limits.file_bytes)
        content = self._request(Frame(header={"op": "read", "path": path, "max_bytes": max_content_bytes}), path=path).body
        return truncate_content(content, max_content_bytes, self.limits, path)

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file in the workspace; missing parent directories are created."""
        check_size(content, self.limits, path)
        self._request(Frame(header={"op": "write", "path": path}, body=content), path=path)

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory in the workspace, sorted by name."""
        reply = self._request(Frame(header={"op": "list", "path": path}), path=path)
        with self._guard_reply():
            entries = [_parse_entry(*entry) for entry in json.loads(reply.body)]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def snapshot(self) -> Snapshot:
        """Return the current state of the workspace: files, links and directories.

        The time taken depends on how much has changed since the last snapshot.

        Raises:
            ToolError: The workspace contains more than a snapshot can hold; the sandbox continues to work.
        """
        with self._lock:
            return self._collect_snapshot(self._scan(first=True))

    def _collect_snapshot(self, piece: Frame) -> Snapshot:
        """Store the changes in the first part of a scan and in all further parts, and return the new state of the workspace.

        Must be called with the lock held, and immediately after the part was received.
        """
        self._is_scan_lost = True
        total_bytes, partial, more, left_out = 0, bytearray(), True, tuple[str, ...]()
        while more:
            with self._guard_reply():
                start = int(piece.header["index_bytes"])
                for entry in json.loads(piece.body[:start]):
                    self._snapshot = None
                    start = self._store_entry(entry, piece.body, start, partial)
                more, total_bytes = bool(piece.header["more"]), total_bytes + len(piece.body)
                self.has_incomplete_snapshot = bool(piece.header["odd"])
                left_out = _describe_left_out(piece.header["left_out"], int(piece.header["left_out_count"]))
            if total_bytes > self._max_scan_bytes:
                self._die(f"a scan of the workspace sent more than {self._max_scan_bytes} bytes")
            if more:
                piece = self._scan(first=False)
        self._is_scan_lost = False
        snapshot = self._snapshot
        if snapshot is None or snapshot.left_out != left_out:
            files = order_files(self._files, self._orders)
            snapshot = self._snapshot = Snapshot(tree_id=compute_tree_id(files), files=files, left_out=left_out)
        if self._history.is_contained and not self.has_incomplete_snapshot:
            self._history.begin_at(snapshot)
        return snapshot

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return the files that differ between two snapshots of the workspace, sorted by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the workspace to a snapshot.

        Every process ends and temporary files are deleted, as in a new sandbox.
        """
        with self._lock:
            self._request(Frame(header={"op": "reset"}))
            delete, make = plan_restore(self.snapshot().files, snapshot.files)
            self._history.begin_at(snapshot)
            try:
                for batch in _generate_batches(snapshot.files, make, self._blobs):
                    self._apply(delete, batch, sparse=self._has_holes(snapshot))
                    delete = []
                    self._history.requests.clear()  # the snapshot, with which the history begins, has the same contents
            except ToolError as error:
                if NO_SPACE in str(error):
                    self._death_type = SandboxKilled  # the file system of the sandbox holds less than the commands have written
                self._die(f"the workspace could not be restored: {error}")
            restored_tree_id = self.snapshot().tree_id
            if restored_tree_id != snapshot.tree_id:
                self._die(f"the restored workspace has tree id {restored_tree_id}, expected {snapshot.tree_id}")

    def prepare_grading(self, files: Mapping[str, bytes]) -> None:
        """End every process, delete temporary files, and write the files of a grader.

        Everything with the same first component as one of the paths is deleted first.
        """
        for path in files:
            if path.startswith("/") or ".." in path.split("/"):
                raise PathRefused(path)
        parents = dict.fromkeys(str(parent) for path in files for parent in reversed(PurePosixPath(path).parents[:-1]))
        pieces: Sequence[_Piece] = [
            *(([parent, NEW_DIRECTORY_MODE, 0, False, False], b"") for parent in parents),
            *(([path, NEW_FILE_MODE, len(content), False, False], content) for path, content in files.items()),
        ]
        with self._lock:
            self._request(Frame(header={"op": "reset"}))
            self._apply(sorted({PurePosixPath(path).parts[0] for path in files}), pieces)

    @contextmanager
    def allow_parallel_calls(self) -> Iterator[None]:
        """Let several threads run commands and use files at the same time within a `with` block.

        The end of the block waits for these calls. Other operations, such as snapshots, wait for the end of the block. A block
        within another block changes nothing.
        """
        with self._join_batch() as batch:
            if batch is not None:
                yield
                return
        with self._lock:
            self._batch = batch = _Batch()
            try:
                yield
            finally:
                batch.end()
                self._batch = None

    def make_twin(self) -> "ServedSandbox | None":
        """Return a new sandbox with the same settings, not yet started; None if none can be made.

        Both sandboxes share a store of file contents, so that the new one can restore snapshots of this one.
        """
        if self._make_launcher is None:
            return None
        return ServedSandbox(self._make_launcher(), self.limits, grace_seconds=self._grace_seconds).use_blobs(self._blobs)

    @property
    def is_contained(self) -> bool:
        """Whether commands left no process and changed nothing outside the workspace since the last snapshot."""
        return self._history.is_contained

    def close(self) -> None:
        """End every process of the sandbox and delete the sandbox, even while a command runs in another thread."""
        self._death_reason = self._death_reason or "closed"
        if self._connection is not None:
            self._connection.close()
        twin = self._twin
        if twin is not None:
            twin.close()
        with self._removal_lock:
            self._launcher.remove()

    def _build_config(self, server: LaunchedServer) -> dict[str, Any]:
        return {
            "workspace": server.workspace,
            "scratch": server.scratch,
            "rlimits": dict(server.rlimits),
            "env": build_environment(server.scratch, server.program_directory),
            "snapshot_bytes": self._max_scan_bytes,
            "snapshot_files": MAX_SNAPSHOT_FILES,
            "keyctl_numbers": KEYCTL_NUMBERS,
        }

    @property
    def _max_scan_bytes(self) -> int:
        # Without this limit, sparse files could send far more than fits on the disk.
        return 2 * self.limits.disk_bytes + PIECE_BYTES

    def _scan(self, *, first: bool) -> Frame:
        header = {"op": "scan", "first": first}
        if first and self._is_scan_lost:
            header["all"] = True
            self._forget_files()
        try:
            return self._request(Frame(header=header), SCAN_SECONDS, path=WORKSPACE)
        except ToolError:  # the next scan returns all files
            self._forget_files()
            self._is_scan_lost = False
            raise

    def _forget_files(self) -> None:
        self._files.clear()
        self._orders.clear()
        self._snapshot = None

    def _request(self, frame: Frame, timeout_seconds: float = 60.0, path: str = "") -> Frame:
        with self._join_batch() as batch, nullcontext() if batch else self._lock:
            reply = self._exchange(frame, timeout_seconds)
        match reply.header.get("error"):
            case None:
                return reply
            case "outside":
                raise PathRefused(path)
            case "missing":
                raise FileMissing(path)
            case _:
                raise ToolError(f"{path!r}: {str(reply.header.get('detail'))[:200]}")

    @contextmanager
    def _join_batch(self) -> "Iterator[_Batch | None]":
        """Yield the batch of parallel calls, if one is open; it cannot end before this context ends."""
        batch = self._batch
        if batch is None or not batch.begin_call():
            yield None
            return
        try:
            yield batch
        finally:
            batch.end_call()

    def _exchange(self, frame: Frame, timeout_seconds: float) -> Frame:
        """Send a request to the tool server and return the reply.

        An interrupt, such as Ctrl-C, ends a running command but not the sandbox.
        """
        connection = self._connection
        if self._death_reason is not None or connection is None:
            raise self._death_type(f"the sandbox is gone: {self._death_reason}")
        self._history.add(frame, timeout_seconds)
        deadline = time.monotonic() + timeout_seconds
        pending = None
        try:
            pending = connection.send(frame, deadline)
            return pending.wait(deadline)
        except SandboxDied as error:
            self._die(str(error), frame, timeout_seconds)
        except BaseException:
            if pending is None or frame.header["op"] != "run" or not self._cancel(connection, pending):
                self._death_reason = "interrupted during a request"  # what is known here about the workspace may be wrong now
                self.close()
            raise

    def _cancel(self, connection: FrameConnection, pending: PendingReply) -> bool:
        """End a running command, and return whether the sandbox can still be used."""
        deadline = time.monotonic() + CANCEL_SECONDS
        try:
            connection.request(Frame(header={"op": "cancel", "target": pending.number}), CANCEL_SECONDS)
            reply = pending.wait(deadline)
        except (SandboxDied, KeyboardInterrupt):
            return False
        self._history.is_contained &= reply.header.get("contained") is not False
        return True

    def _die(self, reason: str, request: Frame | None = None, timeout_seconds: float = 60.0) -> NoReturn:
        """Close the sandbox and raise SandboxKilled if the commands ended it, or else SandboxDied.

        Args:
            reason: Explanation of how the sandbox was lost.
            request: Request during which the sandbox was lost; None if the tool server replied.
            timeout_seconds: Seconds that the tool server had to reply to the request.
        """
        with self._death_lock:
            was_closed = self._death_reason is not None
            words = self._read_stderr()
            end = ServerEnd() if was_closed else self._find_end()
            self._death_reason = f"{reason}; output on stderr: {words}" if words else reason
            self.close()
            if end.ran_out_of_memory:
                self._death_reason += "; its processes had used up its memory"
            is_unexplained = not was_closed and self._death_type is SandboxDied
            if end.ran_out_of_memory or (is_unexplained and self._repeat_history(request, timeout_seconds)):
                self._death_type = SandboxKilled
        raise self._death_type(f"the sandbox died: {self._death_reason}")

    def _repeat_history(self, last_request: Frame | None, timeout_seconds: float) -> bool:
        """Return whether the last commands of this sandbox, when repeated, end a new sandbox too."""
        twin = None if self.limits.network else self.make_twin()  # repeated commands could have effects in a network
        if twin is None:
            return False
        self._twin = twin
        try:
            twin.start()
        except SandboxError:  # the machine allows no new sandbox
            self._twin = None
            return False
        try:
            twin.restore(self._history.base)
            return twin._is_ended_by(self._history, last_request, timeout_seconds)
        except SandboxDied:  # the workspace alone ends a sandbox, or cannot be restored in another one either
            return True
        except (SandboxError, ToolError):
            return False
        finally:
            twin.close()
            self._twin = None

    def _is_ended_by(self, history: ActionHistory, last_request: Frame | None, timeout_seconds: float) -> bool:
        """Return whether the requests that another sandbox received before it died end this sandbox too."""
        requests = list(history.requests)
        if last_request is not None and (not requests or requests[-1][0] is not last_request):
            requests.append((last_request, timeout_seconds))
        for request, request_seconds in requests:
            try:
                self._request(request, request_seconds)
            except ToolError:
                continue
            except SandboxDied:
                return True
        return False

    def _find_end(self) -> ServerEnd:
        with self._removal_lock:
            return self._launcher.find_end(self._oom_kills)

    def _read_stderr(self) -> str:
        with self._removal_lock:
            return self._launcher.read_stderr().strip()[-500:]

    @contextmanager
    def _guard_reply(self) -> Iterator[None]:
        """Close the sandbox if the `with` block fails because a reply of the tool server is invalid."""
        try:
            yield
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
            self._die(f"its reply is invalid: {error!r}")

    def _store_entry(self, entry: Any, body: bytes, start: int, partial: bytearray) -> int:
        """Record one entry of a scan, such as a changed file, and return the position after its content.

        Args:
            entry: Path, mode, size, hash and content length, as described at `Tree.scan_changes` of the tool server.
            body: Body of the reply, which contains the content.
            start: Position of the content in the body.
            partial: Earlier pieces of the content of a large file; the last piece empties it.
        """
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
                raise ValueError("content does not match its hash")
            self._blobs.put(sha256, whole)
        is_outside = path.startswith("/") or ".." in path.split("/")
        if is_outside or len(self._files) >= 2 * MAX_SNAPSHOT_FILES:  # deleted files are reported last
            raise ValueError(f"invalid path {path[:200]!r}, or more than {2 * MAX_SNAPSHOT_FILES} files")
        self._files[path] = FileState(sha256=str(sha256), mode=int(mode), size_bytes=int(size))
        return start + len(content)

    def _has_holes(self, snapshot: Snapshot) -> bool:
        """Return whether some files of a snapshot must be sparse, because together they exceed the disk limit."""
        return sum(state.size_bytes for state in snapshot.files.values()) > self.limits.disk_bytes

    def _apply(self, delete: Sequence[str], pieces: Sequence[_Piece], *, sparse: bool = False) -> None:
        """Delete paths, and then write files and directories, with one request.

        With `sparse`, pages of files that contain only zeros take no space.
        """
        index = json.dumps({"delete": delete, "entries": [entry for entry, _ in pieces]}).encode()
        body = index + b"".join([content for _, content in pieces])
        path = delete[0] if delete else ""
        header = {"op": "apply", "index_bytes": len(index), "sparse": sparse}
        self._request(Frame(header=header, body=body), path=path)


def _generate_batches(files: Mapping[str, FileState], paths: Iterable[str], blobs: BlobStore) -> Iterator[list[_Piece]]:
    """Yield the files and directories at the given paths, in lists that each fit into one request."""
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
    """Yield the files and directories at the given paths; large files are split into several pieces.

    Directories are first made writable and get their exact mode at the end.
    """
    closed_directories = []
    for path in paths:
        state = files[path]
        if stat.S_ISDIR(state.mode):
            closed_directories.append(path)
            yield [path, state.mode | 0o700, 0, False, False], b""
            continue
        content = blobs.get(state.sha256)
        for offset in range(0, max(len(content), 1), PIECE_BYTES):
            piece = content[offset : offset + PIECE_BYTES]
            last = offset + PIECE_BYTES >= len(content)
            is_whole = len(piece) == len(content)
            yield [path, state.mode if last else state.mode | 0o200, len(piece), offset > 0, is_whole], piece
    for path in reversed(closed_directories):
        if files[path].mode & 0o700 != 0o700:
            yield [path, files[path].mode, 0, False, False], b""


def _parse_entry(name: Any, kind: Any, size: Any) -> FileEntry:
    if kind not in ("file", "directory", "link", "other"):
        raise ValueError(f"unknown kind of file {kind!r}")
    return FileEntry(name=format_path(str(name)), kind=kind, size_bytes=int(size) if kind == "file" else 0)


def build_environment(scratch: str, program_directory: str | None) -> dict[str, str]:
    """Return the environment variables of commands.

    Args:
        scratch: Directory for temporary files.
        program_directory: Directory in which programs are searched first; None if there is no such directory.
    """
    search = ":".join(filter(None, (program_directory, ENVIRONMENT["PATH"])))
    return ENVIRONMENT | {"HOME": scratch, "PATH": search, "TMPDIR": scratch}


def check_timeout(timeout_seconds: float) -> None:
    """Check the timeout of a command.

    Raises:
        UsageError: The timeout is not positive, or too long.
    """
    if not 0 < timeout_seconds < MAX_TIMEOUT_SECONDS:
        raise UsageError(f"timeout_seconds is {timeout_seconds!r}; it must be above 0 and below {MAX_TIMEOUT_SECONDS}")


def check_size(content: bytes, limits: SandboxLimits, path: str) -> None:
    """Check that the content of a file does not exceed the maximum file size of the sandbox.

    Raises:
        ToolError: The content is too large.
    """
    if len(content) > limits.file_bytes:
        raise ToolError(f"{len(content)} bytes for {path!r} are more than the {limits.file_bytes} allowed")


def truncate_content(content: bytes, max_bytes: int, limits: SandboxLimits, path: str) -> bytes:
    """Return the first `max_bytes` bytes of a file.

    Raises:
        ToolError: The file is longer, and `max_bytes` is the maximum file size of the sandbox.
    """
    if len(content) > max_bytes and max_bytes == limits.file_bytes:
        raise ToolError(f"file {path!r} is larger than {max_bytes} bytes, the most that can be read at once")
    return content[:max_bytes]


def _describe_left_out(pairs: Sequence[Sequence[str]], count: int) -> tuple[str, ...]:
    """Return one line for each path and reason that the tool server has sent, and one on those that it has only counted."""
    lines = [f"{format_path(str(path))} ({format_path(str(reason))})" for path, reason in pairs]
    return (*lines, f"and {count - len(lines):,} more") if count > len(lines) else tuple(lines)


def _is_whole(result: ExecResult) -> bool:
    # a command that was cut or killed might end otherwise when it is run again, so its result is not reused
    kept = (len(result.stdout), len(result.stderr)) == (result.stdout_bytes, result.stderr_bytes)
    return kept and not result.timed_out and not result.oom_killed and result.exit_code != 128 + signal.SIGKILL
