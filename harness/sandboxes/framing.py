"""The harness's end of the wire to a tool server: frames over any duplex byte stream.

What comes from a sandbox is hostile: lengths are capped before anything is allocated, every wait has a deadline, and
whatever does not fit the protocol ends the sandbox. Nothing is ever sent twice.
"""

import contextlib
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

from harness.errors import SandboxDied
from harness.protocols import SANDBOX_BOUNDS
from harness.sandboxes.toolserver import load_source

MAX_HEADER_BYTES = 2**20
MAX_BODY_BYTES = max(SANDBOX_BOUNDS["file_bytes"][1] + 1, 2 * SANDBOX_BOUNDS["output_bytes"][1])
"""Room for the largest file that may be read, with the byte that tells of more, and for both streams of a command."""
BOOTSTRAP = (
    "import os\n"
    "def take(n):\n"
    " s=b''\n"
    " while len(s)<n:s+=os.read(0,n-len(s)) or os._exit(3)\n"
    " return s\n"
    "exec(compile(take(int.from_bytes(take(4),'big')),'tool server','exec'),{'__name__':'__main__'})"
)
"""What `python3 -c` is given: it reads the server's source from stdin, so that argument lists stay short."""


class ByteStream(Protocol):
    """A duplex connection to a server; closing it from another thread ends a wait."""

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all or raise OSError (TimeoutError at the deadline)."""

    def receive(self, timeout_seconds: float) -> bytes:
        """Some bytes; empty when the other side has closed. Raises OSError (TimeoutError at the deadline)."""

    def close(self) -> None:
        """Hang up; idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message of the protocol."""

    header: dict[str, Any]
    body: bytes = b""


class SocketStream:
    """A byte stream over one end of a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._use_lock = threading.RLock()
        """Who waits at a descriptor that is closed meanwhile may wait at another file that got its number."""

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all."""
        with self._use_lock:
            self._socket.settimeout(max(timeout_seconds, 0.001))
            self._socket.sendall(data)

    def receive(self, timeout_seconds: float) -> bytes:
        """Some bytes."""
        with self._use_lock:
            self._socket.settimeout(max(timeout_seconds, 0.001))
            return self._socket.recv(2**18)

    def close(self) -> None:
        """Shut down first: that wakes a thread that is waiting in `send` or `receive`; the descriptor goes when it has left."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._use_lock:
            self._socket.close()


class FrameConnection:
    """Requests and replies over a byte stream, one at a time."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    def send_source(self, timeout_seconds: float) -> None:
        """Give the bootstrap the server's source."""
        text = load_source("server")
        self._send(struct.pack(">I", len(text)) + text, time.monotonic() + timeout_seconds)

    def request(self, frame: Frame, timeout_seconds: float) -> Frame:
        """Send a request and wait for its reply.

        Raises:
            SandboxDied: no reply in time, the connection ended, or the reply breaks the protocol.
        """
        deadline = time.monotonic() + timeout_seconds
        header = json.dumps(frame.header).encode()
        self._send(struct.pack(">II", len(header), len(frame.body)) + header + frame.body, deadline)
        header_bytes, body_bytes = struct.unpack(">II", self._read_exactly(8, deadline))
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise SandboxDied(f"the sandbox announced a frame of {header_bytes} + {body_bytes} bytes")
        raw = self._read_exactly(header_bytes, deadline)
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise SandboxDied(f"the sandbox sent a header that is not JSON: {raw[:80]!r}") from error
        if not isinstance(value, dict):
            raise SandboxDied(f"the sandbox sent a header that is not an object: {raw[:80]!r}")
        return Frame(header=value, body=self._read_exactly(body_bytes, deadline))

    def close(self) -> None:
        """Hang up; the server then ends every process of the sandbox."""
        self._stream.close()

    def _send(self, data: bytes, deadline: float) -> None:
        try:
            self._stream.send(data, deadline - time.monotonic())
        except OSError as error:
            raise SandboxDied(f"the sandbox does not take requests any more: {error}") from error

    def _read_exactly(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            remaining = deadline - time.monotonic()
            try:
                if remaining <= 0:
                    raise TimeoutError("no answer in time")
                chunk = self._stream.receive(remaining)
            except OSError as error:
                raise SandboxDied(f"the sandbox does not answer: {error}") from error
            if not chunk:
                raise SandboxDied("the sandbox hung up")
            self._buffer += chunk
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        return content
