"""Messages over a real socket."""

import socket
import threading
import time

import pytest

from harness.errors import SandboxDied
from harness.sandboxes.framing import Frame, FrameConnection, SocketStream
from tests.sandboxes.conftest import frame


def test_a_reply_that_comes_in_drops_is_put_together():
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


def test_a_reply_that_drips_too_slowly_misses_the_deadline():
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


def test_the_descriptor_is_closed_when_nobody_waits_at_it_any_more():
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
