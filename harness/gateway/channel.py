"""Unix socket on which the hook in the proxy asks this process: one question for each connection, answered in a thread."""

import json
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MAX_QUESTION_BYTES = 2**30
"""Maximum length of a question in bytes; the history of an agent has a few million at most."""
POLL_SECONDS = 0.1
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function that answers a question; it raises nothing."""


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, answer: Answer) -> None:
        super().__init__(str(path), _Handler)
        self.answer = answer


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        with suppress(ConnectionError):
            head = self.rfile.read(8)
            if len(head) < 8:
                return
            (length,) = struct.unpack(">Q", head)
            if length > MAX_QUESTION_BYTES:
                return
            data = self.rfile.read(length)
            if len(data) == length:
                answer = json.dumps(self.server.answer(json.loads(data))).encode()
                self.wfile.write(struct.pack(">Q", len(answer)) + answer)


@contextmanager
def serve_channel(path: Path, answer: Answer) -> Iterator[None]:
    """Answer the questions of the hook while the context is open.

    Args:
        path: Path of the socket, in a folder that only this user may enter.
        answer: Function that answers a question, which several threads call.
    """
    with _Server(path, answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), name="harness-gateway", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
