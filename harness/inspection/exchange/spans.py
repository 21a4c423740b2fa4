"""Writer of OpenTelemetry spans of a session, in the JSON form of OTLP and by the conventions for generative AI.

A session is one span `invoke_agent`, with a span `chat` for each model call and a span `execute_tool` for each tool call. The
first call after a compaction has the attribute `gen_ai.conversation.compacted`.

Source: open-telemetry/semantic-conventions-genai at 7e7e4e76 (`model/gen-ai/spans.yaml`) and 4f0695dd
(`model/gen-ai/registry.yaml`).
"""

import hashlib
import json
from importlib.metadata import version
from typing import Any

from harness.conversation.messages import Message, Reasoning, ToolCall, ToolResult
from harness.distribution import DISTRIBUTION
from harness.errors import UsageError
from harness.inspection.exchange.atif import join_texts
from harness.inspection.exchange.exported_session import (
    AppliedCompaction,
    ExportedSession,
    ModelCall,
    TypedMessage,
    decode_arguments,
)
from harness.models.registry import look_up_entry

PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Names of providers in the conventions, by their names in litellm's registry, where the two differ."""
UNKNOWN_PROVIDER = "unknown"
_CLIENT, _INTERNAL = 3, 1
_ERROR = {"code": 2}


def build_spans(session: ExportedSession) -> dict[str, Any]:
    """Return the spans of a session as one OTLP request, JSON-ready.

    Messages that are new in a prompt are in `gen_ai.input.messages` of its span, so that a session grows linearly.

    Raises:
        UsageError: The session has no model call, or its times are not known.
    """
    calls = list(session.calls)
    times_ms = [call.at_ms for call in calls if call.at_ms is not None]
    if not times_ms:
        reason = "no model call" if not calls else "no times"
        raise UsageError(f"the session has {reason}, and spans need it; export another session")
    trace_id = hashlib.sha256(session.session_id.encode()).hexdigest()[:32]
    root_id = _make_span_id(trace_id, "session")
    spans: list[dict[str, Any]] = []
    new: list[Message] = []
    compacted, now_ms = False, times_ms[0]
    for number, item in enumerate(session.items):
        match item:
            case TypedMessage():
                new.append(item.message)
            case AppliedCompaction():
                compacted, new = True, list(item.inserted)
            case ModelCall():
                now_ms = item.at_ms or now_ms
                span_id = _make_span_id(trace_id, f"call {number}")
                attributes = _describe_call(item, session, new, compacted=compacted)
                times = (now_ms - round(item.seconds * 1000), now_ms)
                name = f"chat {session.model}".strip()
                spans.append(_build_span(name, trace_id, span_id, root_id, _CLIENT, times, attributes))
                spans += _build_tool_spans(item, trace_id, root_id, now_ms)
                new, compacted = list(item.results), False
    start = min(int(span["startTimeUnixNano"]) for span in spans) // 1_000_000
    end = max(int(span["endTimeUnixNano"]) for span in spans) // 1_000_000
    about = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": name_provider(session.model),
        "gen_ai.agent.name": session.agent,
        "gen_ai.conversation.id": session.session_id,
    }
    root = _build_span(f"invoke_agent {session.agent}", trace_id, root_id, "", _INTERNAL, (start, end), about)
    if session.error:
        root["status"] = {**_ERROR, "message": session.error}
    scope = {"scope": {"name": "harness", "version": version(DISTRIBUTION)}, "spans": [root, *spans]}
    resource = {"attributes": _encode_attributes({"service.name": session.agent})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def name_provider(model: str) -> str:
    """Return the name of the provider of a model in the conventions; `unknown` if the model's name does not say it."""
    listed = str(look_up_entry(model).get("litellm_provider") or "")
    provider = listed.partition("-")[0] or model.rpartition("/")[0].partition("/")[0]
    return PROVIDERS.get(provider, provider) or UNKNOWN_PROVIDER


def _make_span_id(trace_id: str, name: str) -> str:
    return hashlib.sha256(f"{trace_id} {name}".encode()).hexdigest()[:16]


def _describe_call(call: ModelCall, session: ExportedSession, new: list[Message], *, compacted: bool) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": name_provider(session.model),
        "gen_ai.conversation.id": session.session_id,
    }
    if session.model:
        attributes["gen_ai.request.model"] = session.model
    if call.usage is not None:
        attributes |= {
            "gen_ai.usage.input_tokens": call.usage.prompt_tokens,
            "gen_ai.usage.output_tokens": call.usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": call.usage.cache_read_tokens,
            "gen_ai.usage.cache_write.input_tokens": call.usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": call.usage.reasoning_tokens,
        }
    if compacted:
        attributes["gen_ai.conversation.compacted"] = True  # the convention never sets it to false
    reason = "tool_call" if call.answer.calls else "stop"
    attributes["gen_ai.response.finish_reasons"] = [reason]
    attributes["gen_ai.input.messages"] = json.dumps([_encode_message(message) for message in new], ensure_ascii=False)
    answer = {**_encode_message(call.answer), "finish_reason": reason}
    attributes["gen_ai.output.messages"] = json.dumps([answer], ensure_ascii=False)
    return attributes


def _encode_message(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Reasoning():
                parts.append({"type": "reasoning", "content": part.text})
            case ToolCall():
                parts.append({"type": "tool_call", "id": part.call_id, "name": part.name, "arguments": decode_arguments(part)})
            case ToolResult():
                parts.append({"type": "tool_call_response", "id": part.call_id, "result": part.output})
    if text := join_texts(message):
        place = next((index for index, part in enumerate(parts) if part["type"] != "reasoning"), len(parts))
        parts.insert(place, {"type": "text", "content": text})
    return {"role": message.role, "parts": parts}


def _build_tool_spans(call: ModelCall, trace_id: str, root_id: str, now_ms: int) -> list[dict[str, Any]]:
    results = {part.call_id: part for message in call.results for part in message.results}
    spans = []
    for part in call.answer.calls:
        result, timing = results.get(part.call_id), call.timings.get(part.call_id)
        start = timing.started_at_ms if timing is not None else now_ms
        end = start + round(timing.seconds * 1000) if timing is not None else now_ms
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": part.name,
            "gen_ai.tool.call.id": part.call_id,
            "gen_ai.tool.call.arguments": json.dumps(decode_arguments(part), ensure_ascii=False),
        }
        if result is not None:
            attributes["gen_ai.tool.call.result"] = result.output
        span_id = _make_span_id(trace_id, f"tool {part.call_id}")
        span = _build_span(f"execute_tool {part.name}", trace_id, span_id, root_id, _INTERNAL, (start, end), attributes)
        if result is not None and result.status != "completed":
            span["status"] = dict(_ERROR)
            span["attributes"] += _encode_attributes({"error.type": result.status})
        spans.append(span)
    return spans


def _build_span(
    name: str, trace_id: str, span_id: str, parent_id: str, kind: int, times_ms: tuple[int, int], attributes: dict[str, Any]
) -> dict[str, Any]:
    start_ms, end_ms = times_ms
    return {
        "traceId": trace_id,
        "spanId": span_id,
        **({"parentSpanId": parent_id} if parent_id else {}),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(start_ms * 1_000_000),
        "endTimeUnixNano": str(max(start_ms, end_ms) * 1_000_000),
        "attributes": _encode_attributes(attributes),
    }


def _encode_attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _encode_value(value)} for name, value in attributes.items()]


def _encode_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # 64-bit integers are strings in the JSON form of protocol buffers
        case list():
            return {"arrayValue": {"values": [_encode_value(item) for item in value]}}
    return {"stringValue": str(value)}
