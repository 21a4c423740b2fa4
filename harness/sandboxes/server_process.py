"""A tool server as a child process of the harness: what bubblewrap and local have in common."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.protocols import SandboxLimits
from harness.sandboxes.framing import BOOTSTRAP, SocketStream

EXIT_SECONDS = 3.0
"""How long a server may take to end its processes after the hang-up, before it is killed."""


class ServerProcess:
    """One child process that speaks the wire format over its stdin and stdout, which are one socket."""

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int] = (), user: int | None = None, stdout: int | None = None
    ) -> None:
        """Start the process.

        Args:
            command: program with its arguments.
            pass_fds: descriptors that the process inherits.
            user: number of the user and of the group that the process becomes; None = those of the harness.
            stdout: descriptor; the command has then to move stdin, which is duplex, to its place. None = as stdin.
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
                start_new_session=True,  # a Ctrl-C in the terminal is for the harness
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
        """What it has printed on stderr."""
        if self._stderr < 0:
            return ""
        return os.pread(self._stderr, 4096, 0).decode("utf-8", "replace")

    def remove(self) -> None:
        """Hang up, wait, and kill what does not go; idempotent."""
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
    """A launcher of a child process of the harness."""

    _server: ServerProcess | None = None

    def __init__(self, limits: SandboxLimits) -> None:
        self._limits = limits

    def remove(self) -> None:
        """End the process and all that it has started."""
        if self._server is not None:
            self._server.remove()

    def read_stderr(self) -> str:
        """Return the output of the process on stderr."""
        return self._server.read_stderr() if self._server is not None else ""


def build_python_command(python: str) -> tuple[str, ...]:
    """How a python is started as a tool server: isolated, no site packages, UTF-8."""
    return (python, "-I", "-S", "-X", "utf8", "-c", BOOTSTRAP)


def build_rlimits(limits: SandboxLimits) -> tuple[tuple[str, int], ...]:
    """The limits of a process without cgroups. Address space is wider than memory: runtimes reserve much that they never use."""
    return (
        ("CORE", 0),
        ("FSIZE", limits.disk_bytes),
        ("NOFILE", 1024),
        ("NPROC", limits.pids),
        ("DATA", limits.memory_bytes),
        ("AS", max(8 * limits.memory_bytes, 4 * 2**30)),
    )


def _kill_with_children(pid: int) -> None:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        children = []
    for victim in (*children, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
