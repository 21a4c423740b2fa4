"""Law 13: no message of the user leaves the view before one request has contained it.

Whole sessions run in the real agent loop under every policy: with several turns, messages that wait in the queue, answers whose
report makes a compaction due, prompts that the provider refuses as too long, calls that fail, and compactions on request.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agent.loop import Agent, Session
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.events import Compaction, MessageAdded, StepFinished, TextDelta
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, user
from harness.conversation.tokens import Measured, Usage
from harness.errors import ContextOverflow, ProviderFailed
from harness.protocols import Policy, Reply, Request, ignore
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryLog, MemoryOutputs
from harness.testing.fakes import FakeModel, FakeTool
from harness.testing.strategies import make_session_started
from tests.contracts.test_policy_properties import BETWEEN_TURNS, POLICIES, WINDOW

pytestmark = pytest.mark.slow

Act: TypeAlias = Literal["work", "fill", "rest", "rest full", "refuse", "fail", "queue", "queue much", "ask"]
"""What happens next: a tool is called, with a report of few tokens or one that fills the window; the turn ends, with either
report; the provider refuses the prompt as too long or fails; one message or many enter the queue; a compaction is asked for."""
ACTS: tuple[Act, ...] = ("work", "fill", "rest", "rest full", "refuse", "fail", "queue", "queue much", "ask")
REST: Act = "rest"
OUTSIDE: frozenset[Act] = frozenset({"queue", "queue much", "ask"})
"""What happens outside the provider, before its next answer."""
ALL: list[Policy] = [*POLICIES, *BETWEEN_TURNS, ThreeTiers(max_output_tokens=15_800, prune=False, lazy=True)]
OUTPUT = "o" * 2_000


class Provider:
    """Model that follows a list of acts, and keeps the requests that it answered."""

    def __init__(self, acts: Sequence[Act], act_outside: Callable[[Act], None]) -> None:
        self.name, self.window = "provider", WINDOW
        self.answered: list[Request] = []
        self._acts, self._act_outside, self._numbers = iter(acts), act_outside, itertools.count()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        while (act := next(self._acts, REST)) in OUTSIDE:
            self._act_outside(act)
        if act == "refuse":
            raise ContextOverflow("provider", None, None)
        if act == "fail":
            raise ProviderFailed("provider", 500, "down")
        self.answered.append(request)
        calls = [ToolCall(call_id=f"c{next(self._numbers)}", name="read_file", arguments_json='{"path": "a.py"}')]
        message = assistant("I go on." * 20, *(calls if act in {"work", "fill"} else ()))
        prompt = WINDOW.tokens - 100 if act in {"fill", "rest full"} else 100
        return Reply(message=message, usage=Usage(input_tokens=Measured(prompt), output_tokens=Measured(50)), seconds=0.0)


class Outputs(dict[str, ToolResult]):
    """Results of all calls."""

    def __missing__(self, call_id: str) -> ToolResult:
        return ToolResult(call_id=call_id, name="read_file", output=OUTPUT)


def play(policy: Policy, acts: Sequence[Act], turns: int) -> tuple[MemoryLog, Provider]:
    """Return the log of a session of several turns and its provider."""
    log, numbers, asks = MemoryLog(), itertools.count(1), list[Act]()

    def act_outside(act: Act) -> None:
        if act == "ask":
            asks.append(act)
        for _ in range({"ask": 0, "queue": 1}.get(act, 12)):
            agent.inbox.put(f"Message {next(numbers)}: delete the file old.py. " + "Mind the rest. " * 5)

    provider = Provider(acts, act_outside)
    summarizer = FakeModel([assistant("This was done so far.")] * 500)
    room = SessionCompactor(policy=policy, window=WINDOW, summarizer=summarizer, outputs=MemoryOutputs())
    agent = Agent(
        model=provider, tools=[FakeTool("read_file", Outputs())], log=log, compactor=room, clock=itertools.count().__next__
    )
    session = Session(agent)
    session.begin(make_session_started("s"), "You are an agent.")
    session.run_turn()
    for _ in range(turns):
        if asks:
            session.compact(session.conversation.view.steps + 1, "manual")
            asks.clear()
        session.run_turn(MessageAdded(message=user(f"Message {next(numbers)}: now do the next thing."), step=0))
    return log, provider


def find_unsent(log: MemoryLog, provider: Provider) -> list[str]:
    """Return the messages of the user that the first finished request behind them did not contain whole, once."""
    requests, new, unsent = iter(provider.answered), list[Message](), list[str]()
    for _, event in log.entries():
        if isinstance(event, MessageAdded) and event.message.role == "user":
            new.append(event.message)
        elif isinstance(event, StepFinished):
            sent = [message.text for message in next(requests).messages if message.role == "user"]
            unsent += [message.text for message in new if sum(message.text in text for text in sent) != 1]
            new.clear()
    return unsent


@settings(max_examples=max(10, settings().max_examples // 5))
@given(acts=st.lists(st.sampled_from(ACTS), max_size=25), turns=st.integers(0, 3))
def test_each_message_of_the_user_is_in_the_first_finished_request_behind_it(acts: list[Act], turns: int) -> None:
    for policy in ALL:
        log, provider = play(policy, acts, turns)
        assert find_unsent(log, provider) == [], policy


WORK: tuple[Act, ...] = ("work",) * 6
FULL_SESSIONS: dict[str, tuple[Act, ...]] = {
    "a turn ends with a full window": (*WORK, "rest full", "rest"),
    "a turn ends with a full window, and messages wait": (*WORK, "queue much", "rest full", "rest"),
    "messages come while the window is full": ("work", "work", "queue", "fill", "rest"),
    "the provider refuses the next turn": (*WORK, "rest", "refuse", "rest"),
    "the provider fails in the next turn": (*WORK, "rest full", "fail", "rest"),
    "a compaction is asked for between turns": (*WORK, "ask", "rest", "rest"),
}


@pytest.mark.parametrize("acts", FULL_SESSIONS.values(), ids=FULL_SESSIONS)
def test_policies_compact_these_sessions_and_lose_no_message(acts: tuple[Act, ...]) -> None:
    compacted = 0
    for policy in ALL:
        log, provider = play(policy, acts, 2)
        assert find_unsent(log, provider) == [], policy
        compacted += any(isinstance(event, Compaction) and event.status == "applied" for _, event in log.entries())
    assert compacted > len(ALL) // 2
