"""Writer of traces in the form of the kv-cache-tester: token counts and digests of blocks, without texts.

Source: callanjfox/kv-cache-tester at 94f6046d (`README.md`, `trace_replay_tester.py`, `traces/`).
"""

import hashlib
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from harness.conversation.messages import Message
from harness.conversation.tokens import iter_texts
from harness.errors import UsageError
from harness.inspection.exchange.exported_session import ExportedSession, ModelCall, SessionItem, TypedMessage

BLOCK_TOKENS = 64


def build_trace(session: ExportedSession) -> dict[str, Any]:
    """Return a session as a trace, JSON-ready.

    The prompt of a call has a digest for each block of as many characters as `BLOCK_TOKENS` tokens have in the median of the
    session. Equal beginnings of two lists of digests are equal beginnings of two prompts.

    Raises:
        UsageError: No model call of the session has usage that the provider reported.
    """
    calls = [call for call in session.calls if call.usage is not None and call.usage.prompt_tokens > 0]
    if not calls:
        raise UsageError("no model call of the session has reported usage, and a trace consists of it; export another session")
    prompts = [_join_prompt(call.request) for call in calls]
    ratios = [len(prompt) / call.usage.prompt_tokens for prompt, call in zip(prompts, calls, strict=True) if call.usage]
    block_characters = max(1, round(BLOCK_TOKENS * median(ratios)))
    numbers: dict[bytes, int] = {}
    first_seconds = next((sent for sent in map(_find_sent_seconds, calls) if sent is not None), 0.0)
    inputs = _list_input_types(session.items)
    requests = [
        _build_request(call, session.model, _number_blocks(prompt, block_characters, numbers), first_seconds, inputs[id(call)])
        for prompt, call in zip(prompts, calls, strict=True)
    ]
    totals = {"input": sum(request["in"] for request in requests), "output": sum(request["out"] for request in requests)}
    return {
        "id": session.session_id,
        "models": [session.model] if session.model else [],
        "block_size": BLOCK_TOKENS,
        "hash_id_scope": "local",
        "tool_tokens": 0,
        "system_tokens": 0,
        "requests": requests,
        "totals": {
            "parent_tokens": totals,
            "subagent_tokens": {"input": 0, "output": 0},
            "combined_tokens": totals,
            "subagent_count": 0,
        },
    }


def _join_prompt(messages: Iterable[Message]) -> str:
    return "\0".join(text for message in messages for text in (message.role, *iter_texts(message)))


def _number_blocks(prompt: str, block_characters: int, numbers: dict[bytes, int]) -> list[int]:
    """Return a number for each whole block of a prompt, which stands for the block and all before it."""
    digest = hashlib.sha256()
    blocks = []
    for start in range(0, len(prompt) - block_characters + 1, block_characters):
        digest.update(prompt[start : start + block_characters].encode(errors="surrogatepass"))
        blocks.append(numbers.setdefault(digest.digest(), len(numbers) + 1))
    return blocks


def _list_input_types(items: Sequence[SessionItem]) -> dict[int, list[str]]:
    """Return what was new in the prompt of each model call, by Python's `id()` of the call."""
    types: dict[int, list[str]] = {}
    new: list[str] = []
    for item in items:
        if isinstance(item, TypedMessage):
            new.append("text")
        elif isinstance(item, ModelCall):
            types[id(item)] = list(dict.fromkeys(new))
            new = ["tool_result"] if item.results else []
    return types


def _find_sent_seconds(call: ModelCall) -> float | None:
    """Return when a request was sent, in seconds since the epoch: the time of its answer less the duration of the call."""
    return None if call.at_ms is None else call.at_ms / 1000 - call.seconds


def _build_request(call: ModelCall, model: str, blocks: list[int], first_seconds: float, inputs: list[str]) -> dict[str, Any]:
    assert call.usage is not None
    kinds = {"text": "text", "reasoning": "thinking", "tool-call": "tool_use"}
    outputs = dict.fromkeys(kinds[part.kind] for part in call.answer.parts if part.kind in kinds)
    sent_seconds = _find_sent_seconds(call)
    return {
        "t": 0.0 if sent_seconds is None else round(max(0.0, sent_seconds - first_seconds), 3),
        "type": "n",
        "model": model,
        "in": call.usage.prompt_tokens,
        "out": call.usage.output_tokens,
        "hash_ids": blocks,
        "input_types": inputs,
        "output_types": list(outputs),
        "stop": "tool_use" if call.answer.calls else "end_turn",
        "api_time": round(call.seconds, 3),
        "think_time": 0.0,
    }
