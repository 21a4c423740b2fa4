"""Responses of providers: endless and compressed bodies cost bounded memory, and the status of an error is kept."""

import gzip
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from harness.conversation.messages import user
from harness.errors import ContextOverflow, ModelError, ProviderFailed
from harness.models.litellm_model import LitellmModel
from harness.models.registry import load_litellm
from harness.models.response_bodies import MAX_ERROR_BYTES
from harness.models.retry import Retry
from harness.protocols import Request

MOST_BYTES = 32 * 2**20
"""Number of bytes after which the server gives up: far more than is read, socket buffers included."""
BOMB = gzip.compress(bytes(2**26), compresslevel=9)
"""64 KB that expand to 64 MiB; it is sent again and again."""
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


@pytest.mark.slow
def test_the_endless_body_of_an_error_is_cut_and_the_status_is_kept(route):
    with flooding() as flood:
        error = error_of(flood, route)
    assert isinstance(error, ProviderFailed)
    assert error.status == 500
    assert flood.sent_bytes < MOST_BYTES


@pytest.mark.slow
def test_an_overflow_is_understood_although_the_rest_of_its_body_is_dropped(route):
    with flooding(b" " * 2**16, status=400, opening=OVERFLOW) as flood:
        assert isinstance(error_of(flood, route), ContextOverflow)
    assert flood.sent_bytes < MOST_BYTES


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_the_compressed_body_of_an_error_is_cut(encoding):
    """A body of 20 MB that stands for 20 GB; an unknown size is read with zstd."""
    with flooding(BOMB, f"Content-Encoding: {encoding}\r\n") as flood, load_litellm().exceptions.httpx.Client() as client:
        response = client.post(flood.base, timeout=60.0)
    assert response.status_code == 500
    assert len(response.content) == (MAX_ERROR_BYTES if encoding == "gzip" else 0)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_compressed_answer_expands_no_further_than_the_limit(route, encoding):
    """An answer whose first megabyte stands for a gigabyte."""
    with flooding(BOMB, f"Content-Encoding: {encoding}\r\n", status=200) as flood:
        model = LitellmModel(name=route, window_tokens=9, api_base=flood.base, retry=Retry(retries=0), timeout_seconds=60.0)
        tracemalloc.start()
        with pytest.raises(ModelError):
            replace(model, max_answer_bytes=2**20).reply(Request(messages=(user("hello"),)))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak_bytes < 2**26
    assert flood.sent_bytes < MOST_BYTES


def test_a_compressed_answer_is_read_as_it_arrives():
    text = b"".join(b"line %d\n" % number for number in range(50_000))
    with flooding(gzip.compress(text), "Content-Encoding: gzip\r\n", status=200) as flood:
        httpx = load_litellm().exceptions.httpx
        with httpx.Client() as client, client.stream("POST", flood.base, timeout=60.0) as response:
            lines = response.iter_lines()
            assert [next(lines) for _ in range(50_000)] == text.decode().splitlines()
