"""Messages over a real socket."""

import itertools
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from harness.errors import SandboxDied
from harness.sandboxes import framing
from harness.sandboxes.framing import Frame, FrameConnection, SocketStream
from tests.sandboxes.conftest import frame


def test_a_reply_received_in_small_pieces_is_joined():
    ours, theirs = socket.socketpair()
    wire = FrameConnection(SocketStream(ours))

    def drip():
        for byte in frame({"a": 1}, b"body", number=1):
            theirs.sendall(bytes([byte]))
            time.sleep(0.001)

    thread = threading.Thread(target=drip)
    thread.start()
    assert wire.request(Frame(header={"op": "x"}, body=b"123"), 60) == Frame(header={"a": 1, "number": 1}, body=b"body")
    thread.join()
    assert theirs.recv(100) == frame({"op": "x"}, b"123", number=1)
    wire.close()
    wire.close()
    theirs.close()


def test_a_reply_that_stops_after_one_byte_misses_the_deadline():
    ours, theirs = socket.socketpair()
    wire = FrameConnection(SocketStream(ours))
    theirs.sendall(b"\x00")
    with pytest.raises(SandboxDied):
        wire.request(Frame(header={}), 0.2)
    wire.close()
    theirs.close()


def test_a_server_that_does_not_read_misses_the_deadline():
    ours, theirs = socket.socketpair()
    wire = FrameConnection(SocketStream(ours))
    with pytest.raises(SandboxDied, match="could not be sent"):
        wire.request(Frame(header={}, body=bytes(10_000_000)), 0.2)
    wire.close()
    theirs.close()


def test_the_descriptor_is_closed_only_after_the_last_wait_on_it():
    """If the descriptor were closed earlier, its number could be reused by another file before the wait begins."""

    class Slow(socket.socket):
        """A socket whose wait begins with a delay, as in a thread that is not scheduled."""

        def recv(self, *size):
            waits.set()
            time.sleep(0.2)
            seen.append(self.fileno())
            return super().recv(*size)

    waits = threading.Event()
    seen: list[int] = []
    ours, theirs = socket.socketpair()
    wire = FrameConnection(SocketStream(Slow(fileno=ours.detach())))

    def work() -> None:
        with pytest.raises(SandboxDied):
            wire.request(Frame(header={}), 60)

    thread = threading.Thread(target=work)
    thread.start()
    waits.wait()
    wire.close()
    thread.join()
    theirs.close()
    assert seen[0] >= 0


@contextmanager
def interrupt_after(instructions: int) -> Iterator[None]:
    """Raise KeyboardInterrupt, as Ctrl-C does, before one instruction of this thread in the module `framing`."""
    left = itertools.count(instructions, -1)

    def trace(code: FrameType, event: str, _: Any) -> Any:
        if code.f_code.co_filename != framing.__file__:
            return None
        code.f_trace_opcodes = True
        if event == "opcode" and next(left) == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_an_interrupt_at_any_instruction_of_a_wait_loses_no_reply():
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs.makefile("rb") as incoming:
            while prefix := incoming.read(8):
                header_bytes, _ = struct.unpack(">II", prefix)
                number = json.loads(incoming.read(header_bytes))["number"]
                theirs.sendall(frame({}, number=number))

    server = threading.Thread(target=serve)
    server.start()
    connection = FrameConnection(SocketStream(ours))
    interrupts = 0
    for instructions in itertools.count():
        pending = connection.send(Frame(header={"op": "run"}), time.monotonic() + 60)
        try:
            with interrupt_after(instructions):
                pending.wait(time.monotonic() + 60)
            break
        except KeyboardInterrupt:
            interrupts += 1
            assert connection.request(Frame(header={"op": "cancel"}), 60).header["number"] == pending.number + 1
            assert pending.wait(time.monotonic() + 60).header == {"number": pending.number}
    assert interrupts > 10
    connection.close()
    server.join()
    theirs.close()


def test_an_encrypted_connection_sends_while_a_thread_receives():
    """Like the connection to a Docker engine over TLS. The ciphers are anonymous, so no certificate is needed."""
    ours, theirs = socket.socketpair()
    contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]
    for context in contexts:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
        context.check_hostname = False
    contexts[1].verify_mode = ssl.CERT_NONE

    def serve() -> None:
        """Answer the first request only after the second has arrived."""
        with contexts[0].wrap_socket(theirs, server_side=True) as encrypted, encrypted.makefile("rb") as incoming:
            for _ in range(2):
                header_bytes, _ = struct.unpack(">II", incoming.read(8))
                incoming.read(header_bytes)
            for number in (1, 2):
                encrypted.sendall(frame({}, bytes(1_000_000), number=number))
            assert incoming.read() == b""

    server = threading.Thread(target=serve)
    server.start()
    connection = FrameConnection(SocketStream(contexts[1].wrap_socket(ours, suppress_ragged_eofs=True)))
    deadline = time.monotonic() + 60
    first, second = (connection.send(Frame(header={"op": "run"}), deadline) for _ in range(2))
    assert len(second.wait(deadline).body) == len(first.wait(deadline).body) == 1_000_000
    connection.close()
    server.join()
    with pytest.raises(SandboxDied):
        connection.request(Frame(header={}), 60)
