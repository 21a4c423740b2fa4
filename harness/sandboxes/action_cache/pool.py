"""Sandboxes that wait for the next session of this process: emptying one takes a tenth of the time of starting one.

Only such as have no name that tells whose they are, and in which no command left anything that emptying does not take away.
They end with their process, or when `close` is called.
"""

import multiprocessing.util
import threading
from collections import defaultdict
from collections.abc import Hashable

from harness.sandboxes.backends import BACKENDS, is_isolated
from harness.sandboxes.client import ServedSandbox


class SandboxPool:
    """Started, empty sandboxes by kind. Thread-safe; closes what it keeps."""

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
