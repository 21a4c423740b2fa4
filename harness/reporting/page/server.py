"""Server of the report page on this machine, for finished and running experiments.

The server listens on the loopback interface only. Its address contains a random token, without which every request is refused,
so that other users and web pages cannot read the results. The `Host` header must name this server, against DNS rebinding. Only
GET is served, and no header allows other origins to read an answer.
"""

import asyncio
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, NamedTuple

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler

from harness.errors import HarnessError, StoreError
from harness.reporting.page.document import render_page
from harness.reporting.page.live_results import LiveResults
from harness.reporting.page.session_blocks import compress
from harness.text import escape_html

LOOPBACK = "127.0.0.1"
HTML, JSON, BYTES = "text/html; charset=utf-8", "application/json", "application/octet-stream"


class Answer(NamedTuple):
    """Answer of the server to a request: content and media type."""

    content: bytes
    media_type: str


class _PageHandler(RequestHandler):
    SUPPORTED_METHODS = ("GET",)

    def initialize(self, results: LiveResults, token: str, hosts: frozenset[str]) -> None:
        self._results, self._token, self._hosts = results, token, hosts

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")

    def prepare(self) -> None:
        if self.request.headers.get("Host", "") not in self._hosts:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        if not secrets.compare_digest(self.path_args[0].encode(), self._token.encode()):
            raise HTTPError(HTTPStatus.FORBIDDEN)

    async def get(self, _token: str, path: str) -> None:
        try:
            answer = await asyncio.get_running_loop().run_in_executor(None, build_answer, self._results, path)
        except HarnessError as error:
            self.set_status(HTTPStatus.NOT_FOUND)
            answer = Answer(str(error).encode("utf-8", "replace"), "text/plain; charset=utf-8")
        if answer is None:
            raise HTTPError(HTTPStatus.NOT_FOUND)
        if answer.media_type == HTML:
            self.set_header("Content-Security-Policy", "frame-ancestors 'none'")  # the page has its own policy
        self.set_header("Content-Type", answer.media_type)
        self.finish(answer.content)

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code} {HTTPStatus(status_code).phrase}\n")


def build_answer(results: LiveResults, path: str) -> Answer | None:
    """Return the answer to a request with a valid token; None if the path does not exist.

    The answer is the page, its values, the progress of the experiment or a session.

    Args:
        results: Results of the experiment.
        path: Path after the token and its slash, without an encoding.

    Raises:
        HarnessError: The results cannot be read, or there is no such session.
    """
    kind, _, name = path.partition("/")
    if path == "" and (preparation := results.describe_preparation()):
        return Answer(_render_waiting_page(preparation).encode(), HTML)
    if path == "":
        return Answer(render_page(results.page, served=True).encode(), HTML)
    if path == "values":
        return Answer(compress({**results.page.values}), BYTES)
    if path == "progress":
        return Answer(json.dumps(asdict(results.describe_progress())).encode(), JSON)
    if kind == "session" and name:
        return Answer(results.load_session(name), BYTES)
    return None


def _render_waiting_page(preparation: str) -> str:
    """Return a page that says what is done until the report is there, and asks for it again every second."""
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="1">
<title>Report in preparation</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ margin: 15vh auto; max-width: 36rem; padding: 0 1rem }}
</style>
</head>
<body>
<main>
<h1>The report is being prepared</h1>
<p role="status">{escape_html(preparation)}</p>
<p>It appears here by itself.</p>
</main>
</body>
</html>
"""


@contextmanager
def serve_page(results: LiveResults, *, port: int = 0, token: str | None = None) -> Iterator[str]:
    """Serve the page of an experiment while the `with` block runs, and yield its address.

    Args:
        results: Results of the experiment.
        port: Port to listen on; 0 chooses a free one.
        token: Secret part of the address; None draws one.

    Raises:
        StoreError: The port is in use.
    """
    token = secrets.token_urlsafe(24) if token is None else token
    ready, stop = threading.Event(), _Stop()
    thread = threading.Thread(target=_run, args=(results, port, token, ready, stop), name="harness-view", daemon=True)
    thread.start()
    ready.wait()
    if stop.failure is not None:
        thread.join()
        raise StoreError(f"cannot listen on port {port}: {stop.failure.strerror or stop.failure}; choose another --port")
    try:
        yield f"http://{LOOPBACK}:{stop.port}/{token}/"
    finally:
        stop.end()
        thread.join()


class _Stop:
    """Values that the server's thread shares with its caller: port, error that prevented a start, and how to end the server."""

    port = 0
    failure: OSError | None = None
    end: Callable[[], object] = staticmethod(lambda: None)


def _run(results: LiveResults, port: int, token: str, ready: threading.Event, stop: _Stop) -> None:
    asyncio.run(_serve(results, port, token, ready, stop))


async def _serve(results: LiveResults, port: int, token: str, ready: threading.Event, stop: _Stop) -> None:
    try:
        listener = socket.create_server((LOOPBACK, port))
    except OSError as error:
        stop.failure = error
        ready.set()
        return
    listener.setblocking(False)
    stop.port = listener.getsockname()[1]
    hosts = frozenset(f"{name}:{stop.port}" for name in (LOOPBACK, "localhost"))
    handler = {"results": results, "token": token, "hosts": hosts}
    server = HTTPServer(Application([(r"/([^/]*)/?(.*)", _PageHandler, handler)], log_function=lambda _handler: None))
    server.add_socket(listener)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    stop.end = lambda: loop.call_soon_threadsafe(ended.set)
    ready.set()
    await ended.wait()
    server.stop()
    await server.close_all_connections()
