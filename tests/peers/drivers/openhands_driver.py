"""Driver of the condenser of the OpenHands SDK."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.condenser.base import NoCondensationAvailableException
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, Condensation, CondensationRequest, MessageEvent, ObservationEvent, SystemPromptEvent
from openhands.sdk.event.condenser import CondensationSummaryEvent
from openhands.sdk.llm import LLM, Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool.schema import Action, Observation
from pydantic import PrivateAttr

from tests.peers.drivers.serving import Shown, calls_of, serve, write_answer


class PeerCall(Action):
    """Call of a tool."""


class PeerResult(Observation):
    """Result of a call."""


class Estimating(TestLLM):
    """Token counter of a quarter of the characters of each message, like that of the preset."""

    def get_token_count(self, messages: Sequence[Any], *_: Any, **__: Any) -> int:
        return sum(map(tokens_of, messages))


def tokens_of(message: Any) -> int:
    """Return the tokens of messages; successive messages of the user arrive as one."""
    sizes = [len(content.text) for content in message.content]
    if message.role == "user":
        return sum(-(-size // 4) for size in sizes)
    return -(-(sum(sizes) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls or [])) // 4)


class Listening(LLMSummarizingCondenser):
    """Condenser that records the events for the summarizer before they are put into a prompt."""

    _prompts: list[list[str]] = PrivateAttr(default_factory=list)

    def _build_summary_messages(self, event_strings: Sequence[str]) -> list[Any]:
        self._prompts.append(list(event_strings))
        built: list[Any] = super()._build_summary_messages(event_strings)
        return built


def events_of(message: dict[str, Any], at: int) -> list[Any]:
    """Return the events of a message; each event id begins with the number of the message."""
    text = [TextContent(text=message["text"])]
    if message["role"] == "system":
        return [SystemPromptEvent(id=str(at), system_prompt=text[0], tools=[])]
    if message["role"] == "tool":
        result = PeerResult(content=text)
        return [
            ObservationEvent(
                id=str(at), observation=result, action_id="x", tool_name=message["name"], tool_call_id=message["call_id"]
            )
        ]
    if message.get("calls"):
        return [action(call, f"{at}.{place}", at, text if place == 0 else []) for place, call in enumerate(message["calls"])]
    source = "agent" if message["role"] == "assistant" else "user"
    return [MessageEvent(id=str(at), source=source, llm_message=Message(role=message["role"], content=text))]


def action(call: dict[str, Any], name: str, at: int, thought: list[Any]) -> Any:
    tool_call = MessageToolCall(id=call["id"], name=call["name"], arguments=call["json"], origin="completion")
    return ActionEvent(
        id=name,
        thought=thought,
        action=PeerCall(),
        tool_name=call["name"],
        tool_call_id=call["id"],
        tool_call=tool_call,
        llm_response_id=str(at),
    )


def shown(view: View, summaries: dict[str, int]) -> list[Shown]:
    """Return the number of each message once, whatever number of events it has."""
    rows: list[Shown] = []
    for event in view.events:
        if event.id in summaries:
            rows.append([-summaries[event.id], event.summary, None])
        elif event.id != "0" and [number := int(event.id.split(".")[0]), None, None] not in rows[-1:]:
            rows.append([number, None, None])
    return rows


def parse_event(text: str) -> list[str]:
    """Return the content of an event for the summarizer: its author or kind, and its text."""
    for pattern, kind in (
        (r"ActionEvent \(agent\)\n  Thought: (.*)\n  Action: PeerCall", "call"),
        (r"ObservationEvent \(environment\)\n  Tool: [^\n]*\n  Result: (.*)", "result"),
        (r"(?:MessageEvent|CondensationSummaryEvent) \(\w+\)\n  (user|assistant): (.*)", ""),
    ):
        if match := re.fullmatch(pattern, text, re.DOTALL):
            return [kind or match[1], match[match.re.groups]]
    raise ValueError(f"an event that nobody foresaw: {text!r}")


def grown(view: View, conversation: list[dict[str, Any]], refused: list[int]) -> Iterator[int]:
    """Yield for each model call the view of all earlier events, and whether its prompt was refused."""
    before = 0
    for point in calls_of(conversation):
        for at in range(before, point):
            for event in events_of(conversation[at], at):
                view.append_event(event)
        before = point
        if point in refused:
            view.append_event(CondensationRequest())
        yield point


def condense(conversation: list[dict[str, Any]], window: int, refused: list[int], arguments: dict[str, Any]) -> list[Any]:
    """Return the changes of the condenser before each call, after a refused prompt where the case says so."""
    answers = [Message(role="assistant", content=[TextContent(text=f"summary {number}")]) for number in range(1, 200)]
    llm: LLM = Estimating.from_messages(answers)
    llm = llm.model_copy(update={"max_input_tokens": window})
    condenser = Listening(llm=llm, **arguments)
    view, acts, summaries = View(), [], dict[str, int]()
    for point in grown(view, conversation, refused):
        condenser._prompts.clear()
        outcome = condenser.condense(view, agent_llm=llm)
        view.unhandled_condensation_request = False
        if isinstance(outcome, Condensation):
            view.append_event(outcome)
            summaries[outcome.summary_event.id] = len(summaries) + 1
            acts.append({"call": point, "view": shown(view, summaries), "told": list(map(parse_event, condenser._prompts[-1]))})
    return acts


def answer_of(fault: str, number: int) -> Message | Exception:
    if fault in {"fails", "overflows"}:
        return RuntimeError(fault)
    return Message(role="assistant", content=[TextContent(text=write_answer(fault, number))])


def falter(
    conversation: list[dict[str, Any]], window: int, refused: list[int], arguments: dict[str, Any], faults: list[str]
) -> list[Any]:
    """Return the changes of the condenser with a failing summarizer, up to the first attempt without effect."""
    llm: LLM = Estimating.from_messages([answer_of(fault, at) for at, fault in enumerate([*faults, *["fine"] * 200], start=1)])
    llm = llm.model_copy(update={"max_input_tokens": window})
    condenser = Listening(llm=llm, **arguments)
    view, acts = View(), []
    for point in grown(view, conversation, refused):
        condenser._prompts.clear()
        try:
            outcome = condenser.condense(view, agent_llm=llm)
        except NoCondensationAvailableException:
            outcome = view
        view.unhandled_condensation_request = False
        condensed = isinstance(outcome, Condensation)
        if condensed:
            view.append_event(outcome)
        if condenser._prompts:
            acts.append({"call": point, "condensed": condensed, "asked": len(condenser._prompts), "view": in_view(view)})
        if condenser._prompts and not condensed:
            break
    return acts


def in_view(view: View) -> list[Any]:
    """Return the number of each message once, and the text of each summary."""
    rows: list[Any] = []
    for event in view.events:
        row = event.summary if isinstance(event, CondensationSummaryEvent) else int(event.id.split(".")[0])
        if row != 0 and (isinstance(row, str) or row not in rows[-1:]):
            rows.append(row)
    return rows


if __name__ == "__main__":
    serve({"condense": condense, "falter": falter})
