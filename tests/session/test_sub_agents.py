"""The tool `explore` (S3.20): what its sub-agent gets, and what comes back when it has no answer."""

import time
from contextlib import contextmanager

import pytest

from harness.agent.cancellation import Cancellation
from harness.agent.loop import Limits
from harness.compaction.presets.none import NoCompaction
from harness.errors import ProviderFailed, SandboxDied
from harness.events import SessionEnded, StepFinished
from harness.messages import ToolCall, assistant
from harness.session.assembly import assemble_session
from harness.session.resources import SessionResources
from harness.session.spec import SessionSpec
from harness.session.sub_agents import EXPLORE_MAX_STEPS, MAX_ANSWER_CHARACTERS, ExploreTool, select_exploring_tools
from harness.store.log import MemoryLog
from harness.testing.fakes import FakeModel, MemorySandbox
from harness.tools import make_standard_tools

ASKED = ToolCall(call_id="c", name="explore", arguments_json='{"question": "Where is it?"}')
LOOK = assistant("", ToolCall(call_id="l", name="execute_command", arguments_json='{"command": "ls"}'))


class Made:
    """An `ExploreTool` over a puppet, and what it left."""

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
        spec = SessionSpec(request=question, policy=NoCompaction(), limits=Limits(max_steps=self.max_steps))
        yield assemble_session(spec, resources)


def test_its_last_words_are_the_answer_and_only_looking_is_allowed():
    made = Made([LOOK, assistant("It is in a.py.\nTASK COMPLETE")])
    result = made.tool.run(ASKED)
    assert (result.status, result.output) == ("completed", "It is in a.py.\n[2 steps, session parent.1]")
    assert {spec.name for spec in made.model.requests[0].tools} == {"execute_command", "read_file", "list_directory"}
    assert isinstance(list(made.log.entries())[-1].event, SessionEnded)


def test_what_it_took_is_told_once_whatever_came_of_it():
    made = Made([LOOK, assistant("It is in a.py.")])
    made.tool.run(ASKED)
    finished = [entry.event for entry in made.log.entries() if isinstance(entry.event, StepFinished)]
    [spent] = made.tool.collect_subagent_events(7)
    assert (spent.step, spent.session_id, spent.steps) == (7, "parent.1", 2)
    assert spent.prompt_tokens == sum(one.usage.prompt_tokens for one in finished) > 0
    assert spent.output_tokens == sum(one.usage.output_tokens for one in finished) > 0
    assert spent.cost_usd is None, "a puppet has no price"
    assert made.tool.collect_subagent_events(8) == []
    for failing in (Made([LOOK, ProviderFailed("puppet", 500, "down")]), Made([LOOK, LOOK], max_steps=1)):
        failing.tool.run(ASKED)
        assert [one.steps for one in failing.tool.collect_subagent_events(1)] == [1]


def test_a_long_answer_is_cut_and_says_so():
    result = Made([assistant("x" * (MAX_ANSWER_CHARACTERS + 7))]).tool.run(ASKED)
    assert result.clipped_characters == 7
    assert "[7 more characters cut]" in result.output


@pytest.mark.parametrize("arguments", ["{", "[]", "{}", '{"question": 3}', '{"question": " "}', "[" * 100_000])
def test_a_call_without_a_question_is_told_what_is_right(arguments):
    result = Made([]).tool.run(ToolCall(call_id="c", name="explore", arguments_json=arguments))
    assert result.status == "error"
    assert "the string field: question" in result.output


@pytest.mark.parametrize(
    ("replies", "said"),
    [([LOOK] * 3, "no answer after 3 steps: stopped after 3 steps"), ([ProviderFailed("puppet", 500, "down")], "down")],
)
def test_without_an_answer_the_asking_agent_is_told_why(replies, said):
    result = Made(replies, max_steps=3).tool.run(ASKED)
    assert result.status == "error"
    assert said in result.output


def test_it_is_stopped_with_the_session_that_asked():
    cancellation = Cancellation()
    cancellation.request()
    assert Made([LOOK], cancellation=cancellation).tool.run(ASKED).status == "interrupted"


def test_a_lost_sandbox_is_lost_for_the_session_that_asked_too():
    def die(_):
        raise SandboxDied("gone")

    with pytest.raises(SandboxDied, match="gone"):
        Made([LOOK], answer=die).tool.run(ASKED)
