"""HTTP application of the server of scripted models: protocols by path, refusals, and answers that break off."""

import asyncio
import hmac
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web

from harness.conversation.messages import Message, ToolCall
from harness.errors import ContextOverflow, ModelError, UnknownName, UsageError
from harness.models.endpoint import anthropic_messages, completions, gemini_contents, responses
from harness.models.endpoint.completions import CompletionRequest
from harness.models.endpoint.faults import REFUSAL_MESSAGES, UNKNOWN_TOOL_NAME, Fault, find_fault, render_overflow_message
from harness.models.endpoint.model_endpoint import AnsweredRequest, ModelEndpoint
from harness.protocols import Model, Reply

MAX_BODY_BYTES = 64 * 2**20
"""Maximum length of a request body in bytes; longer requests are refused."""
READ_TIMEOUT_SECONDS = 30.0
"""Maximum time in seconds that a client may take to send the body of a request."""
MAX_THREADS = 64
"""Maximum number of answers that are computed at the same time."""
POLL_SECONDS = 0.05
MODELS_PATH = "/v1/models"
KEY_HEADERS = ("Authorization", "x-api-key", "x-goog-api-key")


class ApiProtocol(NamedTuple):
    """Form of the requests and answers at one path."""

    parse: Callable[[str, bytes], CompletionRequest]
    """Function that parses a request, given its path and body."""
    encode: Callable[[str, Reply], dict[str, Any]]
    encode_events: Callable[[CompletionRequest, Reply], Iterator[str]]
    encode_error: Callable[[int, str], dict[str, Any]]
    overflow_wording: str
    """Provider whose words refuse a prompt that is too long."""


PROTOCOLS = {
    "/v1/chat/completions": ApiProtocol(
        lambda _, body: completions.parse_completion_request(body),
        completions.encode_completion,
        lambda asked, reply: completions.encode_chunk_events(asked.model, reply, include_usage=asked.include_usage),
        completions.encode_error,
        "openai",
    ),
    "/v1/responses": ApiProtocol(
        lambda _, body: responses.parse_responses_request(body),
        responses.encode_response,
        lambda asked, reply: responses.encode_response_events(asked.model, reply),
        completions.encode_error,
        "openai",
    ),
    "/v1/messages": ApiProtocol(
        lambda _, body: anthropic_messages.parse_messages_request(body),
        anthropic_messages.encode_message,
        lambda asked, reply: anthropic_messages.encode_message_events(asked.model, reply),
        anthropic_messages.encode_anthropic_error,
        "anthropic",
    ),
}
"""Protocols by their paths, which clients may also use without `/v1`."""
CONTENTS_PROTOCOL = ApiProtocol(
    gemini_contents.parse_contents_request,
    gemini_contents.encode_contents,
    lambda asked, reply: gemini_contents.encode_content_events(asked.model, reply),
    gemini_contents.encode_gemini_error,
    "gemini",
)
"""Protocol of Gemini, whose paths name the model."""


