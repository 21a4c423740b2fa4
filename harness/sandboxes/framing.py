"""The connection of the harness to a sandbox's tool server, over which requests and replies are sent as frames.

Several threads may send requests at the same time. Replies arrive in the order in which the operations end, so each request has a
number, which the reply repeats. No request is ever sent twice.

Everything received from a sandbox is untrusted: lengths are checked before memory is allocated, every wait has a deadline, and an
invalid reply ends the sandbox.
"""

import contextlib
import itertools
import json
import select
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
"""Maximum size in bytes of the body of a request or reply; the largest file or both outputs of a command fit into it."""
RECEIVED_BYTES = 2**18
"""Maximum number of bytes received at once."""
BOOTSTRAP = (
    "import gc,os,marshal,_frozen_importlib_external as f\n"
    "gc.disable()\n"
    "def r(n):\n"
    " s=b''\n"
    " while len(s)<n:s+=os.read(0,n-len(s)) or os._exit(3)\n"
    " return s\n"
    "t,m,c=[r(int.from_bytes(r(4),'big'))for _ in'tmc']\n"
    "exec(marshal.loads(c)if m==f.MAGIC_NUMBER else compile(t,'server','exec'),{'__name__':'__main__'})"
)
"""Small program for `python3 -c` that reads the tool server from stdin, so that argument lists stay short.

The program reads three parts: the source of the tool server, the version number of its bytecode, and the bytecode. If the
sandbox's Python has this version of bytecode, the bytecode is used, because compiling takes longer than the rest of the start.
The search for garbage is off until the tool server has imported its modules, which contain none.
"""


class ByteStream(Protocol):
    """Connection to a sandbox, over which one thread may send bytes while another receives.

    Closing the connection wakes both threads.
    """

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all bytes to the sandbox.

        Raises:
            TimeoutError: The bytes were not sent within the timeout.
            OSError: The connection to the sandbox failed.
        """

    def receive(self) -> bytes:
        """Wait for bytes from the sandbox and return them; return no bytes after the connection has ended.

        Raises:
            OSError: The connection to the sandbox failed.
        """

    def close(self) -> None:
        """Close the connection to the sandbox; may be called more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Request to a sandbox's tool server, or its reply: a header, which is sent as JSON, and a body."""

    header: dict[str, Any]
    body: bytes = b""


class SocketStream:
    """A connection to a sandbox over one end of a connected socket, which may be encrypted."""

    def __init__(self, connection: socket.socket) -> None:
        self._receiver = connection
        self._send_lock, self._receive_lock = threading.RLock(), threading.Lock()
        """Locks held while the socket is used, because the number of a closed descriptor may be reused by another file."""
        if isinstance(connection, ssl.SSLSocket):  # encrypted connections can be used by one thread at a time only
            self._sender, self._read_lock = self._receiver, self._send_lock
        else:  # the duplicate has a timeout of its own
            self._sender, self._read_lock = connection.dup(), threading.RLock()

    def send(self, data: bytes, timeout_seconds: float) -> None:
        """Send all bytes to the sandbox over the socket."""
        with self._send_lock:
            self._sender.settimeout(max(timeout_seconds, 0.001))
            self._sender.sendall(data)

    def receive(self) -> bytes:
        """Wait for bytes from the sandbox and return them."""
        while True:
            with self._read_lock, contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                self._receiver.settimeout(0)
                return self._receiver.recv(RECEIVED_BYTES)
            with self._receive_lock:
                if self._receiver.fileno() < 0:
                    return b""
                poll = select.poll()
                poll.register(self._receiver, select.POLLIN)
                poll.poll()

    def close(self) -> None:
        """Wake threads that wait in `send` or `receive`, then close the socket once no thread uses it."""
        with contextlib.suppress(OSError):
            self._receiver.shutdown(socket.SHUT_RDWR)
        with self._receive_lock, self._read_lock:
            self._receiver.close()
        with self._send_lock:
            self._sender.close()


