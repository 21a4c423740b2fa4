"""Writer of logs of Inspect (`.eval`), in which a session is the only sample of an evaluation.

Source: UKGovernmentBEIS/inspect_ai at 499e6152 (`src/inspect_ai/log/_log.py`, `log/_recorders/eval.py`, `event/_model.py`,
`event/_compaction.py`).
"""

import hashlib
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.conversation.messages import Message, Reasoning
from harness.errors import UsageError
from harness.inspection.exchange.atif import format_time, join_texts
from harness.inspection.exchange.exported_session import (
    AppliedCompaction,
    ExportedSession,
    ModelCall,
    TypedMessage,
    decode_arguments,
)

_UNKNOWN_TIME = "1970-01-01T00:00:00.000+00:00"
"""Time of an event whose time is not known; the format needs one."""


def write_log(session: ExportedSession, file: Path) -> None:
    """Write a session as the log of an evaluation with one sample.

    Raises:
        UsageError: The session has no message.
    """
    sample = _build_sample(session)
    if not sample["messages"]:
        raise UsageError("the session has no message, and a sample needs one; export another session")
    times = [event["timestamp"] for event in sample["events"] if event["timestamp"] != _UNKNOWN_TIME]
    created = times[0] if times else _UNKNOWN_TIME
    evaluation = {
        "eval_id": f"harness-{hashlib.sha256(session.session_id.encode()).hexdigest()[:12]}",
        "run_id": "harness",
        "created": created,
        "task": session.agent,
        "task_id": session.agent,
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "dataset": {"name": "session", "samples": 1, "sample_ids": [1]},
        "model": session.model or "unknown",
        "model_args": {},
        "config": {},
        "packages": {},
    }
    plan = {"name": "plan", "steps": [], "config": {}}
    stats: dict[str, Any] = {"started_at": created, "completed_at": times[-1] if times else created, "model_usage": {}}
    header = {"version": 2, "status": "success", "eval": evaluation, "plan": plan, "stats": stats}
    summary = {"id": 1, "epoch": 1, "input": sample["input"][:1_000], "target": "", "completed": True}
    members = {
        "_journal/start.json": {"version": 2, "eval": evaluation, "plan": plan},
        "samples/1_epoch_1.json": sample,
        "summaries.json": [summary],
        "header.json": header,
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value, ensure_ascii=False))


def _build_sample(session: ExportedSession) -> dict[str, Any]:
    pool = _MessagePool()
    messages: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for item in session.items:
        match item:
            case TypedMessage(message=message):
                messages.append(pool.encode(message))
            case ModelCall():
                messages += [pool.encode(message) for message in (item.answer, *item.results)]
                events.append(_build_model_event(item, session.model, pool))
            case AppliedCompaction():
                messages += [
                    {**pool.encode(message), "metadata": {"summary": True}} for message in item.inserted if message.role == "user"
                ]
                events.append(_build_compaction_event(item))
    error = {"error": {"message": session.error, "traceback": "", "traceback_ansi": ""}} if session.error else {}
    return {
        "id": 1,
        "epoch": 1,
        "input": session.task or "(not recorded)",
        "target": "",
        "messages": messages,
        "output": {"model": session.model or "unknown", "choices": []},
        "scores": {},
        "metadata": {"agent": session.agent},
        "store": {},
        "events": events,
        "events_data": {"messages": pool.messages, "calls": []},
        "model_usage": {},
        "uuid": session.session_id,
        "attachments": {},
        **error,
    }


class _MessagePool:
    """Messages of all requests, each once, to which events refer."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._kept: list[Message] = []
        """Messages whose Python ids are keys, kept so that no other message gets the same id."""

    def encode(self, message: Message) -> dict[str, Any]:
        """Return a message in the form of Inspect, with the same id each time."""
        return self.messages[self._find_place(message)]

    def list_ranges(self, messages: Iterable[Message]) -> list[list[int]]:
        """Return ranges of the pool that hold some messages in order, each with its start and its exclusive end."""
        ranges: list[list[int]] = []
        for place in map(self._find_place, messages):
            if ranges and ranges[-1][1] == place:
                ranges[-1][1] = place + 1
            else:
                ranges.append([place, place + 1])
        return ranges

    def _find_place(self, message: Message) -> int:
        if id(message) not in self._places:
            self._places[id(message)] = len(self.messages)
            self._kept.append(message)
            self.messages.append({"id": f"message-{len(self.messages) + 1}", **_encode_message(message)})
        return self._places[id(message)]


def _encode_message(message: Message) -> dict[str, Any]:
    text = join_texts(message)
    match message.role:
        case "tool":
            (result,) = message.results
            error = {} if result.status == "completed" else {"error": {"type": "unknown", "message": result.output}}
            about = {"tool_call_id": result.call_id, "function": result.name}
            return {"role": "tool", "content": result.output, **about, **error}
        case "assistant":
            thoughts = [{"type": "reasoning", "reasoning": part.text} for part in message.parts if isinstance(part, Reasoning)]
            texts = [{"type": "text", "text": text}] if text else []
            calls = [
                {"id": part.call_id, "function": part.name, "arguments": decode_arguments(part), "type": "function"}
                for part in message.calls
            ]
            content = [*thoughts, *texts] if thoughts else text
            return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return {"role": message.role, "content": text}


def _build_model_event(call: ModelCall, model: str, pool: _MessagePool) -> dict[str, Any]:
    usage = {}
    if call.usage is not None:
        usage = {
            "input_tokens": call.usage.input_tokens,
            "output_tokens": call.usage.output_tokens,
            "total_tokens": call.usage.prompt_tokens + call.usage.output_tokens,
            "input_tokens_cache_read": call.usage.cache_read_tokens,
            "input_tokens_cache_write": call.usage.cache_write_tokens,
            "reasoning_tokens": call.usage.reasoning_tokens,
            "total_cost": call.cost_usd,
        }
    end = _UNKNOWN_TIME if call.at_ms is None else format_time(call.at_ms)
    start = _UNKNOWN_TIME if call.at_ms is None else format_time(call.at_ms - round(call.seconds * 1000))
    choice = {"message": pool.encode(call.answer), "stop_reason": "tool_calls" if call.answer.calls else "stop"}
    return {
        "event": "model",
        "timestamp": start,
        "working_start": 0.0,
        "completed": end,
        "working_time": call.seconds,
        "model": model or "unknown",
        "input": [],
        "input_refs": pool.list_ranges(call.request),
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": {"model": model or "unknown", "choices": [choice], **({"usage": usage} if usage else {}), "time": call.seconds},
    }


def _build_compaction_event(item: AppliedCompaction) -> dict[str, Any]:
    return {
        "event": "compaction",
        "timestamp": _UNKNOWN_TIME if item.at_ms is None else format_time(item.at_ms),
        "working_start": 0.0,
        "type": "summary" if item.inserted else "edit",
        "tokens_before": item.tokens_before,
        "tokens_after": item.tokens_after,
        "source": "harness",
        "metadata": {"reason": item.reason, "trigger": "manual" if item.is_manual else "auto"},
    }
