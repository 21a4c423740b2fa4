"""Compaction strategy for Inspect AI, which compacts by a policy of harness.

Inspect decides when to compact (`threshold`), and the policy decides how. Needs the extra `inspect`.

Source of the interface: inspect-ai 0.3.285, `inspect_ai/model/_compaction/types.py`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser, Model
from inspect_ai.model._compaction.types import CompactionStrategy
from inspect_ai.tool import ToolInfo

from harness.compaction.function_policy import PolicyFunction
from harness.conversation.shapes.shape import Raw
from harness.integrations.conversations import Codec, Conversations
from harness.integrations.summarizers import SummarizerChoice
from harness.protocols import Policy

_CLASSES = {"assistant": ChatMessageAssistant, "system": ChatMessageSystem, "tool": ChatMessageTool, "user": ChatMessageUser}


class PolicyCompaction(CompactionStrategy):  # type: ignore[misc]
    """Strategy that compacts by a policy of harness, for `react(compaction=...)`.

    Args:
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        threshold: Number of tokens, or share of the window, above which Inspect compacts; the policy's own condition is ignored.
            Default: `0.9`.
        summarizer: Model that writes summaries: its name, a model of harness, or a function from prompt messages to a text.
            Default: `None`.
        journal: Journal file for the logs; None keeps no logs. Default: `None`.
        memory: Whether Inspect reminds the model to save what matters if it has a memory tool. Default: `True`.

    Raises:
        UnknownName: There is no such policy or summarizer.
        UsageError: The policy needs a summarizer or an oracle, or cannot work in the window.
    """

    def __init__(
        self,
        policy: Policy | str | PolicyFunction,
        *,
        window_tokens: int,
        threshold: float = 0.9,
        summarizer: SummarizerChoice = None,
        journal: str | os.PathLike[str] | None = None,
        memory: bool = True,
    ) -> None:
        super().__init__(type="summary" if summarizer else "edit", threshold=threshold, memory=memory)
        self.conversations: Conversations[ChatMessage] = Conversations(
            Codec(dump_message, edit_message, write_message),
            policy, window_tokens=window_tokens, summarizer=summarizer, journal=journal,
        )  # fmt: skip

    def close(self) -> None:
        """End the logs; what a journal lacks until then is written when the Python process ends."""
        self.conversations.close()

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """Return the messages that the policy leaves, and no further message for the history."""
        compacted, _ = await self.conversations.acompact(messages, moment="manual")
        return compacted, None


def dump_message(message: ChatMessage, index: int) -> dict[str, Any]:
    """Return a message as a dict in the shape of OpenAI's chat completions."""
    raw: dict[str, Any] = {"role": message.role, "content": _dump_content(message), "id": message.id or f"#{index}"}
    if isinstance(message, ChatMessageTool):
        raw["tool_call_id"] = message.tool_call_id or f"#{index}"
    if isinstance(message, ChatMessageAssistant) and message.tool_calls:
        raw["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.function, "arguments": json.dumps(call.arguments)}}
            for call in message.tool_calls
        ]
    return raw


def _dump_content(message: ChatMessage) -> str | list[dict[str, Any]]:
    content = message.content
    return content if isinstance(content, str) else [block.model_dump(exclude_none=True) for block in content]


def edit_message(message: ChatMessage, changes: Mapping[str, Any]) -> ChatMessage:
    """Return a copy of a message with another content, or with other arguments of its calls."""
    fields = {**message.model_dump(), **changes}
    if "tool_calls" in changes:
        arguments = [json.loads(call["function"]["arguments"]) for call in changes["tool_calls"]]
        fields["tool_calls"] = [replace(call, arguments=new) for call, new in zip(message.tool_calls, arguments, strict=True)]
    return type(message).model_validate(fields)


def write_message(raw: Raw) -> ChatMessage:
    """Return the message of a dict that a policy wrote."""
    return _CLASSES[raw["role"]](content=raw["content"])
