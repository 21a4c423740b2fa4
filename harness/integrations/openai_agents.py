"""Input filter for the OpenAI Agents SDK, which sends the model what a compaction policy leaves of the history.

The session of the SDK keeps the whole history. Needs the extra `openai-agents`.

Source of the interface: openai-agents 0.20.0, `agents/run_config.py`.
"""

import os
from collections.abc import Mapping
from typing import Any

from agents.run_config import CallModelData, ModelInputData

from harness.compaction.function_policy import PolicyFunction
from harness.conversation.shapes.shape import Raw
from harness.integrations.conversations import Codec, Conversations
from harness.integrations.summarizers import SummarizerChoice
from harness.protocols import Policy


class CompactionFilter:
    """Filter that compacts the input of each model call by a policy, for `RunConfig(call_model_input_filter=...)`.

    Args:
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model that writes summaries: its name, a model of harness, or a function from prompt messages to a text.
            Default: `None`.
        journal: Journal file for the logs, with one session for each conversation; None keeps no logs. Default: `None`.
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
        self.conversations: Conversations[dict[str, Any]] = Conversations(
            Codec(dump_item, edit_item, write_item),
            policy, window_tokens=window_tokens, summarizer=summarizer, journal=journal, model=model,
        )  # fmt: skip

    def close(self) -> None:
        """End the logs; what a journal lacks until then is written when the Python process ends."""
        self.conversations.close()

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input of a model call that the policy leaves."""
        given = data.model_data
        items, _ = await self.conversations.acompact(given.input, key=data.agent.name, system=given.instructions or "")
        return ModelInputData(input=items, instructions=given.instructions)


def dump_item(item: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return an input item with the key `id`, which the SDK leaves out of messages of the user and of tool outputs."""
    return dict(item) if item.get("id") else {**item, "id": f"#{index}"}


def edit_item(item: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input item with some keys changed."""
    return {**item, **changes}


def write_item(raw: Raw) -> dict[str, Any]:
    """Return the input item that a policy wrote."""
    return dict(raw)
