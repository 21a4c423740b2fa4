"""Sandbox whose programs see a shifted date, used to find tasks whose results depend on the date.

Such a task gives equal results when it is repeated at once, but different results on the next day. Programs load the library
`libfaketime`, which replaces their clock.
"""

import importlib.util
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from harness.protocols import ExecResult, FileChange, FileEntry, Sandbox, SandboxInfo, Snapshot

SHIFT_SECONDS = 1018 * 86_400 + 5 * 3600 + 17 * 60 + 23
"""Shift of the clock in seconds; year, month, day of the month, day of the week, hour and minute all change."""
MAX_ERROR_SECONDS = 3600
"""Largest difference in seconds between a shifted clock and the expected time."""
SANDBOX_LIBRARY_PATH = "/tmp/harness-clock.so"  # noqa: S108  (private to the sandbox)
INSTALL_ADVICE = "install libfaketime, e.g. by the extra `task-check` of harness"


def find_library() -> Path | None:
    """Return the path of the library that replaces the clock of programs; None if it is not installed."""
    spec = importlib.util.find_spec("libfaketime")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    return None if folder is None else next(iter(sorted(folder.rglob("libfaketime.so.1"))), None)


def build_environment(library: str | os.PathLike[str]) -> dict[str, str]:
    """Return the environment variables that make a program see the shifted date.

    With these variables, the program loads the library `libfaketime`.
    """
    return {"LD_PRELOAD": os.fspath(library), "FAKETIME": f"+{SHIFT_SECONDS}", "DONT_FAKE_MONOTONIC": "1"}


def remove_leftovers(pid: int) -> None:
    """Remove the shared memory that `libfaketime` leaves behind for a process that ended without cleaning up."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        Path("/dev/shm", name).unlink(missing_ok=True)  # noqa: S108


class ShiftedClockSandbox:
    """Sandbox whose commands run with a shifted date and other process ids.

    The files that the commands write have the shifted date, too.

    Args:
        sandbox: Sandbox that runs the commands. It must have a temporary directory of its own at `/tmp`.
        library: Path of the library that replaces the clock, on this machine.
    """

    def __init__(self, sandbox: Sandbox, library: Path) -> None:
        self._sandbox, self._library = sandbox, library
        variables = " ".join(f"{name}={value}" for name, value in build_environment(SANDBOX_LIBRARY_PATH).items())
        self._prefix = f"export {variables}\n"

    @property
    def info(self) -> SandboxInfo:
        """Backend, image and limits of the sandbox that runs the commands."""
        return self._sandbox.info

    def start(self) -> None:
        """Start the sandbox and install the library that replaces the clock of commands."""
        self._sandbox.start()
        self._install()

    def measure_shift(self) -> float:
        """Return by how many seconds the clock of a command is ahead of the clock of the sandbox."""
        shifted_time, real_time = (runner.run("date +%s").stdout for runner in (self, self._sandbox))
        return float(shifted_time or 0) - float(real_time or 0)

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Run a shell command with the shifted date.

        Files that still have a real date are given a shifted date first.
        """
        self._sandbox.run(_SHIFT_FILES)
        return self._sandbox.run(self._prefix + command, timeout_seconds=timeout_seconds)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file."""
        return self._sandbox.read(path, max_bytes=max_bytes)

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file."""
        self._sandbox.write(path, content)

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory."""
        return self._sandbox.list(path)

    def allow_parallel_calls(self) -> AbstractContextManager[None]:
        """Return a context in which several threads can use the sandbox at the same time."""
        return self._sandbox.allow_parallel_calls()

    def snapshot(self) -> Snapshot:
        """Return the state of the workspace."""
        return self._sandbox.snapshot()

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return the differences between two states of the workspace."""
        return self._sandbox.diff(older, newer)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a state of the workspace, and install the clock library again, since restoring deletes it."""
        self._sandbox.restore(snapshot)
        self._install()

    def prepare_grading(self, files: Mapping[str, bytes]) -> None:
        """Write files into the workspace, and install the clock library again.

        Writing the files deletes all temporary files, including the library.
        """
        self._sandbox.prepare_grading(files)
        self._install()

    def close(self) -> None:
        """Delete the sandbox."""
        self._sandbox.close()

    def _install(self) -> None:
        name = ".harness-clock.so"
        self._sandbox.write(name, self._library.read_bytes())
        self._sandbox.run(f"mv {name} {SANDBOX_LIBRARY_PATH}")


_SHIFT_FILES = (
    f"find . ! -newermt @$(($(date +%s) + {SHIFT_SECONDS // 2})) "
    f"""-exec sh -c 'for path; do touch -h -r "$path" -d "+{SHIFT_SECONDS} seconds" "$path"; done' sh {{}} +"""
)
"""Shell command that shifts the modification times of all files that do not have the shifted date yet."""
