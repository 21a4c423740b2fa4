"""A reply in the words of the wire, whole or in the chunks of a stream: the counterpart of `StreamedReply`."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.models.openai_format import JsonObject, encode_call, encode_usage
from harness.protocols import Reply

CREATED = 0
"""The time that every answer bears: equal requests get equal bytes."""


def choose_finish_reason(reply: Reply) -> str:
    """Why an answer ended."""
    if reply.cut_short:
        return "length"
    return "tool_calls" if reply.message.calls else "stop"


def encode_completion(model: str, reply: Reply) -> JsonObject:
    """The body of an answer that comes at once."""
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
    """The chunks of a streamed answer; reasoning and text come line by line, the arguments of a call in two halves.

    Args:
        model: as it was asked for.
        reply: the answer.
        include_usage: whether the last chunk tells the usage.
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
    """The body of a refusal."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "code": status}}


def encode_model_list(names: tuple[str, ...]) -> JsonObject:
    """The body of `/v1/models`."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": CREATED, "owned_by": "harness"} for name in names],
    }


def _split_arguments(call: Mapping[str, Any]) -> Iterator[JsonObject]:
    arguments = call["function"]["arguments"]
    half = len(arguments) // 2
    yield {**call, "function": {**call["function"], "arguments": arguments[:half]}}
    yield {"function": {"arguments": arguments[half:]}}


def _encode_chunk(model: str, delta: JsonObject, finish: str | None = None) -> JsonObject:
    return {**_build_envelope(model, "chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _build_envelope(model: str, kind: str) -> JsonObject:
    return {"id": "chatcmpl-harness", "object": kind, "created": CREATED, "model": model}
