"""History processor for Pydantic AI, which sends the model what a compaction policy leaves of the history.

Pydantic AI goes on with the result in place of the history. Needs the extra `pydantic-ai`.

Source of the interface: pydantic-ai 2.68.0, `pydantic_ai/capabilities/process_history.py`.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from harness.compaction.function_policy import PolicyFunction
from harness.conversation.shapes.shape import Raw
from harness.integrations.conversations import Codec, Conversations
from harness.integrations.summarizers import SummarizerChoice
from harness.protocols import Policy

Unit: TypeAlias = ModelRequestPart | ModelResponse
"""Unit that a policy sees as one message: a part of a request, or a whole answer."""
HistoryProcessor: TypeAlias = Callable[[RunContext[Any], list[ModelMessage]], Awaitable[list[ModelMessage]]]


def make_history_processor(
    policy: Policy | str | PolicyFunction,
    *,
    window_tokens: int,
    summarizer: SummarizerChoice = None,
    journal: str | os.PathLike[str] | None = None,
    model: str = "unknown",
) -> HistoryProcessor:
    """Return a function that compacts the history before each request, for the capability `ProcessHistory`.

    Args:
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model that writes summaries: its name, a model of harness, or a function from prompt messages to a text.
            Default: `None`.
        journal: Journal file for the logs, with one session for each conversation. It is complete when the Python process has
            ended. None keeps no logs. Default: `None`.
        model: Name of the agent's model, for the logs. Default: `'unknown'`.

    Raises:
        UnknownName: There is no such policy or summarizer.
        UsageError: The policy needs a summarizer or an oracle, or cannot work in the window.
    """
    conversations: Conversations[Unit] = Conversations(
        Codec(dump_unit, edit_unit, write_unit),
        policy, window_tokens=window_tokens, summarizer=summarizer, journal=journal, model=model,
    )  # fmt: skip

    async def process(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        units = [unit for message in messages for unit in split_message(message)]
        answers = (message for message in reversed(messages) if isinstance(message, ModelResponse))
        newest = next(answers, None)
        usage = {"prompt_tokens": newest.usage.input_tokens, "completion_tokens": newest.usage.output_tokens} if newest else None
        reported = usage if usage and usage["prompt_tokens"] else None
        instructions = next((text for message in reversed(messages) if (text := getattr(message, "instructions", None))), "")
        kept, _ = await conversations.acompact(units, reported, key=ctx.conversation_id or "", system=instructions)
        return join_units(kept, messages)

    return process


def split_message(message: ModelMessage) -> list[Unit]:
    """Return the parts of a request, or the answer itself."""
    return [message] if isinstance(message, ModelResponse) else list(message.parts)


def join_units(units: Iterable[Unit], messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Return messages of the given units; parts that follow each other share a request, with the fields of the newest one."""
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    owners = {id(part): request for request in requests for part in request.parts}
    joined, parts = list[ModelMessage](), list[ModelRequestPart]()
    for unit in [*units, None]:
        if unit is not None and not isinstance(unit, ModelResponse):
            parts.append(unit)
            continue
        if parts:
            owner = next((owners[id(part)] for part in reversed(parts) if id(part) in owners), requests[-1])
            joined.append(owner if parts == list(owner.parts) else replace(owner, parts=parts))
            parts = []
        if unit is not None:
            joined.append(unit)
    return joined


def dump_unit(unit: Unit, index: int) -> dict[str, Any]:
    """Return a part or an answer as a dict in the shape of OpenAI's chat completions."""
    key = f"{unit.timestamp.isoformat()}#{getattr(unit, 'tool_call_id', '')}" if unit.timestamp else f"#{index}"
    if isinstance(unit, ModelResponse):
        texts = [part.content for part in unit.parts if isinstance(part, TextPart)]
        raw: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(texts) or None, "id": f"{key}answer"}
        if thoughts := [part.content for part in unit.parts if isinstance(part, ThinkingPart) and part.content]:
            raw["reasoning_content"] = "\n\n".join(thoughts)
        if calls := [part for part in unit.parts if isinstance(part, ToolCallPart)]:
            raw["tool_calls"] = [
                {
                    "id": call.tool_call_id,
                    "type": "function",
                    "function": {"name": call.tool_name, "arguments": call.args_as_json_str()},
                }
                for call in calls
            ]
        return raw
    if isinstance(unit, SystemPromptPart):
        return {"role": "system", "content": unit.content, "id": f"{key}system"}
    if isinstance(unit, ToolReturnPart):
        return {"role": "tool", "content": unit.model_response_str(), "tool_call_id": unit.tool_call_id, "id": key}
    if isinstance(unit, UserPromptPart):
        items = [unit.content] if isinstance(unit.content, str) else unit.content
        texts = [item if isinstance(item, str) else f"({type(item).__name__})" for item in items]
        return {"role": "user", "content": "\n".join(texts), "id": f"{key}user"}
    return {"role": "user", "content": str(unit.content), "id": f"{key}other"}


def edit_unit(unit: Unit, changes: Mapping[str, Any]) -> Unit:
    """Return a copy of a part or an answer with another content, or with other arguments of its calls."""
    if not isinstance(unit, ModelResponse):
        return replace(unit, content=changes["content"])
    calls = {call["id"]: call["function"]["arguments"] for call in changes.get("tool_calls", ())}
    parts = [
        replace(part, args=calls[part.tool_call_id]) if isinstance(part, ToolCallPart) and part.tool_call_id in calls else part
        for part in unit.parts
        if not ("content" in changes and isinstance(part, TextPart))
    ]
    return replace(unit, parts=[*([TextPart(changes["content"])] if changes.get("content") else []), *parts])


def write_unit(raw: Raw) -> Unit:
    """Return the part or answer of a dict that a policy wrote."""
    if raw["role"] == "assistant":
        return ModelResponse(parts=[TextPart(raw["content"])])
    return (SystemPromptPart if raw["role"] == "system" else UserPromptPart)(raw["content"])
