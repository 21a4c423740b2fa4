"""Parse requests of the OpenAI chat completions API, and encode answers and errors in its format.

All fields of a request are checked, and an error message names the wrong field.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.conversation.messages import sanitize_message
from harness.errors import UsageError
from harness.models.openai_format import JsonObject, decode_messages, decode_tools, encode_call, encode_usage
from harness.protocols import Reply, Request


class CompletionRequest(NamedTuple):
    """Request for an answer, parsed and checked."""

    model: str
    request: Request
    stream: bool
    """Whether the client asks for a streamed answer."""
    include_usage: bool
    """Whether a streamed answer ends with a report of its token usage."""


def parse_completion_request(body: bytes) -> CompletionRequest:
    """Parse and check the body of a chat completion request.

    Raises:
        UsageError: The body is not a valid request; the message names the field, its value and the allowed values.
    """
    return parse_body(body, _parse_request)


def parse_body(
    body: bytes,
    parse_request: Callable[[Mapping[str, Any]], tuple[Request, bool]],
    in_path: Mapping[str, Any] = MappingProxyType({}),
) -> CompletionRequest:
    """Parse and check what the bodies of all protocols have in common.

    Args:
        body: Body of the HTTP request.
        parse_request: Function that reads the rest of the body: the request, and whether a streamed answer reports its usage.
        in_path: Fields `model` and `stream` of a protocol that has them in the path of the request. Default: none.

    Raises:
        UsageError: The body is not a valid request; the message names the field, its value and the allowed values.
    """
    try:
        plain = json.loads(body)
        if not isinstance(plain, dict):
            raise UsageError("the body must be a JSON object")
        model, stream = (in_path.get(name, plain.get(name)) for name in ("model", "stream"))
        stream = stream or False
        if not isinstance(model, str) or not model:
            raise UsageError(f"model: must be a name (got {model!r:.80})")
        if not isinstance(stream, bool):
            raise UsageError(f"stream: must be true or false (got {stream!r:.80})")
        request, include_usage = parse_request(plain)
        return CompletionRequest(model, request, stream, include_usage)
    except UsageError:
        raise
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not valid JSON: {error!s:.200}") from None


def _parse_request(body: Mapping[str, Any]) -> tuple[Request, bool]:
    if body.get("n") not in (None, 1):
        raise UsageError(f"n: must be 1, because each request gets one answer (got {body['n']!r:.80})")
    options = body.get("stream_options")
    include_usage = isinstance(options, Mapping) and options.get("include_usage") is True
    messages, tools = body.get("messages"), body.get("tools") or []
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"messages: must be a list of at least one message (got {messages!r:.80})")
    for index, message in enumerate(messages):
        _check_content(message, f"messages.{index}")
    if not isinstance(tools, list):
        raise UsageError(f"tools: must be a list (got {tools!r:.80})")
    decoded = tuple(map(sanitize_message, decode_messages(messages)))
    return Request(messages=decoded, tools=decode_tools(tools), max_output_tokens=read_limit(body)), include_usage


def _check_content(message: object, where: str) -> None:
    if not isinstance(message, dict):
        raise UsageError(f"{where}: must be an object (got {message!r:.80})")
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, str | None) and not (
        isinstance(content, list) and all(isinstance(block, dict) for block in content)
    ):
        raise UsageError(f"{where}.content: must be a text or a list of blocks (got {content!r:.80})")
    if not isinstance(calls, list | None) or not all(isinstance(call, dict) for call in calls or ()):
        raise UsageError(f"{where}.tool_calls: must be a list of calls (got {calls!r:.80})")


def read_limit(body: Mapping[str, Any]) -> int | None:
    """Return the maximum number of tokens of the answer; None if the request sets none.

    Raises:
        UsageError: The limit is no whole number from 1 up.
    """
    for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
        limit = body.get(name)
        if limit is None:
            continue
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise UsageError(f"{name}: must be a whole number from 1 up (got {limit!r:.80})")
        return limit
    return None


CREATED = 0
"""Time stamp that every answer of the server carries. It is constant, so that equal requests get identical answers."""


def choose_finish_reason(reply: Reply) -> str:
    """Return the finish reason of a reply in the OpenAI format, e.g. `stop` or `tool_calls`."""
    if reply.cut_short:
        return "length"
    if reply.refused:
        return "content_filter"
    return "tool_calls" if reply.message.calls else "stop"


def encode_completion(model: str, reply: Reply) -> JsonObject:
    """Return the body of the HTTP response for an answer that is not streamed."""
    calls = [encode_call(call) for call in reply.message.calls]
    message: JsonObject = {"role": "assistant", "content": reply.message.text or None} | ({"tool_calls": calls} if calls else {})
    if reply.message.reasoning:
        message["reasoning_content"] = reply.message.reasoning
    return {
        **_build_envelope(model, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": choose_finish_reason(reply)}],
        "usage": encode_usage(reply.usage),
    }


def encode_chunks(model: str, reply: Reply, *, include_usage: bool) -> Iterator[JsonObject]:
    """Yield the chunks of a streamed answer: reasoning and text line by line, then the tool calls.

    The arguments of each tool call are sent in two halves.

    Args:
        model: Name of the model, as in the request.
        reply: Complete reply to send.
        include_usage: Whether the last chunk reports the token usage.
    """
    yield _encode_chunk(model, {"role": "assistant", "content": ""})
    for line in reply.message.reasoning.splitlines(keepends=True):
        yield _encode_chunk(model, {"reasoning_content": line})
    for line in reply.message.text.splitlines(keepends=True):
        yield _encode_chunk(model, {"content": line})
    for index, call in enumerate(reply.message.calls):
        for piece in _split_arguments(encode_call(call)):
            yield _encode_chunk(model, {"tool_calls": [{"index": index, **piece}]})
    yield _encode_chunk(model, {}, choose_finish_reason(reply))
    if include_usage:
        yield {**_build_envelope(model, "chat.completion.chunk"), "choices": [], "usage": encode_usage(reply.usage)}


def encode_error(status: int, message: str) -> JsonObject:
    """Return the body of an HTTP error response in the OpenAI format."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "code": status}}


def encode_model_list(names: tuple[str, ...]) -> JsonObject:
    """Return the body of the HTTP response at `/v1/models`, which lists the names of the models."""
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "harness"} for name in names]
    return {"object": "list", "data": data}


def split_in_half(text: str) -> tuple[str, str]:
    """Return the two halves of a text."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def _split_arguments(call: Mapping[str, Any]) -> Iterator[JsonObject]:
    first, second = split_in_half(call["function"]["arguments"])
    yield {**call, "function": {**call["function"], "arguments": first}}
    yield {"function": {"arguments": second}}


def encode_chunk_events(model: str, reply: Reply, *, include_usage: bool) -> Iterator[str]:
    """Yield the events of a streamed answer as they are sent."""
    for chunk in encode_chunks(model, reply, include_usage=include_usage):
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _encode_chunk(model: str, delta: JsonObject, finish: str | None = None) -> JsonObject:
    return {**_build_envelope(model, "chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _build_envelope(model: str, kind: str) -> JsonObject:
    return {"id": "chatcmpl-harness", "object": kind, "created": CREATED, "model": model}
