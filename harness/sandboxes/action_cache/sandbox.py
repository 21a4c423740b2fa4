"""A sandbox that answers repeated commands from the action cache and starts a real sandbox only when one is needed.

An action is a command in a certain state of the workspace. Its result is looked up by a key over everything that determines the
result. On a miss a real sandbox is brought to this state and runs the command, and the result is stored. File operations are
answered by a mirror of the workspace.

Effects of a command outside the workspace, such as a process or a file in /tmp, are not part of the key. After each real run the
tool server therefore reports such effects. From then on the session uses only the real sandbox and neither reads nor writes the
cache; likewise if the workspace holds something that the mirror cannot. Entries stored before remain valid.

A real sandbox without such effects is emptied and reused by the next session of this process, which takes a tenth of the time of
starting one: see `SandboxPool`.
"""

import multiprocessing.util
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import SandboxDied, SandboxError, ToolError
from harness.protocols import ExecResult, FileChange, FileEntry, SandboxInfo, Snapshot
from harness.sandboxes.action_cache.cache import ActionCache
from harness.sandboxes.action_cache.entry import CacheEntry, compute_action_key, compute_environment_id
from harness.sandboxes.action_cache.mirror import Mirror, MirrorMiss
from harness.sandboxes.backends import BACKENDS, is_isolated
from harness.sandboxes.client import ServedSandbox, StartedOnce, check_timeout
from harness.sandboxes.snapshots import diff_snapshots

T = TypeVar("T")
EMPTY_RESULT = ExecResult(exit_code=0, stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)
"""Result of a successful command without output."""


@dataclass(slots=True)
class CacheCounts:
    """Number of commands of a session that were answered from the cache (hits) or run (misses)."""

    hits: int = 0
    misses: int = 0


