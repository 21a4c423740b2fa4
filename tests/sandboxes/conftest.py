"""Sandboxes with a faulty server: the client is connected to a thread that sends prepared replies over a real socket."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from harness.protocols import SandboxInfo, SandboxLimits
from harness.sandboxes.client import LaunchedServer, ServedSandbox
from harness.sandboxes.deaths import ServerEnd
from harness.sandboxes.framing import SocketStream

LIMITS = SandboxLimits(output_bytes=1000, file_bytes=1000, disk_bytes=10_000)


NUMBER = 99_999_999
"""Stands for the number of the request in a prepared reply."""


def frame(header: object, body: bytes = b"", number: int = NUMBER) -> bytes:
    """Return a message as a server would send it; by default it is the reply to whatever request it follows."""
    raw = (
        header
        if isinstance(header, bytes)
        else json.dumps(header | {"number": number} if isinstance(header, dict) else header).encode()
    )
    return struct.pack(">II", len(raw), len(body)) + raw + body


class Liar:
    """Launches a server that accepts the connection and then answers each request with prepared bytes; None closes the
    connection.
    """

    def __init__(self, answers: list[bytes | None], hello: bytes) -> None:
        self.answers, self.hello = answers, hello
        self.removed = 0
        self.ending = threading.Lock()
        self.together = 0
        """Number of times that the end began in one thread before it was over in another."""

    def launch(self) -> LaunchedServer:
        ours, self.theirs = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return LaunchedServer(
            stream=SocketStream(ours),
            info=SandboxInfo(backend="memory", image=None, isolation=(), limits=LIMITS, enforced=()),
            workspace="/workspace",
            scratch="/tmp",
            rlimits=(),
        )

    def remove(self) -> None:
        self.removed += 1
        self._end(0.2)

    def read_stderr(self) -> str:
        self._end(0.0)
        return "words"

    def find_end(self, oom_kills: int) -> ServerEnd:
        return ServerEnd()

    def _end(self, seconds: float) -> None:
        if not self.ending.acquire(blocking=False):
            self.together += 1
            return
        time.sleep(seconds)
        self.ending.release()

    def _serve(self) -> None:
        with self.theirs, self.theirs.makefile("rb") as incoming:
            for _ in range(3):
                incoming.read(struct.unpack(">I", incoming.read(4))[0])
            for number, answer in enumerate([self.hello, *self.answers], 1):
                lengths = incoming.read(8)
                if len(lengths) < 8:
                    return
                incoming.read(sum(struct.unpack(">II", lengths)))
                if answer is None:
                    return
                self.theirs.sendall(answer.replace(b"%d" % NUMBER, b"%8d" % number))
            incoming.read(1)


@pytest.fixture
def lying() -> Iterator[Callable[..., ServedSandbox]]:
    """Return a function that starts a sandbox whose server sends the given replies."""
    sandboxes: list[ServedSandbox] = []

    def make(*answers: bytes | None) -> ServedSandbox:
        sandbox = ServedSandbox(Liar(list(answers), frame({"pid": 1})), LIMITS, grace_seconds=0.2)
        sandboxes.append(sandbox)
        sandbox.start()
        return sandbox

    yield make
    for sandbox in sandboxes:
        sandbox.close()
