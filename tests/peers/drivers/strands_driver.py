"""Driver of the conversation managers of Strands Agents.

The results of one answer are one message of the user. The managers change the list of messages in place.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.types.exceptions import ContextWindowOverflowException

from tests.peers.drivers.serving import Shown, calls_of, serve


class Listening(SummarizingConversationManager):
    """Manager that records the messages of its summarizer."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.heard: list[list[Any]] = []
        self.written = 0

    def _generate_summary(self, messages: list[Any], agent: Any) -> Any:
        self.heard.append(list(messages))
        self.written += 1
        return {"role": "user", "content": [{"text": f"summary {self.written:02d}"}]}


class Session:
    """Messages of an agent, and the numbers of the messages of the conversation that they stand for."""

    def __init__(self, conversation: Sequence[dict[str, Any]]) -> None:
        self.conversation = conversation
        self.agent = SimpleNamespace(messages=[])
        self.numbers: dict[int, int] = {}
        self.results = {one["call_id"]: at for at, one in enumerate(conversation) if one["role"] == "tool"}

    def add(self, start: int, end: int) -> None:
        for at in range(start, end):
            message = self.conversation[at]
            if message["role"] == "system" and at == 0:
                continue
            if message["role"] == "tool":
                result = {"toolUseId": message["call_id"], "status": "success", "content": [{"text": message["text"]}]}
                if self.conversation[at - 1]["role"] == "tool" and self.agent.messages:
                    self.agent.messages[-1]["content"].append({"toolResult": result})
                    continue
                content, role = [{"toolResult": result}], "user"
            else:
                role, calls = message["role"], message.get("calls", ())
                content = [{"text": message["text"]}] if message["text"] or not calls else []
                uses = [{"toolUseId": call["id"], "name": call["name"], "input": call["arguments"]} for call in calls]
                content += [{"toolUse": use} for use in uses]
            added = {"role": role, "content": content}
            self.numbers[id(added)] = at
            self.agent.messages.append(added)

    def rows(self, message: dict[str, Any]) -> list[Shown]:
        """Return the messages of the conversation that a message stands for, with changed texts."""
        blocks = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        if blocks:
            texts = [(self.results[block["toolUseId"]], block["content"][0]["text"]) for block in blocks]
            return [[at, None if text == self.conversation[at]["text"] else text, None] for at, text in texts]
        if id(message) not in self.numbers:
            text = message["content"][0]["text"]
            return [[-int(text.removeprefix("summary ")), text, None]]
        return [[self.numbers[id(message)], None, None]]

    def shown(self) -> list[Shown]:
        return [row for message in self.agent.messages for row in self.rows(message)]


def slide(conversation: list[dict[str, Any]], arguments: dict[str, Any], refused: list[int]) -> list[Any]:
    """Return the changes of the sliding window before each call; calls in `refused` overflow."""
    manager, session, acts, start = SlidingWindowConversationManager(per_turn=True, **arguments), Session(conversation), [], 0
    for point in calls_of(conversation):
        session.add(start, point)
        start, before = point, session.shown()
        if point in refused:
            try:
                manager.reduce_context(session.agent, e=RuntimeError("overflow"))
            except ContextWindowOverflowException:
                continue
        else:
            manager._on_before_model_call(SimpleNamespace(agent=session.agent))
        if session.shown() != before:
            acts.append({"call": point, "view": session.shown(), "told": None})
    return acts


def summarize(
    conversation: list[dict[str, Any]],
    arguments: dict[str, Any],
    refused: list[int],
    window: int,
    tokens: list[int],
    summary_tokens: int,
) -> list[Any]:
    """Return the changes of the summarizing manager; `tokens` are those of each message, which the test counts."""
    manager, session, acts, start = Listening(**arguments), Session(conversation), [], 0
    model = SimpleNamespace(context_window_limit=window, estimate_utilization=lambda count: count / window)
    session.agent.model = model
    for point in calls_of(conversation):
        session.add(start, point)
        start, heard = point, len(manager.heard)
        rows = session.shown()
        size = sum(summary_tokens if row[0] < 0 else tokens[row[0]] for row in rows)
        size += tokens[0] if conversation[0]["role"] == "system" else 0
        if point in refused:
            try:
                manager.reduce_context(session.agent, e=RuntimeError("overflow"))
            except ContextWindowOverflowException:
                continue
        else:
            event = SimpleNamespace(agent=session.agent, projected_input_tokens=size)
            manager._on_before_model_call_threshold(event)
        if len(manager.heard) > heard:
            summarized = [row[:2] for message in manager.heard[-1] for row in session.rows(message)]
            acts.append({"call": point, "view": session.shown(), "told": summarized})
    return acts


if __name__ == "__main__":
    serve({"slide": slide, "summarize": summarize})
