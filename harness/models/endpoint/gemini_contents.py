"""Parse requests of Gemini's generateContent API, and encode answers and errors in its format."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.conversation.messages import ToolCall
from harness.conversation.shapes.gemini import Gemini
from harness.errors import UsageError
from harness.models.endpoint.completions import CompletionRequest, parse_body
from harness.models.endpoint.shaped_requests import read_arguments, read_messages
from harness.models.openai_format import JsonObject, decode_tools
from harness.protocols import Reply, Request

PATH = re.compile(r"(?:/v1beta)?/models/(?P<model>.+):(?P<method>generateContent|streamGenerateContent)")
"""Path of a request, which names the model and says whether the answer is streamed."""
PATH_EXAMPLE = "/v1beta/models/MODEL:generateContent"
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    529: "UNAVAILABLE",
}


def parse_contents_request(path: str, body: bytes) -> CompletionRequest:
    """Parse and check a request of generateContent or streamGenerateContent.

    Tools that the provider would run itself are left out, because a scripted model calls functions only.

    Raises:
        UsageError: The body is not a valid request; the message names the field, its value and the allowed values.
    """
    match = PATH.fullmatch(path)
    assert match is not None
    return parse_body(body, _parse_request, {"model": match["model"], "stream": match["method"] == "streamGenerateContent"})


def _parse_request(body: Mapping[str, Any]) -> tuple[Request, bool]:
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise UsageError(f"contents: must be a list of at least one content (got {contents!r:.80})")
    read = read_messages(
        Gemini(), contents, "contents", _read_system(body.get("systemInstruction", body.get("system_instruction")))
    )
    return Request(messages=read, tools=decode_tools(_wrap_tools(body)), max_output_tokens=_read_limit(body)), True


def _read_system(value: object) -> str:
    parts = value.get("parts") if isinstance(value, Mapping) else value
    if parts is None:
        return ""
    if not isinstance(parts, list) or not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise UsageError(f"systemInstruction: must be a content whose parts are texts (got {value!r:.80})")
    return "\n".join(part["text"] for part in parts)


def _wrap_tools(body: Mapping[str, Any]) -> list[JsonObject]:
    """Return the function declarations of all tools in the form of OpenAI's tools."""
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
        raise UsageError(f"tools: must be a list of objects (got {tools!r:.80})")
    declared = [tool.get("functionDeclarations", tool.get("function_declarations")) or [] for tool in tools]
    if not all(isinstance(declarations, list) for declarations in declared):
        raise UsageError(f"tools: functionDeclarations must be a list (got {declared!r:.80})")
    functions = [function for declarations in declared for function in declarations]
    return [{"function": _name_parameters(function) if isinstance(function, Mapping) else function} for function in functions]


def _name_parameters(function: Mapping[str, Any]) -> JsonObject:
    return {**function, "parameters": function.get("parameters") or function.get("parametersJsonSchema") or {}}


def _read_limit(body: Mapping[str, Any]) -> int | None:
    settings = body.get("generationConfig") or {}
    if not isinstance(settings, Mapping):
        raise UsageError(f"generationConfig: must be an object (got {settings!r:.80})")
    limit = settings.get("maxOutputTokens")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise UsageError(f"generationConfig.maxOutputTokens: must be a whole number from 1 up (got {limit!r:.80})")
    return limit


def encode_contents(model: str, reply: Reply) -> JsonObject:
    """Return the body of the HTTP response for an answer that is not streamed."""
    return _build_event(model, _encode_parts(reply), reply)


def encode_content_events(model: str, reply: Reply) -> Iterator[str]:
    """Yield the events of a streamed answer as they are sent: texts line by line; the last event has the usage."""
    pieces: list[JsonObject] = []
    for part in _encode_parts(reply):
        lines = part["text"].splitlines(keepends=True) if part.get("text") else []
        pieces += [{**part, "text": line} for line in lines] if lines else [part]
    for number, piece in enumerate(pieces, 1):
        yield f"data: {json.dumps(_build_event(model, [piece], reply if number == len(pieces) else None))}\r\n\r\n"


def encode_gemini_error(status: int, message: str) -> JsonObject:
    """Return the body of an HTTP error response."""
    return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, "INTERNAL")}}


def _build_event(model: str, parts: list[JsonObject], reply: Reply | None) -> JsonObject:
    """Return the answer, or a part of it; only the last part has the whole reply, with reason and usage."""
    candidate: JsonObject = {"content": {"parts": parts, "role": "model"}, "index": 0}
    event: JsonObject = {"candidates": [candidate], "modelVersion": model, "responseId": "harness"}
    if reply is None:
        return event
    candidate["finishReason"] = "MAX_TOKENS" if reply.cut_short else "SAFETY" if reply.refused else "STOP"
    usage = reply.usage
    event["usageMetadata"] = {
        "promptTokenCount": usage.prompt_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.prompt_tokens + usage.output_tokens,
    }
    return event


def _encode_parts(reply: Reply) -> list[JsonObject]:
    message, parts = reply.message, list[JsonObject]()
    if message.reasoning:
        parts.append({"text": message.reasoning, "thought": True})
    if message.text or not message.calls:
        parts.append({"text": message.text})
    calls: list[JsonObject] = [
        {"functionCall": {"id": call.call_id, "name": call.name, "args": read_arguments(call)}} for call in message.calls
    ]
    if calls:  # Gemini 3 signs the first call of an answer, and refuses a history without the signature
        calls[0]["thoughtSignature"] = _sign(message.calls[0])
    return [*parts, *calls]


def _sign(call: ToolCall) -> str:
    return base64.b64encode(hashlib.sha256(f"{call.call_id}\0{call.name}\0{call.arguments_json}".encode()).digest()).decode()
