"""A sandbox that runs a command once: equal actions are answered from the cache, and until one is not, nothing is started.

An action is a command in a state of the workspace. Its outcome is looked up under all that decides it; on a miss a real
sandbox is brought to this state, runs it, and what it printed and changed is kept. Files are answered for by a mirror.

What a command leaves beside its workspace (a process, a file in /tmp) is in no key. So after every real run the tool server
is asked for it, and from then on this session has the real sandbox alone: it neither looks up nor keeps. The same holds once
the workspace holds what a mirror cannot. What was kept before is right all the same.

A real sandbox that nothing was left in is emptied and serves the next session of this process, which takes a tenth of the time
of starting one: see `SandboxPool`.
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
"""The result of no command."""


@dataclass(slots=True)
class CacheCounts:
    """How many commands of a session were answered from the cache, and how many were run."""

    hits: int = 0
    misses: int = 0


class SandboxPool:
    """Started, empty sandboxes by kind, for the next sessions of this process. Thread-safe; closes what it keeps.

    It keeps none whose name tells whose it is, and none in which a command left anything that emptying does not take away.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[Hashable, list[ServedSandbox]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, kind: Hashable) -> ServedSandbox | None:
        """One of this kind, which is the caller's now; None if none waits."""
        with self._lock:
            waiting = self._waiting[kind]
            return waiting.pop() if waiting else None

    def give_back(self, kind: Hashable, sandbox: ServedSandbox) -> bool:
        """Empty a sandbox and keep it; False if it stays the caller's, who has to close it."""
        backend = sandbox.info.backend
        if not is_isolated(backend) or BACKENDS[backend].format_container_name or not sandbox.reset_for_reuse():
            return False
        with self._lock:
            self._waiting[kind].append(sandbox)
        return True

    def close(self) -> None:
        """End all that wait."""
        with self._lock:
            waiting = [sandbox for kept in self._waiting.values() for sandbox in kept]
            self._waiting.clear()
        for sandbox in waiting:
            sandbox.close()


SANDBOX_POOL = SandboxPool()
"""Those of this process."""
multiprocessing.util.Finalize(None, SANDBOX_POOL.close, exitpriority=10)  # atexit is not heard in a worker process


class CachedSandbox(StartedOnce):
    """Keeps `harness.protocols.Sandbox` over a real sandbox that starts when it is first needed. Closes that one."""

    def __init__(self, real: ServedSandbox, cache: ActionCache, *, kind: Hashable, task: str) -> None:
        """Over a sandbox that was not started.

        Args:
            real: as it came from its opener; another one of its kind may take its place.
            cache: where actions are kept.
            kind: equal for sandboxes that are opened alike; the first of a kind in a process starts at once, to tell what it is.
            task: whose actions these are, for people.
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
        """Be ready; the real sandbox waits until it is needed."""
        if self._end_reason != "not started":
            raise SandboxError("a sandbox is started once; open another one")
        self._end_reason = None
        known_info = self._cache.infos.get(self._kind)
        if known_info is None:
            self._start_real()
        else:
            self._set_info(known_info)
        if not is_isolated(self.info.backend):
            self.bypass_cache()

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """The outcome of a command in the workspace, from the cache if it is known."""
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
        """The content of a file."""
        return self._query(lambda mirror: mirror.read(path, max_bytes), lambda real: real.read(path, max_bytes=max_bytes))

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file."""
        write_through = self._is_in_sync and self._mirror is not None

        def write_both(mirror: Mirror) -> None:
            mirror.write(path, content)
            if write_through:
                try:
                    self._real.write(path, content)
                except ToolError:  # the mirror took it, so they differ
                    self._mirror = None
                    raise

        self._query(write_both, lambda real: real.write(path, content))
        self._bypass_if_full()

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """The entries of a directory by name."""
        return self._query(lambda mirror: mirror.list(path), lambda real: real.list(path))

    def snapshot(self) -> Snapshot:
        """The state of the workspace now."""
        self._check_open()
        return self._real.snapshot() if self._mirror is None else self._mirror.snapshot()

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """What changed between two snapshots, by path."""
        return diff_snapshots(self._blobs, older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the workspace back to a snapshot."""
        self._check_open()
        if self._mirror is None or self._mirror.adopt_snapshot(snapshot, EMPTY_RESULT) is None:
            self.bypass_cache().restore(snapshot)
        self._is_in_sync = False

    def lay(self, files: Mapping[str, bytes]) -> None:
        """End every process and put files in place of whatever stands where they belong; the cache is left alone then."""
        self.bypass_cache().lay(files)

    def bypass_cache(self) -> ServedSandbox:
        """The real sandbox, started and in the state of the workspace; from now on the cache is left alone."""
        self._check_open()
        if self._mirror is not None:
            self._sync()
            self._mirror = None
        return self._real

    def close(self) -> None:
        """End the real sandbox if there is one, or leave it for the next session; idempotent."""
        self._end_reason = self._end_reason or "closed"
        real, started, self._started = self._real, self._started, False
        if not (started and SANDBOX_POOL.give_back(self._kind, real)):
            real.close()
        self._cache.flush()

    def _check_open(self) -> None:
        if self._end_reason is not None:
            raise SandboxDied(f"the sandbox is gone: {self._end_reason}")

    def _run(self, key: bytes, command: str, timeout_seconds: float) -> ExecResult:
        """Run a command for real and keep what came of it."""
        mirror = self._detach_mirror()
        self.counts.misses += 1
        traced = self._real.run_traced(command, timeout_seconds=timeout_seconds)
        entry = self._refresh_mirror(mirror, traced.result) if traced.contained else None
        if entry is not None and traced.repeatable:
            self._cache.put(key, entry, task=self._task, command=command)
        return traced.result

    def _query(self, ask_mirror: Callable[[Mirror], T], ask_real: "Callable[[ServedSandbox], T]") -> T:
        """The answer of the mirror, or where it is not sure that of the real sandbox."""
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
        """Bring the real sandbox to the state of the mirror, which is away until `_refresh_mirror` can use it."""
        assert self._mirror is not None
        self._sync()
        mirror, self._mirror = self._mirror, None
        return mirror

    def _refresh_mirror(self, mirror: Mirror, result: ExecResult) -> CacheEntry | None:
        """Take the state of the real sandbox over; None if the mirror cannot hold it, which then stays away for good."""
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
        """Start the real sandbox if need be and bring it to the state of the mirror."""
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
        """Leave a workspace that grows towards the limit of a disk to the real one, which knows how that ends."""
        if self._mirror is not None and not self._mirror.has_room:
            self.bypass_cache()
