"""A policy whose target cannot be reached compacts seldom, and the log, the live session and the tables say why."""

import itertools
from dataclasses import replace
from typing import NamedTuple

import pytest

from harness.agent.conversation import Conversation
from harness.agent.loop import Agent, Outcome
from harness.compaction.pipeline import CalibratedPreset
from harness.conversation.events import Compaction, Entry, Notice, TransientEvent
from harness.conversation.messages import ToolCall, ToolResult, assistant
from harness.conversation.overhead import OverheadClock
from harness.conversation.tokens import Window
from harness.conversation.view import View, fold
from harness.policies import DropAll, KeepLast, LangChainSummary, MessageWindow, Paced, RooCode
from harness.protocols import Policy
from harness.session.compactor import SessionCompactor
from harness.session.totals import SessionTotals
from harness.store.log import MemoryLog
from harness.testing.fakes import FakeModel, FakeTool
from harness.testing.strategies import make_session_started

WINDOW = Window(tokens=32_768, source="configuration")
NARROW = KeepLast(keep_last=44)
"""Policy that always retains more tokens than its threshold, 17,414, so that each summary saves about 4 %."""


class Results(dict[str, ToolResult]):
    """Results of 750 tokens for all calls."""

    def __missing__(self, call_id: str) -> ToolResult:
        return ToolResult(call_id=call_id, name="read_file", output="o" * 3_000)


class Played(NamedTuple):
    """Session that was run to its end."""

    outcome: Outcome
    entries: tuple[Entry, ...]
    summaries: int
    notices: list[str]

    @property
    def compactions(self) -> list[Compaction]:
        return [entry.event for entry in self.entries if isinstance(entry.event, Compaction)]


def play(policy: Policy, steps: int) -> Played:
    calls = (ToolCall(call_id=f"c{number}", name="read_file", arguments_json='{"path": "a.py"}') for number in range(steps))
    heard: list[Entry | TransientEvent] = []
    log, summarizer = MemoryLog(), FakeModel([assistant("x" * 400)] * 200)
    agent = Agent(
        model=FakeModel([*(assistant("I read.", call) for call in calls), assistant("done")], window_tokens=WINDOW.tokens),
        tools=[FakeTool("read_file", Results())],
        log=log,
        compactor=SessionCompactor(policy=policy, window=WINDOW, summarizer=summarizer),
        clock=itertools.count().__next__,
        max_steps=500,
        listen=heard.append,
    )
    outcome = agent.run(make_session_started("s"), "s" * 6_000)
    notices = [one.text for one in heard if isinstance(one, Notice)]
    return Played(outcome, tuple(log.entries()), len(summarizer.requests), notices)


def test_summaries_that_save_little_pause_until_the_view_has_grown_by_a_tenth() -> None:
    """One summary for each step was asked for before, 29 in the last 28 steps."""
    played = play(NARROW, 53)
    assert (played.outcome.reason, played.summaries) == ("replied", 11)
    view, attempts = View(), 0
    for entry in played.entries:
        if isinstance(entry.event, Compaction) and view.fruitless_attempts >= 2:
            attempts += 1
            assert view.tokens >= 1.1 * view.fruitless_tokens
        view = fold(view, entry, NARROW.counter)
    assert attempts > 3


def test_the_savings_of_a_fruitless_compaction_are_kept() -> None:
    applied = [event for event in play(NARROW, 53).compactions if event.status == "applied"]
    assert all(event.fruitless and event.tokens_after < event.tokens_before for event in applied)


def test_the_log_and_the_live_session_say_why_the_target_cannot_be_reached() -> None:
    played = play(NARROW, 53)
    [notice] = played.notices
    assert notice.endswith(". Compaction pauses until the conversation has grown by a tenth.")
    newest = played.compactions[-1]
    assert newest.shortfall.startswith("compaction cannot reach its target here: the policy is due again at once (18,3")
    assert " tokens ≥ threshold 17,414); the system message has 1,500 tokens, summaries 12" in newest.shortfall
    assert "kept messages 16,676, and what is in no message, such as tool definitions, about" in newest.shortfall
    assert newest.explanation == f"{newest.reason}; {newest.shortfall}"
    totals = SessionTotals()
    for entry in played.entries:
        totals(entry)
    assert (totals.missed_targets, totals.shortfall) == (len(played.compactions), newest.shortfall)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_the_least_share_to_save_is_a_field_of_each_policy_of_this_project(share: float) -> None:
    policy = KeepLast(least_saved_share=share)
    compactions = play(policy, 53).compactions
    assert compactions
    for event in compactions:
        saved = event.tokens_before - event.tokens_after
        assert event.fruitless == (saved < share * event.tokens_before), "nothing was due again"


def test_a_preset_of_another_system_keeps_compacting_and_the_log_notes_what_our_rule_would_do() -> None:
    policy = LangChainSummary(trigger_share=None, trigger_tokens=17_414, keep_messages=44, trim_tokens=None)
    played = play(policy, 53)
    applied = [event for event in played.compactions if event.status == "applied"]
    assert len(applied) > 20, "one for almost each step"
    assert not any(event.fruitless for event in applied)
    assert all(event.shortfall.startswith("a policy of this project would count it as fruitless: ") for event in applied[1:])
    assert played.notices == []


def test_the_most_messages_of_a_window_hold_at_every_step() -> None:
    played = play(MessageWindow(max_messages=40, preserve_last_n=4), 60)
    assert not any(event.fruitless for event in played.compactions)
    assert max(event.messages_after for event in played.compactions) <= 42, "the answer to a call stays with it"


@pytest.mark.parametrize("policy", [NARROW, DropAll(), Paced(every_steps=1, keep_last=60), RooCode()], ids=lambda one: one.kind)
def test_a_session_read_from_its_log_pauses_as_the_session_itself(policy: Policy) -> None:
    played = play(policy, 53)
    compactor = SessionCompactor(policy=policy, window=WINDOW, summarizer=FakeModel([assistant("x" * 400)] * 200))
    for number in range(1, len(played.entries)):
        entry = played.entries[number]
        if isinstance(entry.event, Compaction) and entry.event.moment == "step":
            log = MemoryLog()
            log.append([earlier.event for earlier in played.entries[:number]])
            reopened = Conversation(log, policy.counter, OverheadClock())
            again = compactor.compact(reopened.view, reopened.usage, entry.event.step, "step", lambda _: None)
            assert again == entry.event


def test_every_policy_of_this_project_that_compacts_has_the_rule() -> None:
    assert all(hasattr(policy, "least_saved_share") for policy in (NARROW, DropAll(), MessageWindow()))
    assert issubclass(Paced, CalibratedPreset)
    assert not hasattr(RooCode(), "least_saved_share")


def test_an_event_of_an_older_log_resets_the_count() -> None:
    old = replace(play(NARROW, 53).compactions[-1], shortfall="", fruitless=False)
    view = fold(View(fruitless_attempts=2, fruitless_tokens=100), Entry(9_000, old), NARROW.counter)
    assert (view.fruitless_attempts, view.fruitless_tokens) == (0, 0)
