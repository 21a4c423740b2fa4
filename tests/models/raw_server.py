"""A server on a real socket that answers every request with bytes that a test chooses."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that clients closed."""


@contextmanager
def serving_bytes(
    pieces: Iterable[bytes],
    *,
    status: int = 200,
    kind: str = "text/event-stream",
    encoding: str = "",
    pace_seconds: float = 0,
) -> Iterator[str]:
    """Yield the address of a running server.

    Args:
        pieces: Body of each answer, sent piece by piece until the server ends.
        status: HTTP status of each answer.
        kind: Media type of the body.
        encoding: Encoding that the header states; none by default.
        pace_seconds: Wait before each piece in seconds.
    """
    has_ended = Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            for piece in pieces:
                if has_ended.is_set():
                    return
                time.sleep(pace_seconds)
                self.wfile.write(piece)
                self.wfile.flush()

    server = Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        has_ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
