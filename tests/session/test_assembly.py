"""Tests of the assembly of sessions, and of the tool `explore`."""

import itertools
import time
from contextlib import contextmanager

import pytest

from harness.agent.cancellation import Cancellation
from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.events import MessageAdded, SessionEnded, SessionStarted, StepFinished
from harness.conversation.messages import ToolCall, assistant
from harness.errors import ProviderFailed, SandboxDied, SandboxKilled, UsageError
from harness.session.assembly import (
    EXPLORE_MAX_STEPS,
    MAX_ANSWER_CHARACTERS,
    ExploreTool,
    SessionResources,
    assemble_session,
    select_exploring_tools,
)
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.testing.fakes import FakeModel, MemorySandbox
from harness.tools import make_standard_tools
from tests.experiment.tiny_task import tiny

ASKED = ToolCall(call_id="c", name="explore", arguments_json='{"question": "Where is it?"}')
LOOK = assistant("", ToolCall(call_id="l", name="execute_command", arguments_json='{"command": "ls"}'))


class Made:
    """An `ExploreTool` over a fake model, with the requests and events that it produced."""

    def __init__(self, replies, answer=None, max_steps=EXPLORE_MAX_STEPS, cancellation=None):
        self.model, self.log = FakeModel(replies), MemoryLog()
        self.max_steps, self.cancellation = max_steps, cancellation
        self.sandbox = MemorySandbox(answer) if answer else MemorySandbox()
        self.tool = ExploreTool(open_sub_agent=self.open_sub_agent)

    @contextmanager
    def open_sub_agent(self, question, on_event):
        resources = SessionResources(
            session_id="parent.1",
            log=self.log,
            clock=time.monotonic,
            on_event=on_event,
            cancellation=self.cancellation,
            model=self.model,
            tools=select_exploring_tools(make_standard_tools(self.sandbox)),
        )
        spec = SessionSpec(request=question, policy=NoCompaction(), max_steps=self.max_steps)
        yield assemble_session(spec, resources)


def test_the_last_message_of_a_sub_agent_is_its_answer_and_it_can_only_read():
    subtask = Made([LOOK, assistant("It is in a.py.\nTASK COMPLETE")])
    result = subtask.tool.run(ASKED)
    assert (result.status, result.output) == ("completed", "It is in a.py.\n[2 steps, session parent.1]")
    assert {spec.name for spec in subtask.model.requests[0].tools} == {"execute_command", "read_file", "list_directory"}
    assert isinstance(list(subtask.log.entries())[-1].event, SessionEnded)


def test_the_tokens_of_a_sub_agent_are_reported_once_whatever_its_outcome():
    subtask = Made([LOOK, assistant("It is in a.py.")])
    subtask.tool.run(ASKED)
    finished = [entry.event for entry in subtask.log.entries() if isinstance(entry.event, StepFinished)]
    [spent] = subtask.tool.collect_subagent_events(7)
    assert (spent.step, spent.session_id, spent.steps) == (7, "parent.1", 2)
    assert spent.prompt_tokens == sum(one.usage.prompt_tokens for one in finished) > 0
    assert spent.output_tokens == sum(one.usage.output_tokens for one in finished) > 0
    assert spent.cost_usd is None, "a puppet has no price"
    assert subtask.tool.collect_subagent_events(8) == []
    for failing in (Made([LOOK, ProviderFailed("puppet", 500, "down")]), Made([LOOK, LOOK], max_steps=1)):
        failing.tool.run(ASKED)
        assert [one.steps for one in failing.tool.collect_subagent_events(1)] == [1]


def test_a_long_answer_is_cut_and_says_so():
    result = Made([assistant("é" * (MAX_ANSWER_CHARACTERS + 7))]).tool.run(ASKED)
    assert (result.clipped_characters, result.clipped_bytes) == (7, 14)
    assert "[7 more characters cut]" in result.output


@pytest.mark.parametrize("arguments", ["{", "[]", "{}", '{"question": 3}', '{"question": " "}', "[" * 100_000])
def test_a_call_without_a_question_is_answered_with_the_right_form(arguments):
    result = Made([]).tool.run(ToolCall(call_id="c", name="explore", arguments_json=arguments))
    assert result.status == "error"
    assert "the string field: question" in result.output


@pytest.mark.parametrize(
    ("replies", "explanation"),
    [([LOOK] * 3, "no answer after 3 steps: stopped after 3 steps"), ([ProviderFailed("puppet", 500, "down")], "down")],
)
def test_a_sub_agent_without_an_answer_returns_the_reason(replies, explanation):
    result = Made(replies, max_steps=3).tool.run(ASKED)
    assert result.status == "error"
    assert explanation in result.output


def test_a_sub_agent_is_stopped_with_the_session_that_started_it():
    cancellation = Cancellation()
    cancellation.request()
    assert Made([LOOK], cancellation=cancellation).tool.run(ASKED).status == "interrupted"


@pytest.mark.parametrize("error", [SandboxDied, SandboxKilled])
def test_a_lost_sandbox_is_lost_for_the_session_that_asked_too(error):
    def die(_):
        raise error("gone")

    with pytest.raises(SandboxDied, match="gone") as caught:
        Made([LOOK], answer=die).tool.run(ASKED)
    assert type(caught.value) is error


AGAIN = assistant("", ToolCall(call_id="c", name="execute_command", arguments_json='{"command": "ls"}'))


