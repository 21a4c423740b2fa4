"""One function assembles every kind of session: what stands in the specification and what is handed in decide the rest."""

import time

import pytest

from harness.agent.loop import Limits
from harness.compaction.presets.bounds import OracleRetention
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.errors import UsageError
from harness.events import MessageAdded, SessionEnded, SessionStarted
from harness.messages import ToolCall, assistant
from harness.session.assembly import assemble_session
from harness.session.resources import SessionResources
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.testing.fakes import FakeModel, MemorySandbox
from tests.experiment.tiny_task import tiny

AGAIN = assistant("", ToolCall(call_id="c", name="execute_command", arguments_json='{"command": "ls"}'))


def assembled(spec, **resources):
    defaults = {"session_id": "s1", "log": MemoryLog(), "clock": time.monotonic, "sandbox": MemorySandbox()}
    return assemble_session(spec, SessionResources(**{**defaults, **resources}))


def test_models_tools_and_later_messages_come_from_the_specification():
    task = tiny(0)
    spec = SessionSpec(request=task.prompt, policy=KeepLast(summarizer="scripted/empty"), task=task, instructions="Be brief.")
    session = assembled(spec, outputs=MemoryOutputs())
    assert session.agent.model.name == "scripted/tiny:attentive"
    assert {tool.spec.name for tool in session.agent.tools} >= {"execute_command", "read_file", "write_file", "list_directory"}
    assert session.agent.inbox.take(3) == ("Take your time.",)
    assert session.agent.instructions == "Be brief."
    assert (session.start_event.sandbox, session.start_event.task) == ("memory", task.prompt)


def test_what_is_handed_in_is_not_opened_by_its_name():
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
    with pytest.raises(UsageError, match="only the script of a task"):
        assembled(SessionSpec(request="x", policy=OracleRetention()), model=FakeModel([]))


@pytest.mark.parametrize(
    ("repeated", "answer", "reason"),
    [("stop", None, "doom_loop"), ("ask", None, "max_steps"), ("ask", "stop", "doom_loop"), ("continue", "stop", "max_steps")],
)
def test_repeated_calls_end_the_session_where_the_specification_or_somebody_says_so(repeated, answer, reason):
    spec = SessionSpec(request="x", policy=NoCompaction(), repeated=repeated, limits=Limits(max_steps=4))
    decide = None if answer is None else lambda _call, _times: answer
    session = assembled(spec, model=FakeModel([AGAIN] * 4), decide_repeated_call=decide)
    assert session.agent.run(session.start_event, "be good").reason == reason


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
