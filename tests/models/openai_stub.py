"""An OpenAI-compatible server on a real socket with prepared answers, for tests of real models."""

import json
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Say:
    """A streamed answer in pieces."""

    pieces: tuple[str, ...] = ()
    calls: tuple[tuple[str, str, str], ...] = ()
    """Id, name and arguments of each call."""
    argument_pieces: int = 2
    """Maximum number of pieces for the arguments of a call."""
    reasoning: str = ""
    """Reasoning, streamed word by word."""
    finish: str = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 7})
    usage_everywhere: bool = False
    """Whether each chunk carries the usage report, as some servers send it; otherwise only the last chunk does."""
    reset_after: int | None = None
    """Number of chunks after which the connection is reset."""
    end_after: int | None = None
    """Number of chunks after which the stream ends as if it were complete."""
    stall_after: int | None = None
    """Number of chunks after which the server sends nothing more and waits until the client disconnects."""
    pace_seconds: float = 0
    """Wait before each chunk in seconds."""
    streams: bool = True
    """Whether the server streams; otherwise it ignores the field `stream` and sends one JSON object."""
    padding_bytes: int = 0
    """Number of bytes without content that the server sends before the answer: white space, or a comment on one line."""
    garbage_after: int | None = None
    """Number of chunks after which a chunk that is not JSON is sent."""


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """An answer with an error status."""

    status: int
    error: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


class Stub(ThreadingHTTPServer):
    """The server; returns its answers in order and keeps the requests that it received."""

    daemon_threads = True

    def __init__(self, *answers: Say | Refuse) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.left = Event()
        """Set when a client disconnected before its answer was complete."""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that clients closed."""


class Handler(BaseHTTPRequestHandler):
    server: Stub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.server.headers_seen.append(dict(self.headers))
        answer = self.server.answers.pop(0)
        self.close_connection = True
        if isinstance(answer, Refuse):
            self.refuse(answer)
        elif not answer.streams:
            self.send_json(200, whole(answer), padding_bytes=answer.padding_bytes)
        else:
            self.stream(answer)

    def refuse(self, answer: Refuse) -> None:
        self.send_json(answer.status, {"error": answer.error}, answer.headers)

    def send_json(
        self, status: int, body: dict[str, Any], headers: tuple[tuple[str, str], ...] = (), padding_bytes: int = 0
    ) -> None:
        data = b" " * padding_bytes + json.dumps(body, indent=1).encode()
        self.send_response(status)
        own_headers = (("Content-Type", "application/json"), ("Content-Length", str(len(data))), ("Connection", "close"))
        for key, value in (*headers, *own_headers):
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def stream(self, answer: Say) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if answer.padding_bytes and not self.says(f": {'x' * answer.padding_bytes}\n\n", 0):
            return None
        for number, chunk in enumerate(chunks(answer)):
            if number == answer.reset_after:
                return self.reset()
            if number == answer.end_after:
                return None
            if number == answer.stall_after:
                return self.stall()
            data = "{no json" if number == answer.garbage_after else json.dumps(chunk)
            if not self.says(f"data: {data}\n\n", answer.pace_seconds):
                return None
        self.wfile.write(b"data: [DONE]\n\n")
        return None

    def stall(self) -> None:
        with suppress(OSError):
            self.rfile.read(1)
        self.server.left.set()

    def says(self, text: str, pace_seconds: float) -> bool:
        time.sleep(pace_seconds)
        try:
            self.wfile.write(text.encode())
            self.wfile.flush()
        except OSError:
            self.server.left.set()
            return False
        return True

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def whole(answer: Say) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in answer.calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.pieces) or None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": answer.reasoning} if answer.reasoning else {}
    body = {
        "id": "stub",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish}],
    }
    return body | ({"usage": answer.usage} if answer.usage is not None else {})


def chunks(answer: Say) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        usage = {"usage": answer.usage} if answer.usage_everywhere else {}
        return {"id": "stub", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": [choice], **usage}

    yield chunk({"role": "assistant", "content": ""})
    for word in re.findall(r"\s*\S+\s*", answer.reasoning):
        yield chunk({"reasoning_content": word})
    for piece in answer.pieces:
        yield chunk({"content": piece})
    for index, (call_id, name, arguments) in enumerate(answer.calls):
        size = -(-len(arguments) // answer.argument_pieces)
        first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments[:size]}}
        yield chunk({"tool_calls": [first]})
        for at in range(size, len(arguments), size):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments[at : at + size]}}]})
    yield chunk({}, answer.finish)
    if answer.usage is not None:
        yield {
            "id": "stub",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "stub",
            "choices": [],
            "usage": answer.usage,
        }


@contextmanager
def serving(*answers: Say | Refuse) -> Iterator[Stub]:
    """Yield a running server; its port is free again afterwards."""
    stub = Stub(*answers)
    thread = Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()
