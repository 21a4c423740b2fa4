"""Tests of the scripted sub-agent, which looks up the facts that a question names."""

import pytest

from harness.conversation.messages import ToolResult, system, tool, user
from harness.errors import ContextOverflow
from harness.models.factory import open_model, open_sub_agent
from harness.models.scripted.profiles import ATTENTIVE, look_up_profile
from harness.models.scripted.sub_agent import MAX_LINE_CHARACTERS, UNKNOWN_ANSWER, ScriptedSubAgent
from harness.protocols import Request
from harness.task import CallTemplate, Fact
from harness.testing.fakes import FakeModel
from tests.experiment.exploring_task import hidden, lost

LISTED = Fact(
    name="deploy_key",
    kind="value",
    said_in="file",
    patterns=(r"^key: (\w+)$",),
    prior="none",
    recover=CallTemplate(tool="read_file", arguments=(("path", "conf/deploy.txt"),)),
    source="conf/deploy.txt",
)


def sub_agent(facts=None, profile=ATTENTIVE, window_tokens=128_000):
    facts = hidden(3).facts if facts is None else facts
    return ScriptedSubAgent(name="scripted/hidden:x", facts=facts, profile=profile, seed=1, window_tokens=window_tokens)


def run_sub_agent(model, question, outputs, limit=6):
    """Return the calls and the answer of a sub-agent whose tool calls have the given outputs, by key argument."""
    messages, calls = [system("look"), user(question)], list[tuple[str, str]]()
    for _ in range(limit):
        answer = model.reply(Request(messages=tuple(messages))).message
        messages.append(answer)
        if not answer.calls:
            return calls, answer.text
        [call] = answer.calls
        key = call.arguments_json
        calls.append((call.name, key))
        output = next(text for part, text in outputs.items() if part in key)
        messages.append(tool(ToolResult(call_id=call.call_id, name=call.name, output=output)))
    raise AssertionError("it never answered")


def test_a_sub_agent_looks_up_the_fact_in_question_and_quotes_its_line():
    """S3.20: a short answer, from which the agent reads the value by its own patterns."""
    calls, answer = run_sub_agent(sub_agent(), "What is the PORT?", {"grep": "exit code 0\nsome\nThe port is 4003.\nmore"})
    assert calls == [("execute_command", '{"command": "grep \'port is\' log.txt"}')]
    assert answer == "The port is 4003."


def test_a_source_is_listed_before_it_is_read():
    outputs = {'"conf"': "file  deploy.txt  9", "deploy.txt": "key: abc\n"}
    calls, answer = run_sub_agent(sub_agent([LISTED]), "the deploy key, please", outputs)
    assert [name for name, _ in calls] == ["list_directory", "read_file"]
    assert answer == "key: abc"


@pytest.mark.parametrize("question", ["the deploy_key?", "Deploy-Key", "deploy key"])
def test_names_are_recognised_in_the_usual_spellings(question):
    assert sub_agent([LISTED]).reply(Request(messages=(user(question),))).message.calls


@pytest.mark.parametrize("question", ["Where are the airports?", "the deploy keys", "portly"])
def test_a_question_that_names_no_fact_is_answered_so(question):
    assert run_sub_agent(sub_agent(), question, {}) == ([], UNKNOWN_ANSWER)


def test_an_unsuccessful_search_is_reported_and_no_call_is_repeated():
    calls, answer = run_sub_agent(sub_agent(), "the port and the host", {"grep": "exit code 1"})
    assert len(calls) == 1
    assert answer == "I did not find the port.\nI did not find the host."
    assert run_sub_agent(sub_agent(lost(3).facts), "the port", {}) == ([], "I did not find the port.")


def test_only_the_part_of_a_long_line_with_the_fact_is_quoted():
    line = f"{'x' * 3_000} The port is 4003. {'y' * 3_000}"
    _, answer = run_sub_agent(sub_agent(), "the port", {"grep": f"exit code 0\n{line}"})
    assert answer.startswith("The port is 4003.")
    assert len(answer) == MAX_LINE_CHARACTERS


def test_a_worse_reader_overlooks_what_stands_in_the_middle_of_a_long_text():
    text = "\n".join(("exit code 0", *["word " * 20] * 2_000, "The port is 4003.", *["word " * 20] * 2_000))
    sees, misses = (sub_agent(profile=look_up_profile(name)) for name in ("attentive", "overlooks-1.0"))
    assert run_sub_agent(sees, "the port", {"grep": text})[1] == "The port is 4003."
    assert run_sub_agent(misses, "the port", {"grep": text})[1] == "I did not find the port."


def test_its_window_is_a_limit_and_its_price_and_time_are_nominal():
    request = Request(messages=(user("the port"),))
    reply = sub_agent().reply(request)
    assert (reply.cost_usd or 0) > 0
    assert reply.seconds > 0
    with pytest.raises(ContextOverflow):
        sub_agent(window_tokens=1).reply(request)


def test_the_same_model_is_the_agents_own_or_a_scripted_sub_agent_of_its_profile():
    task, puppet = hidden(3), FakeModel([])
    agent = open_model("scripted:typical", task=task, seed=1, window_tokens=9_000)
    assert open_sub_agent("same", agent=puppet, task=None, seed=1) is puppet
    same = open_sub_agent("same", agent=agent, task=task, seed=1)
    assert (type(same), same.name, same.window.tokens) == (ScriptedSubAgent, "scripted/hidden:typical", 9_000)
    other = open_sub_agent("scripted:overlooks-0.5", agent=agent, task=task, seed=1)
    assert (other.name, other.window.tokens) == ("scripted/hidden:overlooks-0.5", 128_000)
