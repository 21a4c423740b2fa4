"""A server with an API like Anthropic's on a real socket: makes the tool calls and reports the cache tokens that a test sets."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Stub(ThreadingHTTPServer):
    """The server; answers with one tool call after the other, then with one word, and keeps the requests that it received."""

    daemon_threads = True

    def __init__(self, calls: Iterable[tuple[str, str, str]], usage: dict[str, int], stop_reason: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls = iter(calls)
        self.usage = usage
        self.stop_reason = stop_reason
        self.asked: list[dict[str, Any]] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        message = {"id": "m", "type": "message", "role": "assistant", "model": "stub", "content": [], "usage": self.server.usage}
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta, reason = {"type": "text_delta", "text": "ok"}, self.server.stop_reason
        if call := next(self.server.calls, None):
            call_id, name, arguments = call
            block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            delta, reason = {"type": "input_json_delta", "partial_json": arguments}, "tool_use"
        for event in (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        ):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


@contextmanager
def serving(*calls: tuple[str, str, str], stop_reason: str = "end_turn", **usage: int) -> Iterator[Stub]:
    """Yield a running server; its port is free again afterwards. A call has an id, a name and arguments as JSON."""
    stub = Stub(calls, {"input_tokens": 0, "output_tokens": 1, **usage}, stop_reason)
    thread = Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()
