"""The connection of the harness to a tool server, over which requests and replies are sent in frames as a stream of bytes.

Several threads may send requests at the same time. Each request has a number, which its reply repeats, because replies arrive in
the order in which the operations end.

Everything received from a sandbox is untrusted: lengths are checked before memory is allocated, every wait has a deadline, and a
violation of the protocol ends the sandbox. No request is ever sent twice.
"""

import contextlib
import itertools
import json
import socket
import ssl
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
    """A connection over which one thread sends bytes to a tool server while another receives; closing it ends both waits."""

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
        self._receiver = connection
        self._receive_lock = threading.RLock()
        """Lock held while the socket is used, because the number of a closed descriptor may be reused by another file."""
        if isinstance(connection, ssl.SSLSocket):  # encrypted connections can be used by one thread at a time only
            self._sender, self._send_lock = self._receiver, self._receive_lock
        else:  # the duplicate has a timeout of its own
            self._sender, self._send_lock = connection.dup(), threading.RLock()

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all bytes to the tool server over the socket."""
        with self._send_lock:
            self._sender.settimeout(max(timeout_seconds, 0.001))
            self._sender.sendall(data)

    def receive(self, timeout_seconds: float) -> bytes:
        """Return some bytes received from the tool server over the socket."""
        with self._receive_lock:
            self._receiver.settimeout(max(timeout_seconds, 0.001))
            return self._receiver.recv(2**18)

    def close(self) -> None:
        """Wake threads that wait in `send` or `receive`, then close the socket once no thread uses it."""
        with contextlib.suppress(OSError):
            self._receiver.shutdown(socket.SHUT_RDWR)
        with self._send_lock:
            self._sender.close()
        with self._receive_lock:
            self._receiver.close()


class FrameConnection:
    """A connection that sends requests to a tool server and receives the replies. Thread-safe.

    Of the threads that wait for replies, one receives them for all others until its own reply has arrived.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._numbers = itertools.count(1)
        self._send_lock = threading.Lock()
        self._condition = threading.Condition()
        """Protects the fields below, and wakes waiting threads when a reply has arrived or nobody receives any more."""
        self._replies: dict[int, Frame | None] = {}
        """Reply to each request that a thread waits for, by number; None if the reply has not arrived yet."""
        self._is_receiving = False

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
        return self.await_reply(self.send(frame, deadline), deadline)

    def send(self, frame: Frame, deadline: float) -> int:
        """Send a request to the tool server before the deadline (monotonic time in seconds), and return its number.

        Raises:
            SandboxDied: The request could not be sent.
        """
        number = next(self._numbers)
        header = json.dumps({**frame.header, "number": number}).encode()
        with self._condition:
            self._replies[number] = None
        with self._send_lock:
            self._send(struct.pack(">II", len(header), len(frame.body)) + header + frame.body, deadline)
        return number

    def await_reply(self, number: int, deadline: float) -> Frame:
        """Return the reply to the request with a number, which must arrive before the deadline (monotonic time in seconds).

        Raises:
            SandboxDied: No reply arrived in time, the connection ended, or a reply violates the protocol.
        """
        while True:
            with self._condition:
                while self._replies[number] is None and self._is_receiving:
                    if not self._condition.wait(deadline - time.monotonic()):
                        raise SandboxDied("the sandbox did not reply: no reply before the deadline")
                reply = self._replies[number]
                if reply is not None:
                    del self._replies[number]
                    return reply
                self._is_receiving = True
            received = None
            try:
                received = self._receive(deadline)
            finally:
                with self._condition:
                    self._is_receiving = False
                    self._condition.notify_all()
                    if received is not None:
                        self._deliver(received)

    def close(self) -> None:
        """Close the connection; the tool server then ends every process of the sandbox."""
        self._stream.close()

    def _deliver(self, reply: Frame) -> None:
        number = reply.header.get("number")
        if not isinstance(number, int) or self._replies.get(number, reply) is not None:
            raise SandboxDied(f"the sandbox replied to request {number!r:.40}, which it was not sent or has answered already")
        self._replies[number] = reply

    def _receive(self, deadline: float) -> Frame:
        """Return the next frame. Its bytes are removed from the buffer at once, so an interrupt leaves the stream intact."""
        self._fill(8, deadline)
        header_bytes, body_bytes = struct.unpack_from(">II", self._buffer)
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise SandboxDied(f"the sandbox announced a frame of {header_bytes} + {body_bytes} bytes, which is too large")
        body_start, end = 8 + header_bytes, 8 + header_bytes + body_bytes
        self._fill(end, deadline)
        raw, body = bytes(self._buffer[8:body_start]), bytes(self._buffer[body_start:end])
        del self._buffer[:end]
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise SandboxDied(f"the sandbox sent a header that is not JSON: {raw[:80]!r}") from error
        if not isinstance(value, dict):
            raise SandboxDied(f"the sandbox sent a header that is not an object: {raw[:80]!r}")
        return Frame(header=value, body=body)

    def _send(self, data: bytes, deadline: float) -> None:
        try:
            self._stream.send(data, deadline - time.monotonic())
        except OSError as error:
            raise SandboxDied(f"the request could not be sent to the sandbox: {error}") from error

    def _fill(self, size: int, deadline: float) -> None:
        """Receive until the buffer holds at least `size` bytes."""
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
