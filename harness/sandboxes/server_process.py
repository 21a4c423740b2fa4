"""The tool server of a sandbox as a child process of the harness, for the backends bubblewrap and local."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.protocols import SandboxLimits
from harness.sandboxes.deaths import ServerEnd
from harness.sandboxes.framing import BOOTSTRAP, SocketStream

_FORGET_FOLDER = "import sys;sys.path=[p for p in sys.path if p]"
"""Statements that keep Python from importing modules from the current folder."""
EXIT_SECONDS = 3.0
"""Seconds to wait for a tool server to end after its connection was closed, before it is killed."""


class ServerProcess:
    """Tool server (first process of a sandbox) as a child process, connected to the harness by a socket."""

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int] = (), user: int | None = None, stdout: int | None = None
    ) -> None:
        """Start the tool server as a child process.

        Args:
            command: Program that runs the tool server, with its arguments.
            pass_fds: File descriptors that the process inherits.
            user: User id and group id under which the process runs; None keeps the user and group of the harness.
            stdout: File descriptor that the process has as stdout at its start; the command must then replace it by a copy of its
                stdin. None uses the socket.
        """
        ours, theirs = socket.socketpair()
        self._stderr = os.memfd_create("stderr")
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=theirs.fileno(),
                stdout=theirs.fileno() if stdout is None else stdout,
                stderr=self._stderr,
                pass_fds=tuple(pass_fds),
                env={},
                cwd="/",
                start_new_session=True,  # so that Ctrl-C in the terminal reaches the harness only
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        except BaseException:
            ours.close()
            os.close(self._stderr)
            raise
        finally:
            theirs.close()
        self.stream = SocketStream(ours)

    def read_stderr(self) -> str:
        """Return the beginning of what the tool server wrote to stderr."""
        if self._stderr < 0:
            return ""
        return os.pread(self._stderr, 4096, 0).decode("utf-8", "replace")

    def wait_for_signal(self) -> int | None:
        """Wait a short time for the tool server to end; return the number of the signal that killed it, or None."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(EXIT_SECONDS)
            if code < 0:
                return -code
            if code > 128:  # how bubblewrap reports that a signal killed its child
                return code - 128
        return None

    def remove(self) -> None:
        """Close the connection, and kill the tool server if it does not end soon. May be called more than once."""
        self.stream.close()
        try:
            self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            _kill_with_children(self._process.pid)
            self._process.wait()
        if self._stderr >= 0:
            os.close(self._stderr)
            self._stderr = -1


class ProcessLauncher:
    """Base class of launchers that run the tool server of a sandbox as a child process of the harness."""

    _server: ServerProcess | None = None

    def __init__(self, limits: SandboxLimits) -> None:
        self._limits = limits

    def remove(self) -> None:
        """End the tool server and every process started by it."""
        if self._server is not None:
            self._server.remove()

    def find_end(self, oom_kills: int) -> ServerEnd:
        """Return how the tool server ended, after the connection to it was lost."""
        return ServerEnd(self._server.wait_for_signal() if self._server is not None else None)

    def read_stderr(self) -> str:
        """Return the beginning of what the tool server wrote to stderr."""
        return self._server.read_stderr() if self._server is not None else ""


def build_python_command(python: str, *, isolated: bool = True) -> tuple[str, ...]:
    """Return the command with which a Python runs the tool server.

    Args:
        python: Path of the Python.
        isolated: Whether the Python uses UTF-8 and ignores the environment, which may contain settings of the user. Otherwise,
            the environment must be that of commands. The Python then behaves as for commands, so forks of the tool server can
            run Python programs.
    """
    if isolated:
        return (python, "-I", "-S", "-X", "utf8", "-c", BOOTSTRAP)
    return (python, "-S", "-B", "-c", f"{_FORGET_FOLDER}\n{BOOTSTRAP}")


def build_rlimits(limits: SandboxLimits) -> tuple[tuple[str, int], ...]:
    """Return the resource limits of each process in a sandbox, by name of the limit in the module `resource`."""
    return (
        ("CORE", 0),
        ("FSIZE", limits.disk_bytes),
        ("NOFILE", 1024),
        ("NPROC", limits.pids),
        ("DATA", limits.memory_bytes),
        ("AS", compute_address_space_bytes(limits)),
    )


def compute_address_space_bytes(limits: SandboxLimits) -> int:
    """Return how many bytes of addresses a process in a sandbox may reserve, since runtimes reserve more than they use."""
    return max(8 * limits.memory_bytes, 4 * 2**30)


def _kill_with_children(pid: int) -> None:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        children = []
    for victim in (*children, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
