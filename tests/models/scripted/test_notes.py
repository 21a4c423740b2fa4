"""The scripted agent with notes: what it saw once it can read again, and it stays a function of what it sees."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.messages import ToolCall, assistant, system, tool, user
from harness.conversation.messages import ToolResult as Result
from harness.errors import UnknownName, UsageError
from harness.models.scripted.agent import ScriptedModel
from harness.models.scripted.notes import MAX_LINE_CHARACTERS
from harness.models.scripted.patterns import NOTES_PATH, is_notes_call
from harness.models.scripted.profiles import add_options, look_up_profile
from harness.protocols import Request
from harness.task import CallTemplate, Evidence, Fact, Script, Step
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, WINDOW_TOKENS, ScriptedModelSpec
from harness.tasks import SUITE
from tests.laws.suite import simulate_with_cache

FACTS = (
    Fact(name="port", kind="constraint", said_in="prompt", patterns=(r"port must be (\d+)",), prior="8080"),
    Fact(name="name", kind="constraint", said_in="prompt", patterns=(r"name it (\w+)",), prior="app"),
)
STEP = Step(
    name="write",
    text="Writing.",
    calls=(CallTemplate(tool="write_file", arguments=(("path", "app.py"), ("content", "${port} ${name}"))),),
    required_facts=("port", "name"),
    done=Evidence(receipts=(("write_file", r"^app\.py$"),)),
)
NOTES = ScriptedModelSpec("scripted", notes=True)


def answer(*messages):
    profile = look_up_profile("attentive+notes")
    script = Script(steps=(STEP,), final_text="Done.")
    model = ScriptedModel(name="scripted", facts=FACTS, script=script, profile=profile, seed=1, window_tokens=100_000)
    return model.reply(Request(messages=(system("You work."), *messages), tools=())).message


def result(call, output, *, is_error=False):
    return tool(Result(call_id=call.call_id, name=call.name, output=output, status="error" if is_error else "completed"))


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", ["changing-requirements", "rename-sweep"])
def test_with_notes_empty_summaries_lose_nothing(name):
    task = SUITE[name](1)
    policy = KeepLast(summarizer="scripted/empty")
    plain, noted = (
        simulate_with_cache(task, policy, window_tokens=WINDOW_TOKENS, model_spec=spec)
        for spec in (ScriptedModelSpec("scripted"), NOTES)
    )
    assert plain.compactions
    assert noted.compactions
    assert plain.score < 0.6
    assert noted.score == 1
    assert [key for key in noted.call_keys if is_notes_call(*key)]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_session_in_a_large_window_reads_its_notes_once_and_notes_each_line_once():
    run = simulate_with_cache(SUITE["rename-sweep"](1), NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS, model_spec=NOTES)
    assert run.call_keys.count(("read_file", NOTES_PATH)) == 1
    lines = run.files[NOTES_PATH].splitlines()
    assert len(lines) == len(set(lines)) > 10


def test_the_agent_reads_its_notes_first_and_then_appends_what_it_was_told():
    request = user("The port must be 4711.\nPlease name it larch.")
    first = answer(request)
    assert [(call.name, call.arguments_json) for call in first.calls] == [("read_file", f'{{"path": "{NOTES_PATH}"}}')]
    failed = result(first.calls[0], "no such file", is_error=True)
    second = answer(request, first, failed)
    (append,) = second.calls
    assert append.name == "execute_command"
    assert "The port must be 4711.\\nPlease name it larch.\\n" in append.arguments_json
    third = answer(request, first, failed, second, result(append, "exit code 0\n"))
    assert [call.name for call in third.calls] == ["write_file"]


def test_values_that_only_the_notes_show_are_used_and_not_noted_again():
    read = ToolCall(call_id="a", name="read_file", arguments_json=f'{{"path": "{NOTES_PATH}"}}')
    notes = result(read, "The port must be 4711.\nPlease name it larch.\n")
    (write,) = answer(user("Go on."), assistant("My notes first.", read), notes).calls
    assert (write.name, "4711 larch" in write.arguments_json) == ("write_file", True)


def test_a_value_that_is_stated_again_is_noted_only_if_it_changed():
    read = ToolCall(call_id="a", name="read_file", arguments_json=f'{{"path": "{NOTES_PATH}"}}')
    notes = result(read, "The port must be 4711.\nThe port must be 12.\nPlease name it larch.\n")
    same = answer(user("Go on."), assistant("My notes first.", read), notes, user("I repeat: the port must be 12."))
    assert [call.name for call in same.calls] == ["write_file"]
    (append,) = answer(user("Go on."), assistant("My notes first.", read), notes, user("The port must be 4711.")).calls
    assert "The port must be 4711." in append.arguments_json


@given(padding=st.text(st.characters(codec="utf-8", exclude_characters="\r\n$"), max_size=30), repeats=st.integers(0, 200))
def test_whatever_stands_around_a_fact_a_note_is_made_once(padding, repeats):
    request = user(f"{padding * repeats} The port must be 4711.\nPlease name it larch. {padding * repeats}")
    read = answer(request)
    messages = [request, read, result(read.calls[0], "no such file", is_error=True)]
    append = answer(*messages)
    messages += [append, result(append.calls[0], "exit code 0\n")]
    assert is_notes_call("execute_command", json.loads(append.calls[0].arguments_json)["command"])
    assert len(json.loads(append.calls[0].arguments_json)["command"]) < 3 * MAX_LINE_CHARACTERS
    assert [call.name for call in answer(*messages).calls] == ["write_file"]


def test_notes_are_part_of_the_name_of_a_model():
    assert look_up_profile("typical+tolerant+notes").notes
    assert look_up_profile("typical+tolerant+notes").reader == "tolerant"
    assert look_up_profile("attentive+notes").reader == "exact"
    assert not look_up_profile("attentive").notes
    assert add_options("scripted", "tolerant", notes=True) == "scripted:attentive+tolerant+notes"
    assert add_options("scripted", "exact") == "scripted"
    with pytest.raises(UnknownName, match="notes\\+tolerant"):
        look_up_profile("typical+notes+tolerant")
    with pytest.raises(UsageError, match="notes: only a scripted model has notes"):
        add_options("openai/gpt-5", "exact", notes=True)
    with pytest.raises(UsageError, match="notes = true instead"):
        add_options("scripted:typical+notes", "exact")
