"""Error responses of providers: an endless or compressed body costs bounded memory, and the status is kept."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.errors import ContextOverflow, ModelError, ProviderFailed
from harness.messages import user
from harness.models.litellm_model import LitellmModel
from harness.models.registry import load_litellm
from harness.models.retry import Retry
from harness.protocols import Request

MOST_BYTES = 32 * 2**20
"""Number of bytes after which the server gives up: far more than is read, socket buffers included."""
OVERFLOW = b'{"error": {"message": "This model\'s maximum context length is 9 tokens", "code": "context_length_exceeded"}}'


class Flood:
    """Server that answers every request with an error whose body never ends."""

    def __init__(self, piece: bytes, headers: str, status: int, opening: bytes) -> None:
        self.sent_bytes = 0
        self._head = (
            f"HTTP/1.1 {status} Bad\r\nContent-Type: application/json\r\n{headers}Connection: close\r\n\r\n".encode() + opening
        )
        self._piece = piece
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                client.settimeout(30)
                try:
                    client.recv(2**20)
                    client.sendall(self._head)
                    while self.sent_bytes < MOST_BYTES:
                        client.sendall(self._piece)
                        self.sent_bytes += len(self._piece)
                except OSError:
                    continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def flooding(piece: bytes = b"z" * 2**16, headers: str = "", status: int = 500, opening: bytes = b"") -> Iterator[Flood]:
    flood = Flood(piece, headers, status, opening)
    thread = threading.Thread(target=flood.serve)
    thread.start()
    try:
        yield flood
    finally:
        flood.close()
        thread.join()


@pytest.fixture(params=["hosted_vllm/stub", "openai/stub", "anthropic/stub"])
def route(request, monkeypatch):
    for name in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "k" * 20)
    return request.param


def error_of(flood: Flood, route: str) -> ModelError:
    model = LitellmModel(name=route, window_tokens=9, api_base=flood.base, retry=Retry(retries=0), timeout_seconds=60.0)
    with pytest.raises(ModelError) as caught:
        model.reply(Request(messages=(user("hello"),)))
    return caught.value


def test_the_endless_body_of_an_error_is_cut_and_the_status_is_kept(route):
    with flooding() as flood:
        error = error_of(flood, route)
    assert isinstance(error, ProviderFailed)
    assert error.status == 500
    assert flood.sent_bytes < MOST_BYTES


def test_an_overflow_is_understood_although_the_rest_of_its_body_is_dropped(route):
    with flooding(b" " * 2**16, status=400, opening=OVERFLOW) as flood:
        assert isinstance(error_of(flood, route), ContextOverflow)
    assert flood.sent_bytes < MOST_BYTES


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_compressed_body_of_an_error_is_cut_before_it_is_decompressed(encoding):
    """A body of 20 MB that stands for 20 GB; an unknown size is read with zstd."""
    bomb = gzip.compress(bytes(2**26), compresslevel=9)
    with flooding(bomb, f"Content-Encoding: {encoding}\r\n") as flood:
        httpx = load_litellm().exceptions.httpx
        with httpx.Client() as client:
            response = client.post(flood.base, timeout=60.0)
    assert response.status_code == 500
    assert len(response.content) <= (2**16 * 1100 if encoding == "gzip" else 0)
