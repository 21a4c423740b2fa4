"""Middleware for agents of LangChain and LangGraph, which sends the model what a compaction policy leaves of the history.

The state of the graph keeps the whole history. Needs the extra `langchain`.

Source of the interface: langchain 1.5.2, `langchain/agents/middleware/types.py`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from harness.compaction.function_policy import PolicyFunction
from harness.conversation.shapes.shape import Raw
from harness.integrations.conversations import Codec, Conversations
from harness.integrations.summarizers import SummarizerChoice
from harness.protocols import Policy

_CLASSES = {"ai": AIMessage, "human": HumanMessage, "system": SystemMessage, "tool": ToolMessage}


class CompactionMiddleware(AgentMiddleware[Any, Any, Any]):  # type: ignore[misc]
    """Middleware that compacts the messages of each model call by a policy of harness.

    If the provider refuses the messages as too long, they are compacted once more and sent again. Threads are told apart by
    their `thread_id`; a thread that resumes in another process is compacted anew from its whole history.

    Args:
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model that writes summaries: its name, a model of harness, or a function from prompt messages to a text.
            Default: `None`.
        journal: Journal file for the logs, with one session for each thread; None keeps no logs. Default: `None`.
        model: Name of the agent's model, for the logs. Default: `'unknown'`.

    Raises:
        UnknownName: There is no such policy or summarizer.
        UsageError: The policy needs a summarizer or an oracle, or cannot work in the window.
    """

    def __init__(
        self,
        policy: Policy | str | PolicyFunction,
        *,
        window_tokens: int,
        summarizer: SummarizerChoice = None,
        journal: str | os.PathLike[str] | None = None,
        model: str = "unknown",
    ) -> None:
        super().__init__()
        self.conversations: Conversations[AnyMessage] = Conversations(
            Codec(dump_message, edit_message, write_message),
            policy, window_tokens=window_tokens, summarizer=summarizer, journal=journal, model=model,
        )  # fmt: skip

    def close(self) -> None:
        """End the logs; what a journal lacks until then is written when the Python process ends."""
        self.conversations.close()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the messages that the policy leaves."""
        key, system = describe_request(request)
        messages, _ = self.conversations.compact(request.messages, find_usage(request.messages), key=key, system=system)
        try:
            return handler(request.override(messages=messages))
        except ContextOverflowError:
            messages, result = self.conversations.compact(request.messages, key=key, system=system, moment="overflow")
            if result.status != "applied":
                raise
        return handler(request.override(messages=messages))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do what `wrap_model_call` does without blocking the event loop."""
        key, system = describe_request(request)
        messages, _ = await self.conversations.acompact(request.messages, find_usage(request.messages), key=key, system=system)
        try:
            return await handler(request.override(messages=messages))
        except ContextOverflowError:
            messages, result = await self.conversations.acompact(request.messages, key=key, system=system, moment="overflow")
            if result.status != "applied":
                raise
        return await handler(request.override(messages=messages))

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Log the last answer of the agent, which no model call contains."""
        messages = state["messages"]
        self.conversations.record(messages, find_usage(messages), key=find_thread(runtime))


def describe_request(request: ModelRequest[Any]) -> tuple[str, str]:
    """Return the key of the conversation and the system prompt of a model call."""
    system = request.system_message
    return find_thread(request.runtime), str(system.text) if system else ""


def find_thread(runtime: Any) -> str:
    """Return the id of the thread that an agent runs in; empty without a checkpointer."""
    return getattr(getattr(runtime, "execution_info", None), "thread_id", None) or ""


def find_usage(messages: list[AnyMessage]) -> Mapping[str, Any] | None:
    """Return the usage that the provider reported for the newest answer; None if it reported none."""
    answers = (message for message in reversed(messages) if isinstance(message, AIMessage))
    newest = next(answers, None)
    return dict(newest.usage_metadata) if newest is not None and newest.usage_metadata else None


def dump_message(message: BaseMessage, index: int) -> dict[str, Any]:
    """Return a message as a dict."""
    return {**message.model_dump(), "id": message.id or f"#{index}"}


def edit_message(message: AnyMessage, changes: Mapping[str, Any]) -> AnyMessage:
    """Return a copy of a message with some fields changed."""
    return message.model_copy(update=dict(changes))


def write_message(raw: Raw) -> AnyMessage:
    """Return the message of a dict that a policy wrote."""
    return _CLASSES[raw["type"]](**raw)
