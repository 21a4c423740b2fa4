"""HTTP server for scripted models, with the OpenAI API for chat completions and for the list of models.

The server can inject faults, such as rate limits. It listens on loopback only and answers each request in a separate thread.
Invalid requests get a 4xx status and a reason.
"""

import hmac
import json
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple

from harness.conversation.messages import Message, ToolCall
from harness.errors import ContextOverflow, ModelError, UnknownName, UsageError
from harness.models.endpoint import completions
from harness.models.endpoint.faults import REFUSAL_MESSAGES, UNKNOWN_TOOL_NAME, Fault, find_fault, render_overflow_message
from harness.models.factory import (
    KNOWING_SUMMARIZERS,
    SURVIVAL,
    is_summarizer_variant,
    open_model,
    open_summarizer,
    split_scripted_name,
)
from harness.models.scripted.profiles import DEFAULT_PROFILE, is_scripted
from harness.models.survival_table import load_survival_table
from harness.protocols import Model, Reply
from harness.task import Task

LOOPBACK = "127.0.0.1"
MAX_BODY_BYTES = 64 * 2**20
"""Maximum length of a request body in bytes; longer requests are refused without reading the body."""
READ_TIMEOUT_SECONDS = 30.0
"""Maximum time in seconds that a client may take to send a request."""
POLL_SECONDS = 0.05
COMPLETIONS_PATH, MODELS_PATH = "/v1/chat/completions", "/v1/models"

FindModel = Callable[[str], Model]
"""Type of a function that returns the model with a given name, or raises UnknownName or UsageError if there is none."""


class AnsweredRequest(NamedTuple):
    """Record of an answered chat completion request: its number, the HTTP status and the injected fault."""

    number: int
    """Number of the request in the order of arrival at the server, from 1; retries count as requests."""
    status: int
    fault: Fault | None


