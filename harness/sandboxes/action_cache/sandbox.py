"""A sandbox that answers repeated commands from the action cache and starts a real sandbox only when one is needed.

An action is a command in a certain state of the workspace. The result of an action is looked up by a key, which is a hash of
everything that determines the result. If the cache has no result, the real sandbox is brought to this state and runs the command,
and the result is stored. File operations are answered by a mirror, which is a copy of the workspace in memory.

Effects of a command outside the workspace, such as a process or a file in /tmp, are not part of the key. After each real run, the
tool server (the process in the sandbox that runs commands) reports whether there are such effects. If there are, the session uses
only the real sandbox from then on, and neither reads nor writes the cache. The same happens if the workspace contains files that
the mirror cannot hold, such as links. Earlier entries of the cache remain valid. A sandbox with a network never uses the cache,
because the state of other machines is not part of the key either.

The real sandbox starts when it is first needed. If the cache has the results of all commands and the verdicts of the checks, no
sandbox is started at all. The real sandbox serves this session alone and is closed with it.
"""

import hashlib
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import SandboxDied, SandboxError, ToolError
from harness.protocols import BlobStore, ExecResult, FileChange, FileEntry, SandboxInfo, Snapshot
from harness.sandboxes.action_cache.cache import ActionCache
from harness.sandboxes.action_cache.entry import CacheEntry, compute_action_key, compute_environment_id
from harness.sandboxes.action_cache.mirror import Mirror, MirrorMiss
from harness.sandboxes.backends import is_isolated
from harness.sandboxes.client import ServedSandbox, StartedOnce, check_timeout
from harness.sandboxes.snapshots import diff_snapshots

T = TypeVar("T")
EMPTY_RESULT = ExecResult(exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)
"""Result of a command that ended with exit code 0 and printed nothing, used where a change has no command."""


@dataclass(slots=True)
class CacheCounts:
    """Numbers of a session's commands that were answered from the cache (hits) and that ran in a sandbox (misses)."""

    hits: int = 0
    misses: int = 0
    hit_seconds: float = 0.0
    """Total duration of the original runs of the commands that were answered from the cache, in seconds."""