class PendingReply:
    """Future reply to a request, for which one thread waits.

    The wait may be interrupted at any time, for example by Ctrl-C. It therefore uses a plain lock, because an interrupted wait
    for a condition or a future of Python may leave an inner lock held.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._arrived = threading.Lock()
        self._arrived.acquire()
        self._outcome: Frame | str | None = None

    def wait(self, deadline: float) -> Frame:
        """Wait for the reply and return it. May be called again.

        Args:
            deadline: Monotonic time in seconds before which the reply must arrive.

        Raises:
            SandboxDied: No reply arrived in time, the connection ended, or a reply violates the protocol.
        """
        if self._outcome is None:
            self._arrived.acquire(timeout=max(deadline - time.monotonic(), 0))
        match self._outcome:
            case Frame() as reply:
                return reply
            case reason:
                raise SandboxDied(reason or "the sandbox did not reply: no reply before the deadline")

    def resolve(self, outcome: Frame | str) -> None:
        """Give the waiting thread the reply, or the reason why no reply will arrive. May be called once."""
        self._outcome = outcome
        self._arrived.release()


class FrameConnection:
    """Connection that sends requests to the tool server of a sandbox and receives the replies. Thread-safe.

    A separate thread receives all replies. This thread never runs signal handlers, so no interrupt can lose received bytes.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._numbers = itertools.count(1)
        self._send_lock = threading.Lock()
        self._pending: dict[int, PendingReply] = {}
        """Requests without a reply, by number."""
        self._end_reason: str | None = None
        """Reason why no more replies are received; None while the connection works."""
        threading.Thread(target=self._receive_replies, name="harness-sandbox", daemon=True).start()

    def send_source(self, timeout_seconds: float) -> None:
        """Send the source and bytecode of the tool server to the small program that runs it in the sandbox."""
        parts = (load_source("server"), MAGIC_NUMBER, compile_source("server"))
        message = b"".join(struct.pack(">I", len(part)) + part for part in parts)
        self._send(message, time.monotonic() + timeout_seconds)

    def request(self, frame: Frame, timeout_seconds: float) -> Frame:
        """Send a request to the sandbox's tool server and return the reply.

        Raises:
            SandboxDied: No reply arrived in time, the connection ended, or the reply violates the protocol.
        """
        deadline = time.monotonic() + timeout_seconds
        return self.send(frame, deadline).wait(deadline)

    def send(self, frame: Frame, deadline: float) -> PendingReply:
        """Send a request to the tool server before the deadline (monotonic time in seconds).

        Raises:
            SandboxDied: The request could not be sent.
        """
        pending = PendingReply(next(self._numbers))
        header = json.dumps({**frame.header, "number": pending.number}).encode()
        self._pending[pending.number] = pending
        if self._end_reason is not None:  # read after the line above, so that a connection that ends later resolves the request
            raise SandboxDied(self._end_reason)
        with self._send_lock:
            self._send(struct.pack(">II", len(header), len(frame.body)) + header + frame.body, deadline)
        return pending

    def close(self) -> None:
        """Close the connection; the tool server then ends every process of the sandbox."""
        self._stream.close()

    def _receive_replies(self) -> None:
        """Receive replies until the connection ends, and wake the threads that wait for them."""
        reason = "the connection to the sandbox failed"
        try:
            while True:
                reply = self._receive()
                number = reply.header.get("number")
                pending = self._pending.pop(number, None) if isinstance(number, int) else None
                if pending is None:
                    reason = f"the sandbox replied to request {number!r:.40}, which it was not sent or has answered already"
                    break
                pending.resolve(reply)
        except SandboxDied as error:
            reason = str(error)
        finally:
            self._end_reason = reason
            for pending in list(self._pending.values()):
                pending.resolve(reason)

    def _receive(self) -> Frame:
        self._fill(8)
        header_bytes, body_bytes = struct.unpack_from(">II", self._buffer)
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise SandboxDied(f"the sandbox announced a frame of {header_bytes} + {body_bytes} bytes, which is too large")
        body_start, end = 8 + header_bytes, 8 + header_bytes + body_bytes
        self._fill(end)
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

    def _fill(self, size: int) -> None:
        """Receive bytes until the buffer holds at least `size` bytes."""
        while len(self._buffer) < size:
            try:
                chunk = self._stream.receive()
            except OSError as error:
                raise SandboxDied(f"the sandbox did not reply: {error}") from error
            if not chunk:
                raise SandboxDied("the sandbox closed the connection")
            self._buffer += chunk