def assembled(spec, **resources):
    defaults = {"session_id": "s1", "log": MemoryLog(), "clock": time.monotonic, "sandbox": MemorySandbox()}
    return assemble_session(spec, SessionResources(**{**defaults, **resources}))


def test_models_tools_and_later_messages_come_from_the_specification():
    task = tiny(0)
    spec = SessionSpec(request=task.prompt, policy=KeepLast(summarizer="scripted/empty"), task=task)
    session = assembled(spec, outputs=MemoryOutputs())
    assert session.agent.model.name == "scripted/tiny:attentive"
    assert {tool.spec.name for tool in session.agent.tools} >= {"execute_command", "read_file", "write_file", "list_directory"}
    assert session.agent.inbox.take(3) == ("Take your time.",)
    assert (session.start_event.sandbox, session.start_event.task) == ("memory", task.prompt)


def test_a_model_object_that_is_passed_in_is_used_instead_of_the_named_one():
    puppet = FakeModel([assistant("done")], window_tokens=50_000)
    session = assembled(SessionSpec(request="x", policy=NoCompaction(), model="no such model"), model=puppet, tools=())
    outcome = session.agent.run(session.start_event, "be good")
    events = [entry.event for entry in session.agent.log.entries()]
    assert (outcome.status, outcome.reason, outcome.steps) == ("completed", "replied", 1)
    assert isinstance(events[0], SessionStarted)
    assert isinstance(events[-1], SessionEnded)
    assert (events[0].model, events[0].window_tokens) == ("puppet", 50_000)
    assert puppet.requests[0].tools == ()


def test_the_policy_is_scaled_to_the_window_and_the_first_event_says_so():
    spec = SessionSpec(request="x", policy=KeepLast(trigger_tokens=100_000), nominal_window_tokens=200_000)
    session = assembled(spec, model=FakeModel([], window_tokens=50_000))
    assert session.fitted_policy.scale == 0.25
    assert session.start_event.threshold_tokens == session.agent.compactor.budget.threshold_tokens == 25_000
    assert "constants scaled by 0.25" in session.start_event.budget_rule


def test_an_oracle_comes_from_the_task_or_is_handed_in():
    task = tiny(0)
    assembled(SessionSpec(request=task.prompt, policy=OracleRetention(), task=task))
    with pytest.raises(UsageError, match="a forecast of the messages"):
        assembled(SessionSpec(request="x", policy=OracleRetention()), model=FakeModel([]))


@pytest.mark.parametrize(
    ("repeated", "answer", "reason"),
    [("stop", None, "doom_loop"), ("ask", None, "max_steps"), ("ask", "stop", "doom_loop"), ("continue", "stop", "max_steps")],
)
def test_repeated_calls_end_the_session_where_the_specification_or_somebody_says_so(repeated, answer, reason):
    spec = SessionSpec(request="x", policy=NoCompaction(), repeated=repeated, max_steps=4)
    decide = None if answer is None else lambda _call, _times: answer
    session = assembled(spec, model=FakeModel([AGAIN] * 4), decide_repeated_call=decide)
    assert session.agent.run(session.start_event, "be good").reason == reason


@pytest.mark.parametrize(
    ("repeated", "somebody", "attended"), [("ask", True, True), ("ask", False, False), ("continue", True, False)]
)
def test_a_session_is_attended_if_a_person_decides_on_repeated_calls(repeated, somebody, attended):
    """S3.15: lazy compaction puts nothing off while somebody attends the session."""
    spec = SessionSpec(request="x", policy=ThreeTiers(lazy=True), repeated=repeated)
    session = assembled(spec, model=FakeModel([]), decide_repeated_call=(lambda _call, _times: "continue") if somebody else None)
    assert session.start_event.attended == attended


def test_a_call_of_explore_is_logged_with_its_start_and_duration():
    question = assistant("", ToolCall(call_id="e", name="explore", arguments_json='{"question": "Where is it?"}'))
    puppet = FakeModel([question, LOOK, assistant("In a.py."), assistant("done")])
    spec = SessionSpec(request="x", policy=NoCompaction(), explore=True)
    session = assembled(spec, model=puppet, clock=itertools.count(1_000).__next__)
    session.agent.run(session.start_event, "be good")
    [timing] = [event.timing for _, event in session.agent.log.entries() if isinstance(event, MessageAdded) and event.timing]
    assert timing.started_at_ms >= 1_000_000
    assert timing.seconds > 0


def test_a_sub_agent_shares_the_models_and_logs_apart():
    question = assistant("", ToolCall(call_id="e", name="explore", arguments_json='{"question": "Where is it?"}'))
    puppet = FakeModel([question, assistant("In a.py."), assistant("done")])
    session = assembled(SessionSpec(request="x", policy=NoCompaction(), explore=True, instructions="Be brief."), model=puppet)
    session.agent.run(session.start_event, "be good")
    asked, looking, _ = puppet.requests
    assert "explore" in {spec.name for spec in asked.tools}
    assert not {"explore", "write_file"} & {spec.name for spec in looking.tools}
    assert "Be brief." not in looking.messages[0].text
    added = [entry.event.message for entry in session.agent.log.entries() if isinstance(entry.event, MessageAdded)]
    [result] = [message.results[0] for message in added if message.role == "tool"]
    assert result.output.startswith("In a.py.\n[1 steps, session s1.")
