"""Writer of the Agent Trajectory Interchange Format, version 1.7.

Source: the package `harbor` 0.26.0 (`harbor/models/trajectories`), and its agents for the convention of `context_management`.
"""

import datetime as dt
from importlib.metadata import version
from typing import Any

from harness.conversation.messages import Message, Reasoning, extract_part_text
from harness.distribution import DISTRIBUTION
from harness.errors import UsageError
from harness.inspection.exchange.exported_session import (
    AppliedCompaction,
    ExportedSession,
    ModelCall,
    SessionItem,
    TypedMessage,
    decode_arguments,
)

SCHEMA_VERSION = "ATIF-v1.7"


def build_trajectory(session: ExportedSession) -> dict[str, Any]:
    """Return a session as a trajectory, JSON-ready.

    Raises:
        UsageError: The session has no message.
    """
    steps: list[dict[str, Any]] = []
    for item in session.items:
        time = {} if item.at_ms is None else {"timestamp": format_time(item.at_ms)}
        steps.append({"step_id": len(steps) + 1, **time, **_build_step(item)})
    if not steps:
        raise UsageError("the session has no message, and a trajectory needs one; export another session")
    usages = [call.usage for call in session.calls if call.usage is not None]
    totals = {
        "total_prompt_tokens": sum(usage.prompt_tokens for usage in usages),
        "total_completion_tokens": sum(usage.output_tokens for usage in usages),
        "total_cached_tokens": sum(usage.cache_read_tokens for usage in usages),
    }
    cost = {} if session.cost_usd is None else {"total_cost_usd": session.cost_usd}
    agent = {"name": session.agent, "version": version(DISTRIBUTION) if session.agent == "harness" else "unknown"}
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": session.session_id,
        "agent": {**agent, **({"model_name": session.model} if session.model else {})},
        "steps": steps,
        "final_metrics": {**(totals if usages else {}), **cost, "total_steps": len(steps)},
    }


def _build_step(item: SessionItem) -> dict[str, Any]:
    match item:
        case TypedMessage(message=message):
            return {"source": "system" if message.role == "system" else "user", "message": join_texts(message)}
        case ModelCall():
            return _build_agent_step(item)
        case AppliedCompaction():
            return _build_boundary(item)


def _build_agent_step(call: ModelCall) -> dict[str, Any]:
    reasoning = "\n".join(part.text for part in call.answer.parts if isinstance(part, Reasoning))
    calls = [
        {"tool_call_id": part.call_id, "function_name": part.name, "arguments": decode_arguments(part)}
        for part in call.answer.calls
    ]
    results = [
        {
            "source_call_id": part.call_id,
            "content": part.output,
            **({} if part.status == "completed" else {"extra": {"status": part.status}}),
        }
        for message in call.results
        for part in message.results
    ]
    metrics: dict[str, Any] = {}
    if call.usage is not None:
        usage = call.usage
        extra = {"cache_creation_input_tokens": usage.cache_write_tokens, "reasoning_tokens": usage.reasoning_tokens}
        extra = {name: count for name, count in extra.items() if count}
        metrics = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
            **({"extra": extra} if extra else {}),
        }
    if call.cost_usd is not None:
        metrics["cost_usd"] = call.cost_usd
    return {
        "source": "agent",
        "message": join_texts(call.answer),
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
        **({"observation": {"results": results}} if results else {}),
        **({"metrics": metrics} if metrics else {}),
        "llm_call_count": 1,
    }


def _build_boundary(item: AppliedCompaction) -> dict[str, Any]:
    about = {"type": "compaction", "boundary": "replace", "tokens_before": item.tokens_before, "tokens_after": item.tokens_after}
    results = [{"content": join_texts(message)} for message in item.inserted]
    return {
        "source": "system",
        "message": f"Context compaction: {item.reason}",
        **({"observation": {"results": results}} if results else {}),
        "extra": {"context_management": about},
    }


def join_texts(message: Message) -> str:
    """Return the texts of a message, without reasoning, tool calls and results."""
    return "\n".join(
        extract_part_text(part) for part in message.parts if part.kind not in {"reasoning", "tool-call", "tool-result"}
    )


def format_time(at_ms: int) -> str:
    """Return a time in milliseconds since the epoch in ISO 8601."""
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
