"""A tool server as a child process of the harness: what bubblewrap and local have in common."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.protocols import SandboxLimits
from harness.sandboxes.framing import BOOTSTRAP, SocketStream

EXIT_SECONDS = 3.0
"""How long a server may take to end its processes after the hang-up, before it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUser:
    """The user that a child process becomes."""

    uid: int
    gid: int


class ServerProcess:
    """One child process that speaks the wire format over its stdin and stdout, which are one socket."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        identity: ProcessUser | None = None,
        stdout: int | None = None,
    ) -> None:
        """Start it; with a `stdout` given it is for the command to move stdin, which is duplex, to its place."""
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
                user=identity.uid if identity else None,
                group=identity.gid if identity else None,
                extra_groups=[] if identity else None,
            )
        except BaseException:
            ours.close()
            os.close(self._stderr)
            raise
        finally:
            theirs.close()
        self.stream = SocketStream(ours)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

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
