"""The connection of the harness to a tool server, over which requests and replies are sent in frames as a stream of bytes.

Everything received from a sandbox is untrusted: lengths are checked before memory is allocated, every wait has a deadline, and a
violation of the protocol ends the sandbox. No request is ever sent twice.
"""

import contextlib
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER
from typing import Any, Protocol

from harness.errors import SandboxDied
from harness.protocols import SANDBOX_BOUNDS
from harness.sandboxes.toolserver import compile_source, load_source

MAX_HEADER_BYTES = 2**20
MAX_BODY_BYTES = max(SANDBOX_BOUNDS["file_bytes"][1] + 1, 2 * SANDBOX_BOUNDS["output_bytes"][1])
"""Maximum size of the body of a message in bytes, enough for the largest file or for both outputs of a command."""
BOOTSTRAP = (
    "import os,marshal,_frozen_importlib_external as f\n"
    "def take(n):\n"
    " s=b''\n"
    " while len(s)<n:s+=os.read(0,n-len(s)) or os._exit(3)\n"
    " return s\n"
    "t,m,c=[take(int.from_bytes(take(4),'big'))for _ in'tmc']\n"
    "exec(marshal.loads(c)if m==f.MAGIC_NUMBER else compile(t,'tool server','exec'),{'__name__':'__main__'})"
)
"""Small program for `python3 -c` that reads the tool server from stdin, so that argument lists stay short.

It reads three parts: the source of the tool server, the number of a version of Python's bytecode, and the code that this version
compiled from the source. Compiling takes longer than the rest of the start, so the code is used if the number is that of the
sandbox's Python.
"""


class ByteStream(Protocol):
    """A connection over which bytes are sent to a tool server and received; closing it ends a wait in another thread."""

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all bytes to the tool server. Raises OSError, or TimeoutError at the deadline."""

    def receive(self, timeout_seconds: float) -> bytes:
        """Return the next bytes from the tool server, or no bytes after the server closed the connection.

        Raises:
            OSError: The connection to the tool server failed.
            TimeoutError: No bytes arrived before the deadline.
        """

    def close(self) -> None:
        """Close the connection to the tool server; may be called more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A request to the tool server, or a reply; it consists of a header, which is sent as JSON, and a body of bytes."""

    header: dict[str, Any]
    body: bytes = b""


class SocketStream:
    """A connection to a tool server over one end of a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._use_lock = threading.RLock()
        """Lock held while the socket is used, because the number of a closed descriptor may be reused by another file."""

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all bytes to the tool server over the socket."""
        with self._use_lock:
            self._socket.settimeout(max(timeout_seconds, 0.001))
            self._socket.sendall(data)

    def receive(self, timeout_seconds: float) -> bytes:
        """Return some bytes received from the tool server over the socket."""
        with self._use_lock:
            self._socket.settimeout(max(timeout_seconds, 0.001))
            return self._socket.recv(2**18)

    def close(self) -> None:
        """Wake a thread that waits in `send` or `receive`, then close the socket once no thread uses it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._use_lock:
            self._socket.close()


class FrameConnection:
    """A connection that sends one request at a time to a tool server and receives the reply."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    def send_source(self, timeout_seconds: float) -> None:
        """Send the tool server, as source and as code, to the small program that waits for it in the sandbox."""
        parts = (load_source("server"), MAGIC_NUMBER, compile_source("server"))
        message = b"".join(struct.pack(">I", len(part)) + part for part in parts)
        self._send(message, time.monotonic() + timeout_seconds)

    def request(self, frame: Frame, timeout_seconds: float) -> Frame:
        """Send a request to the tool server and return the reply.

        Raises:
            SandboxDied: No reply arrived in time, the connection ended, or the reply violates the protocol.
        """
        deadline = time.monotonic() + timeout_seconds
        header = json.dumps(frame.header).encode()
        self._send(struct.pack(">II", len(header), len(frame.body)) + header + frame.body, deadline)
        header_bytes, body_bytes = struct.unpack(">II", self._read_exactly(8, deadline))
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise SandboxDied(f"the sandbox announced a frame of {header_bytes} + {body_bytes} bytes, which is too large")
        raw = self._read_exactly(header_bytes, deadline)
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise SandboxDied(f"the sandbox sent a header that is not JSON: {raw[:80]!r}") from error
        if not isinstance(value, dict):
            raise SandboxDied(f"the sandbox sent a header that is not an object: {raw[:80]!r}")
        return Frame(header=value, body=self._read_exactly(body_bytes, deadline))

    def close(self) -> None:
        """Close the connection; the tool server then ends every process of the sandbox."""
        self._stream.close()

    def _send(self, data: bytes, deadline: float) -> None:
        try:
            self._stream.send(data, deadline - time.monotonic())
        except OSError as error:
            raise SandboxDied(f"the request could not be sent to the sandbox: {error}") from error

    def _read_exactly(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            remaining = deadline - time.monotonic()
            try:
                if remaining <= 0:
                    raise TimeoutError("no reply before the deadline")
                chunk = self._stream.receive(remaining)
            except OSError as error:
                raise SandboxDied(f"the sandbox did not reply: {error}") from error
            if not chunk:
                raise SandboxDied("the sandbox closed the connection")
            self._buffer += chunk
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        return content
