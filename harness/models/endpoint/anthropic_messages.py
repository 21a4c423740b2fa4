"""Parse requests of Anthropic's messages API, and encode answers and errors in its format."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.conversation.shapes.anthropic import Anthropic
from harness.errors import UsageError
from harness.models.endpoint.completions import CompletionRequest, parse_body, read_limit, split_in_half
from harness.models.endpoint.shaped_requests import read_arguments, read_messages
from harness.models.openai_format import JsonObject, decode_tools
from harness.protocols import Reply, Request

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def parse_messages_request(body: bytes) -> CompletionRequest:
    """Parse and check the body of a request of the messages API.

    Tools that the provider would run itself are left out, because a scripted model calls the client's tools only.

    Raises:
        UsageError: The body is not a valid request; the message names the field, its value and the allowed values.
    """
    return parse_body(body, _parse_request)


def _parse_request(body: Mapping[str, Any]) -> tuple[Request, bool]:
    messages, tools = body.get("messages"), body.get("tools") or []
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"messages: must be a list of at least one message (got {messages!r:.80})")
    if not isinstance(tools, list):
        raise UsageError(f"tools: must be a list (got {tools!r:.80})")
    read = read_messages(Anthropic(), messages, "messages", _read_system(body.get("system")))
    wrapped = [
        {"function": {**tool, "parameters": tool["input_schema"]} if isinstance(tool, Mapping) else tool}
        for tool in tools
        if not isinstance(tool, Mapping) or "input_schema" in tool
    ]
    return Request(messages=read, tools=decode_tools(wrapped), max_output_tokens=read_limit(body)), True


def _read_system(value: object) -> str:
    if isinstance(value, str | None):
        return value or ""
    if not isinstance(value, list) or not all(isinstance(block, dict) and isinstance(block.get("text"), str) for block in value):
        raise UsageError(f"system: must be a text or a list of text blocks (got {value!r:.80})")
    return "\n".join(block["text"] for block in value)


def encode_message(model: str, reply: Reply) -> JsonObject:
    """Return the body of the HTTP response for an answer that is not streamed."""
    return {**_build_envelope(model, reply), "content": _encode_blocks(reply), "stop_reason": _choose_stop_reason(reply)}


def encode_message_events(model: str, reply: Reply) -> Iterator[str]:
    """Yield the events of a streamed answer as they are sent: text line by line, the arguments of a call in two halves."""
    for event in _list_events(model, reply):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def encode_anthropic_error(status: int, message: str) -> JsonObject:
    """Return the body of an HTTP error response."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _list_events(model: str, reply: Reply) -> Iterator[JsonObject]:
    envelope = _build_envelope(model, reply)
    yield {"type": "message_start", "message": {**envelope, "usage": {**envelope["usage"], "output_tokens": 1}}}
    for index, block in enumerate(_encode_blocks(reply)):
        key = {"text": "text", "thinking": "thinking"}.get(block["type"], "input")
        empty: object = {} if key == "input" else ""
        yield {"type": "content_block_start", "index": index, "content_block": {**block, key: empty}}
        if key == "input":
            call = next(call for call in reply.message.calls if call.call_id == block["id"])
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in split_in_half(call.arguments_json)]
        else:
            deltas = [{"type": f"{key}_delta", key: line} for line in block[key].splitlines(keepends=True)]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending: JsonObject = {"stop_reason": _choose_stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": reply.usage.output_tokens}}
    yield {"type": "message_stop"}


def _build_envelope(model: str, reply: Reply) -> JsonObject:
    usage = {
        "input_tokens": reply.usage.input_tokens,
        "cache_read_input_tokens": reply.usage.cache_read_tokens,
        "cache_creation_input_tokens": reply.usage.cache_write_tokens,
        "output_tokens": reply.usage.output_tokens,
    }
    start = {"id": "msg_harness", "type": "message", "role": "assistant", "model": model, "content": []}
    return {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}


def _encode_blocks(reply: Reply) -> list[JsonObject]:
    message, blocks = reply.message, list[JsonObject]()
    if message.reasoning:
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    calls = ({"type": "tool_use", "id": call.call_id, "name": call.name, "input": read_arguments(call)} for call in message.calls)
    return [*blocks, *calls]


def _choose_stop_reason(reply: Reply) -> str:
    if reply.cut_short:
        return "max_tokens"
    if reply.refused:
        return "refusal"
    return "tool_use" if reply.message.calls else "end_turn"
