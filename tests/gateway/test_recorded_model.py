"""Model of an external agent: what goes to the model, what the log has, and when the agent is stopped."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.agent.cancellation import Cancellation
from harness.agent.loop import Stop
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Event, MessageAdded, ModelCallFailed, SessionStarted, StepFinished, TextDelta
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow, ProviderFailed, RequestRefused, UsageError
from harness.gateway.recorded_model import RecordedModel
from harness.gateway.recorder import Arm, OpenedLog, SessionRecorder, SettableClock
from harness.integrations.compactor import Compactor
from harness.models.openai_format import decode_messages, encode_messages
from harness.protocols import Policy, Reply, Request, ToolSpec, ignore
from harness.store.log import MemoryLog

SHELL = ToolSpec(name="shell", description="", parameters_json="{}")
POLICY = KeepLast(
    threshold=0.3,
    keep_last=2,
    summarizer="scripted/extractive",
    system_reserve_tokens=10,
    output_reserve_tokens=10,
    safety_reserve_tokens=10,
)


def count_tokens(messages: Sequence[Message]) -> int:
    return sum(len(str(raw)) for raw in encode_messages(messages)) // 4


class Provider:
    """Model that calls the shell in each answer, and keeps the requests that it was sent."""

    name = "provider"

    def __init__(self, window_tokens: int, overflows_above: int = 10_000) -> None:
        self.window = Window(tokens=window_tokens, source="configuration")
        self.requests: list[tuple[Message, ...]] = []
        self.overflows_above = overflows_above
        self.errors: list[Exception] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        self.requests.append(tuple(request.messages))
        if self.errors:
            raise self.errors.pop()
        if len(request.messages) > self.overflows_above:
            raise ContextOverflow(self.name, 99_999, self.window.tokens)
        number = len(self.requests)
        call = ToolCall(call_id=f"call-{number}", name="shell", arguments_json='{"command": "ls"}')
        usage = Usage(input_tokens=Measured(count_tokens(request.messages)), output_tokens=Measured(3))
        message = assistant(f"Step {number}.")
        return Reply(message=replace(message, parts=(*message.parts, call)), usage=usage, seconds=0.5)


class Agent:
    """Agent that resends its whole history."""

    def __init__(self, provider: Provider, policy: Policy, max_calls: int = 1_000, **settings: Any) -> None:
        self.log, self.side_logs, self.stops = MemoryLog(), list[MemoryLog](), 0
        clock = SettableClock(lambda: 1.0)

        def open_log(has_tools: bool) -> OpenedLog:
            if has_tools:
                return OpenedLog("trial", self.log, clock)
            self.side_logs.append(MemoryLog())
            return OpenedLog(f"trial.{len(self.side_logs)}", self.side_logs[-1], clock)

        def stop() -> None:
            self.stops += 1

        arm = Arm(name="arm", policy=policy)
        self.recorder = SessionRecorder([arm], open_log=open_log, window_tokens=provider.window.tokens, model=provider.name)
        self.model = RecordedModel(provider, self.recorder, max_calls=max_calls, stop=stop, **settings)
        self.history: list[Message] = [system("You are an agent."), user("List the folder.")]

    def step(self, words: int = 30) -> Reply:
        reply = self.model.reply(Request(messages=tuple(self.history), tools=(SHELL,)))
        self.history.append(reply.message)
        output = "word " * words
        self.history += [tool(ToolResult(call_id=call.call_id, name=call.name, output=output)) for call in reply.message.calls]
        return reply

    @property
    def events(self) -> Sequence[Event]:
        self.recorder.close()
        return [event for _, event in self.log.entries()]


def test_without_a_policy_the_model_sees_exactly_what_the_agent_sends() -> None:
    provider = Provider(100_000)
    agent = Agent(provider, NoCompaction())
    sent = list[tuple[Message, ...]]()
    for _ in range(8):
        sent.append(tuple(agent.history))
        agent.step()
    assert provider.requests == sent
    assert [event.message for event in agent.events if isinstance(event, MessageAdded)] == agent.history[:-1]
    steps = [event for event in agent.events if isinstance(event, StepFinished)]
    assert [(step.step, step.model_seconds, step.usage.output_tokens) for step in steps] == [(n, 0.5, 3) for n in range(1, 9)]


def test_a_policy_acts_as_in_a_compactor_on_the_same_messages() -> None:
    provider = Provider(2_000)
    agent = Agent(provider, POLICY)
    compactor, history = Compactor(POLICY, window_tokens=2_000), list[dict[str, Any]]()
    for _ in range(25):
        raws = encode_messages(agent.history)
        usage: dict[str, Any] | None = None
        if history:
            usage = {"prompt_tokens": count_tokens(provider.requests[-1]), "completion_tokens": 3}
            compactor.record(raws[: len(history) + 1], usage)
        expected = compactor.compact(raws, usage).messages
        history = raws
        agent.step()
        assert provider.requests[-1] == decode_messages(expected)
    assert max(len(request) for request in provider.requests) < len(agent.history) / 2


def test_a_prompt_that_is_too_long_is_compacted_and_answered_at_once() -> None:
    provider = Provider(100_000, overflows_above=12)
    agent = Agent(provider, POLICY)
    for _ in range(9):
        agent.step()
    failures = [event for event in agent.events if isinstance(event, ModelCallFailed)]
    assert [failure.is_overflow for failure in failures] == [True] * (len(provider.requests) - 9)
    assert failures
    assert agent.model.refusal is None


def test_an_overflow_that_no_compaction_helps_reaches_the_agent() -> None:
    provider = Provider(100_000, overflows_above=3)
    agent = Agent(provider, NoCompaction())
    agent.step()
    with pytest.raises(ContextOverflow):
        agent.step()
    assert len(provider.requests) == 3  # sent again once, since nothing can be known before
    assert isinstance(agent.model.refusal, ContextOverflow)


def test_a_failure_of_the_provider_reaches_the_agent_which_may_try_again() -> None:
    provider = Provider(100_000)
    agent = Agent(provider, NoCompaction())
    agent.step()
    provider.errors = [ProviderFailed("provider", 503, "overloaded")]
    with pytest.raises(ProviderFailed):
        agent.step()
    assert isinstance(agent.model.refusal, ProviderFailed)
    agent.step()
    assert getattr(agent.model, "refusal") is None  # noqa: B009, mypy assumes that it is still the error
    assert (agent.model.answers, agent.stops) == (2, 0)
    assert len([event for event in agent.events if isinstance(event, StepFinished)]) == 2


def test_the_agent_is_stopped_after_its_last_answer() -> None:
    agent = Agent(Provider(100_000), NoCompaction(), max_calls=3)
    for _ in range(3):
        agent.step()
    for _ in range(2):
        with pytest.raises(RequestRefused, match="the trial has ended: stopped after 3 steps"):
            agent.step()
    assert (agent.model.answers, agent.stops) == (3, 1)
    assert agent.model.stopped == Stop("max_steps", "stopped after 3 steps")


def test_a_cancelled_agent_gets_no_further_answer() -> None:
    cancellation = Cancellation()
    agent = Agent(Provider(100_000), NoCompaction(), cancellation=cancellation)
    agent.step()
    cancellation.request()
    with pytest.raises(RequestRefused, match="stopped by the user"):
        agent.step()
    assert (agent.model.stopped, agent.stops) == (Stop("cancelled", "stopped by the user"), 1)


def test_messages_that_no_session_can_hold_are_refused_and_not_logged() -> None:
    provider = Provider(100_000)
    agent = Agent(provider, NoCompaction())
    agent.step()
    agent.history.append(tool(ToolResult(call_id="unknown", name="shell", output="x")))
    with pytest.raises(UsageError, match=r"messages\[4\].*unknown"):
        agent.step()
    assert len(provider.requests) == 1
    del agent.history[-1]
    agent.step()
    assert [event.message for event in agent.events if isinstance(event, MessageAdded)] == agent.history[:-1]


def test_an_error_of_this_project_stops_the_agent() -> None:
    class Broken(MemoryLog):
        def append(self, events: Sequence[Event]) -> Any:
            raise ZeroDivisionError("a bug")

    agent = Agent(Provider(100_000), NoCompaction())
    agent.log = Broken()
    with pytest.raises(RequestRefused, match="a bug"):
        agent.step()
    assert isinstance(agent.model.error, ZeroDivisionError)
    assert (agent.stops, agent.model.stopped) == (1, Stop("crashed", "a bug"))


def test_a_call_without_tools_is_a_session_of_its_own() -> None:
    agent = Agent(Provider(100_000), NoCompaction())
    agent.step()
    agent.model.reply(Request(messages=(user("Write a title."),)))
    agent.step()
    agent.recorder.close()
    (side,) = agent.side_logs
    starts = [event.session_id for _, event in side.entries() if isinstance(event, SessionStarted)]
    assert starts == ["trial.1"]
    assert len([event for event in agent.events if isinstance(event, StepFinished)]) == 2