class SandboxPool:
    """Started, empty sandboxes by kind, for later sessions of this process. Thread-safe; closes the sandboxes that it keeps.

    It does not keep sandboxes with a name that belongs to one session, nor sandboxes in which a command left something that
    emptying does not remove.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[Hashable, list[ServedSandbox]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, kind: Hashable) -> ServedSandbox | None:
        """Remove a sandbox of this kind and return it to the caller, who then owns it; None if there is none."""
        with self._lock:
            waiting = self._waiting[kind]
            return waiting.pop() if waiting else None

    def give_back(self, kind: Hashable, sandbox: ServedSandbox) -> bool:
        """Empty a sandbox and keep it; return False if it cannot be kept, so that the caller must close it."""
        backend = sandbox.info.backend
        if not is_isolated(backend) or BACKENDS[backend].format_container_name or not sandbox.reset_for_reuse():
            return False
        with self._lock:
            self._waiting[kind].append(sandbox)
        return True

    def close(self) -> None:
        """Close all sandboxes in the pool."""
        with self._lock:
            waiting = [sandbox for kept in self._waiting.values() for sandbox in kept]
            self._waiting.clear()
        for sandbox in waiting:
            sandbox.close()


SANDBOX_POOL = SandboxPool()
"""The pool of this process."""
multiprocessing.util.Finalize(None, SANDBOX_POOL.close, exitpriority=10)  # worker processes do not run atexit functions


class CachedSandbox(StartedOnce):
    """Implements `harness.protocols.Sandbox` with a real sandbox that is started when first needed, and closed at the end."""

    def __init__(self, real: ServedSandbox, cache: ActionCache, *, kind: Hashable, task: str) -> None:
        """Wrap a sandbox that was not started.

        Args:
            real: The real sandbox; another one of the same kind may replace it.
            cache: Storage of actions.
            kind: Value that is equal for sandboxes opened with the same arguments. The first sandbox of a kind in a process
                starts at once, to learn its properties.
            task: Name of the task, for display.
        """
        self.counts = CacheCounts()
        self._real, self._cache, self._kind, self._task = real, cache, kind, task
        mirror = Mirror(real.limits)
        self._mirror: Mirror | None = mirror
        self._started = self._is_in_sync = False
        self._end_reason: str | None = "not started"
        self._blobs = mirror.blobs
        self._environment = b""
        real.use_blobs(self._blobs)

    def start(self) -> None:
        """Prepare the sandbox; the real sandbox is started only when needed."""
        if self._end_reason != "not started":
            raise SandboxError("a sandbox can be started only once; open another sandbox")
        self._end_reason = None
        known_info = self._cache.infos.get(self._kind)
        if known_info is None:
            self._start_real()
        else:
            self._set_info(known_info)
        if not is_isolated(self.info.backend):
            self.bypass_cache()

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Return the result of a command, from the cache if it is known."""
        self._check_open()
        check_timeout(timeout_seconds)
        if self._mirror is None:
            self.counts.misses += 1
            return self._real.run(command, timeout_seconds=timeout_seconds)
        key = compute_action_key(self._environment, self._mirror.state_id, command, timeout_seconds)
        entry = self._cache.get(key)
        after = None if entry is None else self._mirror.apply_entry(entry)
        if entry is None or after is None:
            return self._run(key, command, timeout_seconds)
        self.counts.hits += 1
        if after is not self._mirror:
            self._mirror, self._is_in_sync = after, False
            self._bypass_if_full()
        return entry.result

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file, cut to `max_bytes` if given."""
        return self._query(lambda mirror: mirror.read(path, max_bytes), lambda real: real.read(path, max_bytes=max_bytes))

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file and create missing parent directories."""
        write_through = self._is_in_sync and self._mirror is not None

        def write_both(mirror: Mirror) -> None:
            mirror.write(path, content)
            if write_through:
                try:
                    self._real.write(path, content)
                except ToolError:  # only the mirror accepted it, so mirror and sandbox differ
                    self._mirror = None
                    raise

        self._query(write_both, lambda real: real.write(path, content))
        self._bypass_if_full()

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory, sorted by name."""
        return self._query(lambda mirror: mirror.list(path), lambda real: real.list(path))

    def snapshot(self) -> Snapshot:
        """Return the current state of the workspace."""
        self._check_open()
        return self._real.snapshot() if self._mirror is None else self._mirror.snapshot()

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return the files that differ between two snapshots, sorted by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the workspace back to the state of a snapshot."""
        self._check_open()
        if self._mirror is None or self._mirror.adopt_snapshot(snapshot, EMPTY_RESULT) is None:
            self.bypass_cache().restore(snapshot)
        self._is_in_sync = False

    def lay(self, files: Mapping[str, bytes]) -> None:
        """End every process and write files, replacing anything in their place; from then on the cache is not used."""
        self.bypass_cache().lay(files)

    def bypass_cache(self) -> ServedSandbox:
        """Return the real sandbox, started and in the state of the workspace; from then on the cache is not used."""
        self._check_open()
        if self._mirror is not None:
            self._sync()
            self._mirror = None
        return self._real

    def close(self) -> None:
        """Keep the real sandbox for the next session, or end it if it cannot be kept; may be called more than once."""
        self._end_reason = self._end_reason or "closed"
        real, started, self._started = self._real, self._started, False
        if not (started and SANDBOX_POOL.give_back(self._kind, real)):
            real.close()
        self._cache.flush()

    def _check_open(self) -> None:
        if self._end_reason is not None:
            raise SandboxDied(f"the sandbox is gone: {self._end_reason}")

    def _run(self, key: bytes, command: str, timeout_seconds: float) -> ExecResult:
        """Run a command in the real sandbox and store its result if it is repeatable."""
        mirror = self._detach_mirror()
        self.counts.misses += 1
        traced = self._real.run_traced(command, timeout_seconds=timeout_seconds)
        entry = self._refresh_mirror(mirror, traced.result) if traced.contained else None
        if entry is not None and traced.repeatable:
            self._cache.put(key, entry, task=self._task, command=command)
        return traced.result

    def _query(self, ask_mirror: Callable[[Mirror], T], ask_real: "Callable[[ServedSandbox], T]") -> T:
        """Return the answer of the mirror or, after a `MirrorMiss`, that of the real sandbox."""
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
        """Bring the real sandbox to the state of the mirror, and set the mirror aside until `_refresh_mirror` updates it."""
        assert self._mirror is not None
        self._sync()
        mirror, self._mirror = self._mirror, None
        return mirror

    def _refresh_mirror(self, mirror: Mirror, result: ExecResult) -> CacheEntry | None:
        """Update the mirror from the real sandbox and return the change as an entry.

        If the workspace cannot be mirrored, return None; the session then continues without a mirror.
        """
        try:
            snapshot = self._real.snapshot()
        except ToolError:
            return None
        entry = None if self._real.has_incomplete_snapshot else mirror.adopt_snapshot(snapshot, result)
        if entry is not None:
            self._mirror = mirror
            self._bypass_if_full()
        return entry

    def _sync(self) -> None:
        """Start the real sandbox if needed and bring it to the state of the mirror."""
        fresh = not self._started
        if fresh:
            self._start_real()
        if self._mirror is not None and not self._is_in_sync:
            target = self._mirror.snapshot()
            if target.files or not fresh:
                self._real.restore(target)
        self._is_in_sync = True

    def _start_real(self) -> None:
        spare = SANDBOX_POOL.take(self._kind)
        if spare is None:
            self._real.start()
        else:
            self._real = spare.use_blobs(self._blobs)
        self._started = True
        self._cache.infos[self._kind] = self._real.info
        self._set_info(self._real.info)

    def _set_info(self, info: SandboxInfo) -> None:
        self._info, self._environment = info, compute_environment_id(info)

    def _bypass_if_full(self) -> None:
        """Use only the real sandbox once the workspace comes near the disk limit, because only a real sandbox fails correctly."""
        if self._mirror is not None and not self._mirror.has_room:
            self.bypass_cache()
