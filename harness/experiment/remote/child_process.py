"""Handle for the child process in which a worker runs its trials: calls functions there, each with a time limit.

The program of the child process is `harness.experiment.remote.child`.
"""

import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from harness.experiment.remote.child import GRACE_SECONDS, LENGTH, Message, encode_message

POLL_SECONDS = 0.2
"""Interval in seconds at which the worker checks whether a running call has to stop."""
START_SECONDS = 300.0
"""Maximum time in seconds until a call that was sent begins; meanwhile the child process starts and imports what it needs."""

_PROGRAM = "from harness.experiment.remote.child import main; main()"

EndKind: TypeAlias = Literal["returned", "raised", "died", "overran", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call in a child process ended, e.g. with a value, with an exception, or because the process died."""

    kind: EndKind
    value: bytes = b""
    """Pickled value that the function returned, or pickled exception that it raised; empty in other cases."""
    exit_code: int | None = None
    """Exit code of the child process if it died."""
    has_begun: bool = True
    """Whether the child process has begun to run the function."""


class ChildProcess:
    """Child process that runs one call after another.

    The process ends with its parent process, even if the parent is killed.
    """

    def __init__(self, folder: Path) -> None:
        """Start the child process.

        Args:
            folder: Folder that the child process removes if its parent process dies.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C in the terminal of the worker must not reach the trial
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._received = bytearray()
        self.calls = 0
        """Number of calls that the process was sent."""

    @property
    def pid(self) -> int:
        """Id that the operating system gave to the child process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the child process is running."""
        return self._process.poll() is None

    def call(
        self,
        call: bytes,
        *more_arguments: object,
        timeout_seconds: float,
        on_begin: Callable[[], None] = lambda: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> CallEnd:
        """Run a pickled call (a function with its arguments) in the child process, and return how the call ended.

        The process no longer runs after a call that exceeded its time limit or was stopped.

        Args:
            call: Pickled function and arguments.
            more_arguments: Further arguments, which the function gets after those in `call`.
            timeout_seconds: Maximum duration of the call in seconds, from the moment when the process has imported the function.
            on_begin: Function that is called when the call begins.
            is_stopped: Function that returns whether the call has to end at once; asked a few times a second.
        """
        self.calls += 1
        has_begun, deadline = False, time.monotonic() + START_SECONDS
        try:
            self._requests.write(encode_message((call, more_arguments)))
            self._requests.flush()
            while not is_stopped():
                message = self._receive(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
                match message:
                    case None if time.monotonic() >= deadline:
                        self._terminate()
                        return CallEnd(kind="overran", has_begun=has_begun) if has_begun else self._describe_death(has_begun)
                    case None:
                        pass
                    case Message(kind="began"):
                        has_begun, deadline = True, time.monotonic() + timeout_seconds
                        on_begin()
                    case Message(kind=("returned" | "raised") as kind, value=value):
                        return CallEnd(kind=kind, value=value, has_begun=has_begun)
        except (EOFError, BrokenPipeError):
            return self._describe_death(has_begun)
        self._terminate()
        return CallEnd(kind="stopped", has_begun=has_begun)

    def end(self) -> None:
        """End the process; a running trial has a few seconds to close its sandbox."""
        self._terminate()
        self._replies.close()
        with suppress(BrokenPipeError):
            self._requests.close()

    def _describe_death(self, has_begun: bool) -> CallEnd:
        self._terminate()
        return CallEnd(kind="died", exit_code=self._process.returncode, has_begun=has_begun)

    def _terminate(self) -> None:
        """End the process with SIGTERM; if it does not end in time, kill all processes of its session."""
        try:
            self._process.terminate()
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _receive(self, timeout_seconds: float) -> Message | None:
        """Return the next message of the child process; None if no message arrives in time.

        Raises:
            EOFError: The process has ended.
        """
        deadline = time.monotonic() + timeout_seconds
        while (message := self._take_message()) is None:
            remaining_seconds = max(0.0, deadline - time.monotonic())
            if not select.select([self._replies], [], [], remaining_seconds)[0]:
                return None
            chunk = os.read(self._replies.fileno(), 1 << 20)
            if not chunk:
                raise EOFError
            self._received += chunk
        return message

    def _take_message(self) -> Message | None:
        if len(self._received) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return None
        body = bytes(self._received[LENGTH.size : end])
        del self._received[:end]
        message = pickle.loads(body)  # noqa: S301  (written by the child process)
        assert isinstance(message, Message)
        return message