class _Refusal(Exception):
    """Exception that ends the handling of a request; the client gets the HTTP status and the message."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


class ModelEndpoint(ThreadingHTTPServer):
    """HTTP server that answers requests for models; `serve_endpoint` creates and closes the server."""

    daemon_threads = True

    def __init__(self, find: FindModel, names: Sequence[str], faults: Sequence[Fault], *, key: str | None, port: int) -> None:
        """Bind the port of the server; requests are answered only after `serve_forever` is called."""
        super().__init__((LOOPBACK, port), _Handler)
        self.find, self.names, self.faults, self.key = find, tuple(names), tuple(faults), key
        self.served: list[AnsweredRequest] = []
        """Records of the completion requests that the server has answered so far, in the order of the answers."""
        self.stop_event = threading.Event()
        self.request_numbers = count(1)

    @property
    def address(self) -> str:
        """Address of the server for clients, in the form `http://127.0.0.1:PORT/v1`."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections that clients have closed; print other errors as usual."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serve_endpoint(
    find: FindModel, *, names: Iterable[str] = (), faults: Iterable[Fault] = (), key: str | None = None, port: int = 0
) -> Iterator[ModelEndpoint]:
    """Run an HTTP server for models while the context is open.

    Args:
        find: Function that returns the model with a given name.
        names: Names in the server's list of models.
        faults: Faults to inject; if several apply to a request, the first is used.
        key: Secret key that every request must contain; None accepts all requests.
        port: Port number of the server; 0 chooses a free port.

    Raises:
        UsageError: The port cannot be used.
    """
    try:
        endpoint = ModelEndpoint(find, tuple(names), tuple(faults), key=key, port=port)
    except (OSError, OverflowError) as error:
        raise UsageError(f"port {port} cannot be used: {error}; choose another port, or 0 for a free one") from None
    thread = threading.Thread(target=endpoint.serve_forever, args=(POLL_SECONDS,), name="harness-endpoint", daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.stop_event.set()
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Handler of an HTTP connection, on which the server answers a single request."""

    server: ModelEndpoint
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "harness", ""
    timeout = READ_TIMEOUT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class names it so)
        """Log nothing, because `ModelEndpoint.served` already lists the requests."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the HTTP base class, such as an unknown HTTP method, as JSON."""
        self.close_connection = True
        status = code if code < 500 else 405
        self._send(status, completions.encode_error(status, message or explain or "this is no request"))

    def do_GET(self) -> None:
        self._answer(MODELS_PATH, lambda: self._send(200, completions.encode_model_list(self.server.names)))

    def do_POST(self) -> None:
        self._answer(COMPLETIONS_PATH, self._complete)

    def _answer(self, path: str, answer: Callable[[], None]) -> None:
        self.close_connection = True
        with suppress(ConnectionError, TimeoutError):
            try:
                self._check_path(path)
                answer()
            except _Refusal as refusal:
                self._send(refusal.status, completions.encode_error(refusal.status, refusal.message), refusal.headers)

    def _check_path(self, expected: str) -> None:
        if self.path.partition("?")[0].rstrip("/") not in {expected, expected.removeprefix("/v1")}:
            raise _Refusal(404, f"there is nothing at {self.path!r:.200}; try {COMPLETIONS_PATH} (POST) or {MODELS_PATH} (GET)")
        given_key = self.headers.get("Authorization", "").removeprefix("Bearer ").encode(errors="replace")
        if self.server.key is not None and not hmac.compare_digest(given_key, self.server.key.encode()):
            raise _Refusal(401, "Incorrect API key provided")

    def _read_body(self) -> bytes:
        try:
            length = int(self.headers["Content-Length"])
        except (TypeError, ValueError):
            raise _Refusal(411, "Content-Length: must be the length of the body in bytes") from None
        if not 0 <= length <= MAX_BODY_BYTES:
            raise _Refusal(413, f"the body has {length} bytes; at most {MAX_BODY_BYTES} are accepted")
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise _Refusal(408, f"the body was not received within {READ_TIMEOUT_SECONDS:g} s") from None
        if len(body) < length:
            raise _Refusal(400, f"the body ended after {len(body)} of {length} bytes")
        return body

    def _complete(self) -> None:
        try:
            completion_request = completions.parse_completion_request(self._read_body())
        except UsageError as error:
            raise _Refusal(400, str(error)) from None
        number = next(self.server.request_numbers)
        fault = find_fault(self.server.faults, number)
        try:
            reply = _spoil_reply(self._reply(completion_request, fault), fault)
        except _Refusal as refusal:
            self.server.served.append(AnsweredRequest(number, refusal.status, fault))
            raise
        self.server.served.append(AnsweredRequest(number, 200, fault))
        cut_kind = fault.kind if fault is not None and fault.kind in {"reset", "stall"} else None
        if completion_request.stream:
            include_usage = completion_request.include_usage
            chunks = completions.encode_chunks(completion_request.model, reply, include_usage=include_usage)
            self._stream([f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks], cut_kind)
        elif cut_kind:
            self._send_head(200, "application/json", None)
            self._break_off(cut_kind)
        else:
            self._send(200, completions.encode_completion(completion_request.model, reply))

    def _reply(self, completion_request: completions.CompletionRequest, fault: Fault | None) -> Reply:
        try:
            model = self.server.find(completion_request.model)
        except UnknownName as error:
            raise _Refusal(404, str(error)) from None
        except UsageError as error:
            raise _Refusal(400, str(error)) from None
        if fault is not None:
            _refuse(fault, model)
        try:
            return model.reply(completion_request.request)
        except ContextOverflow as error:
            text = render_overflow_message("openai", error.prompt_tokens or 0, model.window.tokens)
            raise _Refusal(400, text) from None
        except ModelError as error:
            raise _Refusal(502, str(error)) from None

    def _stream(self, pieces: Sequence[bytes], cut: str | None) -> None:
        self._send_head(200, "text/event-stream", None)
        for piece in pieces[: len(pieces) // 2] if cut else pieces:
            self.wfile.write(piece)
        self.wfile.flush()
        if cut:
            self._break_off(cut)
        else:
            self.wfile.write(b"data: [DONE]\n\n")

    def _break_off(self, how: str) -> None:
        """End an answer early; `stall` sends nothing until the client disconnects, and `reset` resets the connection."""
        if how == "stall":
            while not self.server.stop_event.is_set() and not select.select([self.connection], [], [], POLL_SECONDS)[0]:
                pass
            return
        # closing then resets the connection
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._send_head(status, "application/json", len(data), headers)
        self.wfile.write(data)

    def _send_head(self, status: int, kind: str, length: int | None, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


def _refuse(fault: Fault, model: Model) -> None:
    """Raise the HTTP error that an injected fault stands for, such as `429`; do nothing for other faults."""
    if fault.kind in REFUSAL_MESSAGES:
        headers = {"Retry_After": fault.value} if fault.value else {}
        raise _Refusal(int(fault.kind), REFUSAL_MESSAGES[fault.kind], **headers)
    if fault.kind == "overflow":
        window_tokens = model.window.tokens
        raise _Refusal(400, render_overflow_message(fault.value or "openai", window_tokens + 1, window_tokens))


def _spoil_reply(reply: Reply, fault: Fault | None) -> Reply:
    if fault is None or fault.kind not in {"malformed", "unknown-tool"}:
        return reply
    parts = tuple(_spoil_call(part, fault.kind) if isinstance(part, ToolCall) else part for part in reply.message.parts)
    return replace(reply, message=Message(role="assistant", parts=parts))


def _spoil_call(call: ToolCall, kind: str) -> ToolCall:
    if kind == "unknown-tool":
        return replace(call, name=UNKNOWN_TOOL_NAME)
    return replace(call, arguments_json=call.arguments_json[: max(1, len(call.arguments_json) // 2)])


MAX_OPEN_MODELS = 64
"""Maximum number of models that the server keeps; when there are more, the least recently used are created again on request."""


def list_model_names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the model names that the server lists: a scripted agent for each task, and scripted summarizers."""
    agents = tuple(f"scripted/{task.name}:{DEFAULT_PROFILE}" for task in tasks)
    survival = tuple(f"{SURVIVAL}:{name}" for name in load_survival_table().profiles)
    summarizers = ("extractive", "lossy-0.3", "empty", *(("oracle", *survival) if len(tasks) == 1 else ()))
    return agents + tuple(f"scripted/{name}" for name in summarizers)


def make_model_finder(tasks: Sequence[Task], *, seed: int = 0, window_tokens: int | None = None) -> FindModel:
    """Return a function that creates scripted models by name: agents for the given tasks, and summarizers.

    Args:
        tasks: Tasks whose scripts the agents follow, at least one. The summarizers `scripted/oracle` and
            `scripted/survival:NAME`, which keep facts of the task, require exactly one.
        seed: Seed of the models' random draws.
        window_tokens: Context window of every agent in tokens; None uses the default. A summarizer has at least the same window.

    Raises:
        UsageError: There is no task.
    """
    by_name = {task.name: task for task in tasks}
    if not by_name:
        raise UsageError("a scripted model needs a task; specify at least one")

    @lru_cache(maxsize=MAX_OPEN_MODELS)
    def find(name: str) -> Model:
        variant, _ = split_scripted_name(name)
        if is_scripted(name) and is_summarizer_variant(variant):
            if variant in KNOWING_SUMMARIZERS and len(by_name) > 1:
                raise UsageError(f"model {name!r} writes summaries for the one task that it knows; serve a single task")
            agent = open_model("scripted", task=tasks[0], seed=seed, window_tokens=window_tokens)
            return open_summarizer(name, agent=agent, task=tasks[0], seed=seed, window_tokens=None)
        if not is_scripted(name) or variant not in by_name:
            raise UnknownName("model", name, list_model_names(tasks))
        return open_model(name, task=by_name[variant], seed=seed, window_tokens=window_tokens)

    return find
