"""Parse requests of the OpenAI responses API, and encode answers in its format."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.conversation.shapes.openai_responses import OpenAIResponses
from harness.errors import UsageError
from harness.models.endpoint.completions import CREATED, CompletionRequest, parse_body, read_limit, split_in_half
from harness.models.endpoint.shaped_requests import read_messages
from harness.models.openai_format import JsonObject, decode_tools
from harness.protocols import Reply, Request

_ID = "resp_harness"


def parse_responses_request(body: bytes) -> CompletionRequest:
    """Parse and check the body of a request of the responses API.

    Tools that the provider would run itself are left out, because a scripted model calls functions only.

    Raises:
        UsageError: The body is not a valid request; the message names the field, its value and the allowed values.
    """
    return parse_body(body, _parse_request)


def _parse_request(body: Mapping[str, Any]) -> tuple[Request, bool]:
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            raise UsageError(f"{name}: the server keeps no answers; send all items in input (got {body[name]!r:.80})")
    given, instructions = body.get("input"), body.get("instructions")
    items = [{"role": "user", "content": given}] if isinstance(given, str) and given else given
    if not isinstance(items, list) or not items:
        raise UsageError(f"input: must be a text or a list of at least one item (got {given!r:.80})")
    messages = read_messages(OpenAIResponses(), items, "input", _check_text(instructions, "instructions"))
    return Request(messages=messages, tools=decode_tools(_wrap_tools(body)), max_output_tokens=read_limit(body)), True


def _wrap_tools(body: Mapping[str, Any]) -> list[JsonObject]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise UsageError(f"tools: must be a list (got {tools!r:.80})")
    return [{"function": tool} for tool in tools if not isinstance(tool, Mapping) or tool.get("type", "function") == "function"]


def _check_text(value: object, name: str) -> str:
    if not isinstance(value, str | None):
        raise UsageError(f"{name}: must be a text (got {value!r:.80})")
    return value or ""


def encode_response(model: str, reply: Reply) -> JsonObject:
    """Return the body of the HTTP response for an answer that is not streamed."""
    reason = "max_output_tokens" if reply.cut_short else "content_filter" if reply.refused else None
    usage = reply.usage
    return {
        **_build_envelope(model, "incomplete" if reason else "completed"),
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _encode_items(reply),
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.prompt_tokens + usage.output_tokens,
        },
    }


def _build_envelope(model: str, status: str) -> JsonObject:
    fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}, "temperature": 1.0, "top_p": 1.0}
    envelope = {"id": _ID, "object": "response", "created_at": CREATED, "model": model, "status": status}
    return {**envelope, "error": None, "incomplete_details": None, "instructions": None, "output": [], "usage": None, **fixed}


def _encode_items(reply: Reply) -> list[JsonObject]:
    message, items = reply.message, list[JsonObject]()
    if message.reasoning:
        items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": message.reasoning}]})
    if message.text or not message.calls:
        content = [{"type": "output_text", "text": message.text, "annotations": []}]
        items.append({"type": "message", "status": "completed", "role": "assistant", "content": content})
    for call in message.calls:
        named = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments_json}
        items.append({"type": "function_call", "status": "completed", **named})
    return [{"id": f"item_{index}", **item} for index, item in enumerate(items)]


def encode_response_events(model: str, reply: Reply) -> Iterator[str]:
    """Yield the events of a streamed answer as they are sent: text line by line, the arguments of a call in two halves."""
    for number, event in enumerate(_list_events(model, reply)):
        yield f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"


def _list_events(model: str, reply: Reply) -> Iterator[JsonObject]:
    complete = encode_response(model, reply)
    for kind in ("response.created", "response.in_progress"):
        yield {"type": kind, "response": _build_envelope(model, "in_progress")}
    for index, item in enumerate(complete["output"]):
        opened: JsonObject = {**item, "status": "in_progress"} if "status" in item else dict(item)
        empty: JsonObject = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
        opened |= empty[item["type"]]
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield from _list_item_events(item, {"item_id": item["id"], "output_index": index})
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{complete['status']}", "response": complete}


def _list_item_events(item: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    match item["type"]:
        case "message":
            (part,) = item["content"]
            place = {**place, "content_index": 0}
            yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
            for line in part["text"].splitlines(keepends=True):
                yield {"type": "response.output_text.delta", **place, "delta": line, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": part}
        case "function_call":
            for half in split_in_half(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": half}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        case _:
            (part,) = item["summary"]
            place = {**place, "summary_index": 0}
            yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
            for line in part["text"].splitlines(keepends=True):
                yield {"type": "response.reasoning_summary_text.delta", **place, "delta": line}
            yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
