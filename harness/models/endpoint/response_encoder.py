"""A reply in the words of the wire, whole or in the chunks of a stream: the counterpart of `StreamedReply`."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.messages import ToolCall
from harness.models.openai_format import usage_to_wire
from harness.protocols import Reply

Plain = dict[str, Any]

CREATED = 0
"""The time that every answer bears: equal requests get equal bytes."""


def finish_reason(reply: Reply) -> str:
    """Why an answer ended."""
    if reply.cut_short:
        return "length"
    return "tool_calls" if reply.message.calls else "stop"


def completion(model: str, reply: Reply) -> Plain:
    """The body of an answer that comes at once."""
    calls = [_call(call) for call in reply.message.calls]
    message: Plain = {"role": "assistant", "content": reply.message.text or None} | ({"tool_calls": calls} if calls else {})
    if reply.message.reasoning:
        message["reasoning_content"] = reply.message.reasoning
    return {
        **_envelope(model, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage_to_wire(reply.usage),
    }


def chunks(model: str, reply: Reply, *, usage: bool) -> Iterator[Plain]:
    """The chunks of a streamed answer; reasoning and text come line by line, the arguments of a call in two halves.

    Args:
        model: as it was asked for.
        reply: the answer.
        usage: whether the last chunk tells the usage.
    """
    yield _chunk(model, {"role": "assistant", "content": ""})
    for line in reply.message.reasoning.splitlines(keepends=True):
        yield _chunk(model, {"reasoning_content": line})
    for line in reply.message.text.splitlines(keepends=True):
        yield _chunk(model, {"content": line})
    for index, call in enumerate(reply.message.calls):
        for piece in _halves(_call(call)):
            yield _chunk(model, {"tool_calls": [{"index": index, **piece}]})
    yield _chunk(model, {}, finish_reason(reply))
    if usage:
        yield {**_envelope(model, "chat.completion.chunk"), "choices": [], "usage": usage_to_wire(reply.usage)}


def error_body(status: int, message: str) -> Plain:
    """The body of a refusal."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "code": status}}


def model_list(names: tuple[str, ...]) -> Plain:
    """The body of `/v1/models`."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": CREATED, "owned_by": "harness"} for name in names],
    }


def _call(call: ToolCall) -> Plain:
    """A call with its arguments as they are, broken or not."""
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def _halves(call: Mapping[str, Any]) -> Iterator[Plain]:
    arguments = call["function"]["arguments"]
    half = len(arguments) // 2
    yield {**call, "function": {**call["function"], "arguments": arguments[:half]}}
    yield {"function": {"arguments": arguments[half:]}}


def _chunk(model: str, delta: Plain, finish: str | None = None) -> Plain:
    return {**_envelope(model, "chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _envelope(model: str, kind: str) -> Plain:
    return {"id": "chatcmpl-harness", "object": kind, "created": CREATED, "model": model}
