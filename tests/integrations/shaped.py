"""Messages of this project in the shapes of other libraries, written independently of the package, for tests."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from harness.conversation.messages import Message

Raws = list[dict[str, Any]]


def to_chat(messages: Sequence[Message]) -> Raws:
    raws: Raws = []
    for number, message in enumerate(messages):
        if message.role == "tool":
            (result,) = message.results
            raws.append({"role": "tool", "tool_call_id": result.call_id, "content": result.output, "x_number": number})
            continue
        raw: dict[str, Any] = {"role": message.role, "content": message.text or None, "x_number": number}
        if message.calls:
            raw["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
                for call in message.calls
            ]
        raws.append(raw)
    return raws


def to_responses(messages: Sequence[Message]) -> Raws:
    raws: Raws = []
    for number, message in enumerate(messages):
        if message.role == "tool":
            (result,) = message.results
            raws.append({"type": "function_call_output", "call_id": result.call_id, "output": result.output, "x_number": number})
            continue
        kind = "output_text" if message.role == "assistant" else "input_text"
        if message.role == "assistant" and message.calls:
            raws.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "?", "x_number": number})
        if message.text or not message.calls:
            content = [{"type": kind, "text": message.text, "annotations": []}]
            raws.append({"type": "message", "role": message.role, "content": content, "x_number": number})
        raws += [
            {
                "type": "function_call",
                "call_id": call.call_id,
                "name": call.name,
                "arguments": call.arguments_json,
                "x_number": number,
            }
            for call in message.calls
        ]
    return raws


def to_anthropic(messages: Sequence[Message]) -> Raws:
    """Without the system message; results of one answer and the user's text behind them are blocks of one message."""
    raws: Raws = []
    for number, message in enumerate(messages):
        if message.role == "system":
            continue
        if message.role == "tool":
            (result,) = message.results
            block = {"type": "tool_result", "tool_use_id": result.call_id, "content": result.output, "x_number": number}
            if result.status == "error":
                block["is_error"] = True
            if raws and raws[-1]["role"] == "user" and messages[number - 1].role == "tool":
                raws[-1]["content"].append(block)
            else:
                raws.append({"role": "user", "content": [block], "x_number": number})
            continue
        text = [{"type": "text", "text": message.text, "x_number": number}] if message.text else []
        calls = [
            {"type": "tool_use", "id": call.call_id, "name": call.name, "input": json.loads(call.arguments_json)}
            for call in message.calls
        ]
        if message.role == "user" and raws and raws[-1]["role"] == "user" and messages[number - 1].role == "tool":
            raws[-1]["content"] += text or [{"type": "text", "text": "", "x_number": number}]
        else:
            raws.append({"role": message.role, "content": [*text, *calls], "x_number": number})
    return raws


def to_gemini(messages: Sequence[Message]) -> Raws:
    """Without the system message; the first of several results stands alone, and the others with the user's text behind them."""
    raws: Raws = []
    for number, message in enumerate(messages):
        if message.role == "system":
            continue
        if message.role == "tool":
            (result,) = message.results
            response = {"error" if result.status == "error" else "output": result.output}
            part: dict[str, Any] = {
                "functionResponse": {"id": result.call_id, "name": result.name or "tool", "response": response}
            }
            is_third = number > 1 and [one.role for one in messages[number - 2 : number]] == ["tool", "tool"]
            if is_third:
                raws[-1]["parts"].append({**part, "x_number": number})
            else:
                raws.append({"role": "user", "parts": [{**part, "x_number": number}]})
            continue
        parts: list[dict[str, Any]] = [{"text": message.text}] if message.text or not message.calls else []
        for call in message.calls:
            function = {"id": call.call_id, "name": call.name, "args": json.loads(call.arguments_json)}
            parts.append({"functionCall": function, "thoughtSignature": f"signature {number}"})
        if message.role == "user" and messages[number - 1].role == "tool":
            raws[-1]["parts"] += [{**part, "x_number": number} for part in parts]
        else:
            role = "model" if message.role == "assistant" else "user"
            raws.append({"role": role, "parts": [{**part, "x_number": number} for part in parts]})
    return raws


def to_langchain(messages: Sequence[Message]) -> Raws:
    kinds = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}
    raws: Raws = []
    for number, message in enumerate(messages):
        data: dict[str, Any] = {"content": message.text, "type": kinds[message.role], "id": f"run-{number}", "x_number": number}
        if message.calls:
            data["tool_calls"] = [
                {"name": call.name, "args": json.loads(call.arguments_json), "id": call.call_id, "type": "tool_call"}
                for call in message.calls
            ]
        for result in message.results:
            status = "success" if result.status == "completed" else "error"
            data |= {"content": result.output, "tool_call_id": result.call_id, "status": status}
        raws.append({"type": kinds[message.role], "data": data})
    return raws


def to_flat_langchain(messages: Sequence[Message]) -> Raws:
    return [raw["data"] for raw in to_langchain(messages)]


WRITERS: dict[str, Callable[[Sequence[Message]], Raws]] = {
    "chat": to_chat,
    "responses": to_responses,
    "anthropic": to_anthropic,
    "gemini": to_gemini,
    "langchain": to_langchain,
    "flat-langchain": to_flat_langchain,
}


def list_numbers(raws: Sequence[Any]) -> list[int]:
    """Return the number of each message of which something is in the raw messages, in order; inserted messages have none."""
    numbers: list[int] = []
    for raw in raws:
        fields = raw.get("data", raw)
        content = fields.get("parts", fields.get("content"))
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        inside = [block["x_number"] for block in blocks if "x_number" in block]
        numbers += inside or ([fields["x_number"]] if "x_number" in fields else [])
    return list(dict.fromkeys(numbers))
