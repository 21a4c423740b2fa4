"""Condenser for the OpenHands SDK, which sends the model what a compaction policy leaves of the history.

The conversation keeps all its events. Needs the extra `openhands` and Python 3.12.

Source of the interface: openhands-sdk 1.44.1, `openhands/sdk/context/condenser/base.py`.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from openhands.sdk.context.condenser.base import CondenserBase
from openhands.sdk.context.view import View
from openhands.sdk.event.base import LLMConvertibleEvent
from openhands.sdk.event.condenser import Condensation, CondensationSummaryEvent
from openhands.sdk.event.llm_convertible import ActionEvent, ObservationEvent
from openhands.sdk.llm import LLM, TextContent
from pydantic import PrivateAttr

from harness.conversation.shapes.shape import Raw
from harness.integrations.conversations import Codec, Conversations

Unit: TypeAlias = tuple[LLMConvertibleEvent, ...]
"""Events that are one message for the model: one event, or all actions of one answer."""


class PolicyCondenser(CondenserBase):  # type: ignore[misc]
    """Condenser that compacts by a policy of harness, for `Agent(condenser=...)`.

    Its fields are texts and numbers, because OpenHands stores condensers with conversations. A conversation that resumes in
    another process is compacted anew from its whole history.

    Args:
        policy: Public name of a compaction policy, or `FILE.py:NAME`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Name of the model that writes summaries; None uses the one that the policy names. Default: `None`.
        journal: Journal file for the logs, with one session for each conversation. It is complete when the Python process has
            ended. None keeps no logs. Default: `None`.
    """

    policy: str
    window_tokens: int
    summarizer: str | None = None
    journal: str | None = None
    _conversations: Conversations[Unit] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Resolve the policy.

        Raises:
            UnknownName: There is no such policy or summarizer.
            UsageError: The policy needs a summarizer or an oracle, or cannot work in the window.
        """
        super().model_post_init(context)
        self._conversations = Conversations(
            Codec(dump_unit, edit_unit, write_unit),
            self.policy, window_tokens=self.window_tokens, summarizer=self.summarizer, journal=self.journal,
        )  # fmt: skip

    def handles_condensation_requests(self) -> bool:
        """Return that OpenHands may ask for a compaction, as it does when the provider refuses a prompt as too long."""
        return True

    def condense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Return a view with the events that the policy leaves, or the answer to a request for a compaction."""
        units = group_events(view.events)
        if view.unhandled_condensation_request:
            self._conversations.compact(units, moment="overflow")
            return Condensation(llm_response_id=str(uuid.uuid4()))  # marks the request as handled; the next view is shorter
        kept, _ = self._conversations.compact(units)
        return View(events=[event for unit in kept for event in unit])


def group_events(events: Iterable[LLMConvertibleEvent]) -> list[Unit]:
    """Return the events, with the actions of each answer together."""
    units = list[Unit]()
    for event in events:
        answer_id = event.llm_response_id if isinstance(event, ActionEvent) else ""
        last = units[-1][-1] if units else None
        if answer_id and isinstance(last, ActionEvent) and last.llm_response_id == answer_id:
            units[-1] = (*units[-1], event)
        else:
            units.append((event,))
    return units


def dump_unit(unit: Unit, _index: int) -> dict[str, Any]:
    """Return the events of one message as a dict in the shape of OpenAI's chat completions."""
    (message,) = LLMConvertibleEvent.events_to_messages(list(unit))
    blocks = [
        {"type": "text", "text": block.text} if isinstance(block, TextContent) else {"type": "image", **block.model_dump()}
        for block in message.content
    ]
    raw: dict[str, Any] = {"role": message.role, "content": blocks, "id": unit[0].id}
    if message.tool_calls:
        raw["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        raw["tool_call_id"] = message.tool_call_id
    if message.reasoning_content:
        raw["reasoning_content"] = message.reasoning_content
    return raw


def edit_unit(unit: Unit, changes: Mapping[str, Any]) -> Unit:
    """Return the events with another content of an observation, or with other arguments of calls."""
    event, content = unit[0], changes.get("content", "")
    if isinstance(event, ObservationEvent):
        texts = [content] if isinstance(content, str) else [block["text"] for block in content]
        blocks = [TextContent(text=text) for text in texts]
        observation = event.observation.model_copy(update={"content": blocks})
        return (event.model_copy(update={"observation": observation, "extended_content": []}),)
    arguments = [call["function"]["arguments"] for call in changes["tool_calls"]]
    return tuple(
        action.model_copy(update={"tool_call": action.tool_call.model_copy(update={"arguments": new})})
        for action, new in zip(unit, arguments, strict=True)
    )


def write_unit(raw: Raw) -> Unit:
    """Return the summary that a policy wrote as an event."""
    return (CondensationSummaryEvent(summary=str(raw["content"])),)