class CachedSandbox(StartedOnce):
    """A sandbox that answers repeated commands from the action cache, and runs all others in a real sandbox."""

    def __init__(self, real: ServedSandbox, cache: ActionCache, *, kind: Hashable, task: str) -> None:
        """Wrap a real sandbox that was not started yet.

        Args:
            real: Real sandbox of this session.
            cache: Storage of the results and effects of commands.
            kind: Value that is equal for all sandboxes opened with the same arguments. The first sandbox of a new kind is started
                at once, because its properties are not known yet.
            task: Name of the task, stored with each cache entry for display.
        """
        self.counts = CacheCounts()
        self._count_lock = threading.Lock()
        self.cache, self.task = cache, task
        self._real, self._kind = real, kind
        mirror = Mirror(real.limits)
        self._mirror: Mirror | None = mirror
        self._start_lock = threading.Lock()
        """Lock held while the real sandbox starts, so that a session that is closed meanwhile leaves nothing running."""
        self._has_started = self._is_in_sync = self._was_used = False
        self._end_reason: str | None = "not started"
        self._blobs = mirror.blobs
        self._environment = b""
        real.use_blobs(self._blobs)

    def start(self) -> None:
        """Start the session with an empty workspace.

        The real sandbox starts later, unless its properties are not known yet or its commands are not cached.
        """
        if self._end_reason != "not started":
            raise SandboxError("a sandbox can be started only once; open another sandbox")
        self._end_reason = None
        known_info = self.cache.infos.get(self._kind)
        if known_info is None:
            self._start_real()
        else:
            self._set_info(known_info)
        if not is_isolated(self.info.backend) or self._real.limits.network:
            self.bypass_cache()

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Return the result of a command, from the action cache if it is known for this state of the workspace."""
        self._check_open()
        check_timeout(timeout_seconds)
        if self._mirror is None:
            self._count_miss()
            return self._real.run(command, timeout_seconds=timeout_seconds)
        key = compute_action_key(self._environment, self._mirror.state_id, command, timeout_seconds)
        entry = self.cache.get(key)
        after = None if entry is None else self._mirror.apply_entry(entry)
        if entry is None or after is None:
            return self._run(key, command, timeout_seconds)
        self.counts.hits += 1
        self.counts.hit_seconds += entry.result.seconds
        if after is not self._mirror:
            self._mirror, self._is_in_sync = after, False
            self._bypass_if_full()
        return entry.result

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file in the workspace, cut to `max_bytes` if given."""
        return self._query(lambda mirror: mirror.read(path, max_bytes), lambda real: real.read(path, max_bytes=max_bytes))

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file in the workspace; missing parent directories are created."""
        write_through = self._is_in_sync and self._mirror is not None

        def write_both(mirror: Mirror) -> None:
            mirror.write(path, content)
            if write_through:
                try:
                    self._real.write(path, content)
                except ToolError:  # only the mirror has accepted the content, so mirror and sandbox differ
                    self._mirror = None
                    raise

        self._query(write_both, lambda real: real.write(path, content))
        self._bypass_if_full()

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory in the workspace, sorted by name."""
        return self._query(lambda mirror: mirror.list(path), lambda real: real.list(path))

    @contextmanager
    def allow_parallel_calls(self) -> Iterator[None]:
        """Let several threads run commands and use files at the same time within a `with` block.

        Within the block, commands run in the real sandbox, without the action cache. After the block, the cache is used again,
        unless the calls had effects outside the workspace.
        """
        self._check_open()
        mirror = None if self._mirror is None else self._detach_mirror()
        with self._real.allow_parallel_calls():
            yield
        if mirror is not None and self._real.is_contained:
            self._refresh_mirror(mirror, EMPTY_RESULT)

    def snapshot(self) -> Snapshot:
        """Return the current state of all files in the workspace."""
        self._check_open()
        return self._real.snapshot() if self._mirror is None else self._mirror.snapshot()

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return the files that differ between two snapshots of the workspace, sorted by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the files of the workspace to the state of a snapshot."""
        self._check_open()
        if self._mirror is None or self._mirror.adopt_snapshot(snapshot, EMPTY_RESULT) is None:
            self.bypass_cache().restore(snapshot)
        self._is_in_sync = False

    def prepare_grading(self, files: Mapping[str, bytes]) -> None:
        """End every process of the sandbox and write the files of a grader, replacing anything at their paths.

        Later commands run in the real sandbox and are not cached.
        """
        self.bypass_cache().prepare_grading(files)

    def bypass_cache(self) -> ServedSandbox:
        """Return the real sandbox, brought to the current state of the workspace.

        Later commands run in it and are not cached.
        """
        self._check_open()
        if self._mirror is not None:
            self._detach_mirror()
        return self._real

    @property
    def contents(self) -> BlobStore:
        """Store of the contents of the files in snapshots of this sandbox; a snapshot to restore needs its contents there."""
        return self._blobs

    @property
    def has_mirror(self) -> bool:
        """Whether a copy in memory describes the whole workspace, so that no process of the agent can change what is read."""
        return self._mirror is not None

    @property
    def workspace_key(self) -> bytes | None:
        """Key under which a grader's verdicts on the current workspace are cached; None if they cannot be cached.

        The key is a digest of the exact state of the workspace and of the environment of commands. It is None if the session does
        not use the cache.
        """
        if self._mirror is None:
            return None
        return hashlib.sha256(self._environment + self._mirror.state_id.encode()).digest()

    def open_fresh(self) -> ServedSandbox | None:
        """Return a real sandbox with the current files in which no command has run; None if that is impossible.

        It is impossible if the in-memory copy does not describe the whole workspace, or if no new sandbox can be made. Later
        commands run in the returned sandbox and are not cached.
        """
        self._check_open()
        mirror = self._mirror
        if mirror is None:
            return None
        if self._was_used:
            twin = self._real.make_twin()
            if twin is None:
                return None
            self._real.close()
            with self._start_lock:
                self._real, self._has_started, self._is_in_sync, self._was_used = twin, False, False, False
        return self.bypass_cache()

    def close(self) -> None:
        """Close the sandbox. May be called more than once.

        If the real sandbox is just starting, this method first waits for its start.
        """
        self._end_reason = self._end_reason or "closed"
        with self._start_lock:
            self._real.close()
        self.cache.flush()

    def _count_miss(self) -> None:
        with self._count_lock:
            self.counts.misses += 1

    def _check_open(self) -> None:
        if self._end_reason is not None:
            raise SandboxDied(f"the sandbox is gone: {self._end_reason}")

    def _run(self, key: bytes, command: str, timeout_seconds: float) -> ExecResult:
        """Run a command in the real sandbox, and cache its result if the result is repeatable."""
        mirror = self._detach_mirror()
        self._count_miss()
        traced = self._real.run_traced(command, timeout_seconds=timeout_seconds, with_snapshot=True)
        entry = self._refresh_mirror(mirror, traced.result, traced.snapshot) if traced.contained else None
        if entry is not None and traced.repeatable:
            self.cache.put(key, entry, task=self.task, command=command)
        return traced.result

    def _query(self, ask_mirror: Callable[[Mirror], T], ask_real: "Callable[[ServedSandbox], T]") -> T:
        """Answer a file operation from the in-memory copy of the workspace, or else from the real sandbox."""
        self._check_open()
        if self._mirror is None:
            return ask_real(self._real)
        try:
            return ask_mirror(self._mirror)
        except MirrorMiss:
            mirror = self._detach_mirror()
        try:
            answer = ask_real(self._real)
        except ToolError:
            self._refresh_mirror(mirror, EMPTY_RESULT)
            raise
        self._refresh_mirror(mirror, EMPTY_RESULT)
        return answer

    def _detach_mirror(self) -> Mirror:
        """Bring the real sandbox to the state of the in-memory copy of the workspace, and return the copy.

        The copy is not used again until `_refresh_mirror` is called.
        """
        assert self._mirror is not None
        mirror = self._mirror
        if not self._is_in_sync:
            self._start_real()
            target = mirror.snapshot()
            if target.files or self._was_used:
                self._real.restore(target)
        self._is_in_sync = self._was_used = True
        self._mirror = None
        return mirror

    def _refresh_mirror(self, mirror: Mirror, result: ExecResult, snapshot: Snapshot | None = None) -> CacheEntry | None:
        """Update the in-memory copy from the real sandbox, and return the change as a cache entry.

        The result is None if the workspace cannot be copied. The session then continues with the real sandbox only.

        Args:
            mirror: Copy of the workspace.
            result: Result of the command that changed the workspace.
            snapshot: State of the workspace after the command; None takes a snapshot.
        """
        try:
            snapshot = self._real.snapshot() if snapshot is None else snapshot
        except ToolError:
            return None
        entry = None if self._real.has_incomplete_snapshot else mirror.adopt_snapshot(snapshot, result)
        if entry is not None:
            self._mirror = mirror
            self._bypass_if_full()
        return entry

    def _start_real(self) -> None:
        with self._start_lock:
            self._check_open()
            if self._has_started:
                return
            self._real.start()
            self._has_started = True
        self.cache.infos[self._kind] = self._real.info
        self._set_info(self._real.info)

    def _set_info(self, info: SandboxInfo) -> None:
        self._info, self._environment = info, compute_environment_id(info)

    def _bypass_if_full(self) -> None:
        # Near the disk limit, commands may fail for lack of space, which only the real sandbox shows.
        if self._mirror is not None and not self._mirror.has_room:
            self.bypass_cache()