class _Refusal(Exception):
    """Exception that ends the handling of a request; the client gets the HTTP status and the message."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


class ServerLoop:
    """Event loop of a server, which runs in a thread of its own."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint, self._loop, self._end = endpoint, asyncio.new_event_loop(), asyncio.Event()

    def run(self) -> None:
        """Answer requests until `stop` is called."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    def stop(self) -> None:
        """End the server, also in the middle of an answer. Thread-safe."""
        self._loop.call_soon_threadsafe(self._end.set)

    async def _serve(self) -> None:
        self._loop.set_default_executor(ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="harness-endpoint"))
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", _Handler(self._endpoint, self._end).answer)
        silent = logging.getLogger(f"{__name__}.silent")  # clients that leave or send garbage are no news
        silent.setLevel(logging.CRITICAL)
        runner = web.AppRunner(application, access_log=None, logger=silent, keepalive_timeout=0, shutdown_timeout=0.1)
        await runner.setup()
        await web.SockSite(runner, self._endpoint.listening).start()
        try:
            await self._end.wait()
        finally:
            await runner.cleanup()


class _Handler:
    """Handler of requests; each connection gets a single answer."""

    def __init__(self, endpoint: ModelEndpoint, end: asyncio.Event) -> None:
        self._endpoint, self._end = endpoint, end

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        path = request.path.rstrip("/")
        protocol = next((one for name, one in PROTOCOLS.items() if path in {name, name.removeprefix("/v1")}), None)
        protocol = CONTENTS_PROTOCOL if gemini_contents.PATH.fullmatch(path) else protocol
        is_list = path in {MODELS_PATH, MODELS_PATH.removeprefix("/v1")}
        encode_error = protocol.encode_error if protocol else completions.encode_error
        try:
            if request.method not in {"GET", "POST"}:
                raise _Refusal(405, f"the method {request.method!r:.80} is not served")
            if request.method != ("GET" if is_list else "POST") or not (is_list or protocol):
                paths = ", ".join((*PROTOCOLS, gemini_contents.PATH_EXAMPLE))
                raise _Refusal(404, f"there is nothing at {request.path!r:.200}; try {paths} (POST) or {MODELS_PATH} (GET)")
            self._check_key(request)
            if protocol is None:
                return _build_response(200, completions.encode_model_list(self._endpoint.names))
            return await self._complete(request, protocol)
        except _Refusal as refusal:
            return _build_response(refusal.status, encode_error(refusal.status, refusal.message), refusal.headers)

    def _check_key(self, request: web.Request) -> None:
        given = next((request.headers[name] for name in KEY_HEADERS if name in request.headers), "").removeprefix("Bearer ")
        expected = self._endpoint.key
        if expected is not None and not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
            raise _Refusal(401, "Incorrect API key provided")

    async def _complete(self, request: web.Request, protocol: ApiProtocol) -> web.StreamResponse:
        body = await _read_body(request)
        try:
            asked = await asyncio.to_thread(protocol.parse, request.path, body)
        except UsageError as error:
            raise _Refusal(400, str(error)) from None
        number = next(self._endpoint.request_numbers)
        fault = find_fault(self._endpoint.faults, number)
        try:
            reply = _spoil_reply(await asyncio.to_thread(self._reply, asked, fault, protocol.overflow_wording), fault)
        except _Refusal as refusal:
            self._endpoint.served.append(AnsweredRequest(number, refusal.status, fault))
            raise
        self._endpoint.served.append(AnsweredRequest(number, 200, fault))
        cut = fault.kind if fault is not None and fault.kind in {"reset", "stall"} else None
        if not asked.stream and cut is None:
            return _build_response(200, protocol.encode(asked.model, reply))
        pieces = [piece.encode() for piece in protocol.encode_events(asked, reply)] if asked.stream else []
        async with _open_stream(request, "text/event-stream" if asked.stream else "application/json") as stream:
            for piece in pieces[: len(pieces) // 2] if cut else pieces:
                await stream.write(piece)
            if cut:
                await self._break_off(request, cut)
        return stream

    def _reply(self, asked: CompletionRequest, fault: Fault | None, wording: str) -> Reply:
        try:
            model = self._endpoint.find(asked.model)
        except UnknownName as error:
            raise _Refusal(404, str(error)) from None
        except UsageError as error:
            raise _Refusal(400, str(error)) from None
        if fault is not None:
            _refuse(fault, model, wording)
        try:
            return model.reply(asked.request)
        except ContextOverflow as error:
            text = render_overflow_message(wording, error.prompt_tokens or 0, model.window.tokens)
            raise _Refusal(400, text) from None
        except UsageError as error:  # of a model that keeps the conversation and cannot continue it
            raise _Refusal(400, str(error)) from None
        except ModelError as error:
            raise _Refusal(502, str(error)) from None

    async def _break_off(self, request: web.Request, how: str) -> None:
        """End an answer early; `stall` sends nothing until the client disconnects, and `reset` resets the connection."""
        transport = request.transport
        if transport is None:  # the client left
            return
        if how == "stall":
            while not (self._end.is_set() or transport.is_closing()):
                await asyncio.sleep(POLL_SECONDS)
        else:  # closing then resets the connection
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


async def _read_body(request: web.Request) -> bytes:
    if request.content_length is None:
        raise _Refusal(411, "Content-Length: must be the length of the body in bytes")
    if request.content_length > MAX_BODY_BYTES:
        raise _Refusal(413, f"the body has {request.content_length} bytes; at most {MAX_BODY_BYTES} are accepted")
    try:
        async with asyncio.timeout(READ_TIMEOUT_SECONDS):
            return await request.read()
    except TimeoutError:
        raise _Refusal(408, f"the body was not received within {READ_TIMEOUT_SECONDS:g} s") from None


def _build_response(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> web.Response:
    named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
    response = web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=named)
    response.force_close()
    return response


@asynccontextmanager
async def _open_stream(request: web.Request, content_type: str) -> AsyncIterator[web.StreamResponse]:
    stream = web.StreamResponse(headers={"Content-Type": content_type})
    stream.force_close()
    await stream.prepare(request)
    try:
        yield stream
    except ConnectionError:  # the client left
        return
    if request.transport is not None and not request.transport.is_closing():
        await stream.write_eof()


def _refuse(fault: Fault, model: Model, wording: str) -> None:
    """Raise the HTTP error that an injected fault stands for, such as `429`; do nothing for other faults."""
    if fault.kind in REFUSAL_MESSAGES:
        headers = {"Retry_After": fault.value} if fault.value else {}
        raise _Refusal(int(fault.kind), REFUSAL_MESSAGES[fault.kind], **headers)
    if fault.kind == "overflow":
        window_tokens = model.window.tokens
        raise _Refusal(400, render_overflow_message(fault.value or wording, window_tokens + 1, window_tokens))


def _spoil_reply(reply: Reply, fault: Fault | None) -> Reply:
    if fault is None or fault.kind not in {"malformed", "unknown-tool"}:
        return reply
    parts = tuple(_spoil_call(part, fault.kind) if isinstance(part, ToolCall) else part for part in reply.message.parts)
    return replace(reply, message=Message(role="assistant", parts=parts))


def _spoil_call(call: ToolCall, kind: str) -> ToolCall:
    if kind == "unknown-tool":
        return replace(call, name=UNKNOWN_TOOL_NAME)
    return replace(call, arguments_json=call.arguments_json[: max(1, len(call.arguments_json) // 2)])
