"""Requests of a probe: tools that follow from calls, texts without keys, and equal actions."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from harness.replay.excerpts import MASK, mask_secrets
from harness.replay.probe_requests import Action, clean_messages, list_tools, read_action

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=6), JSON, max_size=4)
KEY = "a1B2c3D4e5F6g7H8i9J0k1L2"


def call(name: str, arguments: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments_json=arguments)


@given(OBJECTS, st.randoms())
def test_the_order_and_the_spelling_of_arguments_make_no_other_action(arguments, random):
    names = list(arguments)
    random.shuffle(names)
    shuffled = json.dumps({name: arguments[name] for name in names}, indent=random.choice([None, 2]))
    assert read_action(assistant("", call("read", json.dumps(arguments)))) == read_action(assistant("so", call("read", shuffled)))


@given(OBJECTS, OBJECTS)
def test_other_arguments_are_another_action(one, other):
    texts = json.dumps(one, sort_keys=True), json.dumps(other, sort_keys=True)
    actions = [read_action(assistant("", call("read", text))) for text in texts]
    assert (actions[0] == actions[1]) == (texts[0] == texts[1])


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5_000, '{"a": 1} {"b": 2}', "\ud800"])
def test_arguments_that_are_no_json_are_compared_as_they_are(text):
    assert read_action(assistant("", call("read", text))) == Action("read", text.strip())


def test_an_answer_without_a_call_is_one_action_whatever_it_says():
    assert read_action(assistant("Done.")) == read_action(assistant("I am finished.")) == Action("", "")
    first = read_action(assistant("", call("read", "{}"), call("write", "{}", "c2")))
    assert first == Action("read", "{}")


@given(st.lists(OBJECTS, min_size=1, max_size=5))
def test_each_recorded_call_is_valid_under_the_derived_tool(calls):
    messages = [assistant("", call("edit file", json.dumps(arguments))) for arguments in calls]
    (tool,) = list_tools(messages, is_own=False).specs
    schema = json.loads(tool.parameters_json)
    assert tool.name == "edit_file"
    assert all(set(schema["required"]) <= set(arguments) <= set(schema["properties"]) for arguments in calls)
    assert all(entry["type"] in {"string", "boolean", "number", "array", "object"} for entry in schema["properties"].values())


def test_the_tools_of_this_package_are_known_and_those_of_others_are_not():
    messages = [assistant("", call("read_file", '{"path": "a"}'))]
    own, other = list_tools(messages, is_own=True), list_tools(messages, is_own=False)
    assert own.are_known
    assert {"execute_command", "read_file", "write_file"} <= {tool.name for tool in own.specs}
    assert not other.are_known
    assert [tool.name for tool in other.specs] == ["read_file"]
    assert not list_tools([assistant("", call("Bash", "{}"))], is_own=True).are_known


def test_names_that_providers_refuse_are_replaced_alike_in_calls_and_results():
    sent = ToolCall(call_id="call|1.a", name="functions.exec", arguments_json="{}")
    result = ToolResult(call_id="call|1.a", name="functions.exec", output="ok")
    messages = clean_messages([assistant("", sent), Message(role="tool", parts=(result,))])
    assert messages[0].calls[0] == replace(sent, call_id="call_1_a", name="functions_exec")
    assert (messages[1].results[0].call_id, messages[1].results[0].name) == ("call_1_a", "functions_exec")


def test_reasoning_is_not_sent():
    messages = [Message(role="assistant", parts=(Reasoning(text="hm"),)), Message(role="assistant", parts=(Text(text="so"),))]
    assert clean_messages(messages) == (messages[1],)


@pytest.mark.parametrize(
    "form",
    [
        "sk-ant-{}",
        "ghp_{}",
        "hf_{}",
        "API_KEY={}",
        '{{"access_token": "{}"}}',
        "Authorization: Bearer {}",
        "https://person:{}@example.org/a",
    ],
)
def test_planted_keys_are_masked_in_every_part(form):
    text = form.format(KEY)
    parts = (Text(text=text), call("run", json.dumps({"command": text})))
    tool = Message(role="tool", parts=(ToolResult(call_id="c1", name="run", output=text),))
    sent = clean_messages([user(text), Message(role="assistant", parts=parts), tool])
    assert KEY not in repr(sent)
    assert repr(sent).count(MASK) == 4
    assert json.loads(sent[1].calls[0].arguments_json)


@pytest.mark.parametrize(
    "text",
    [
        "token = parse(line)",
        "skipped_tests_of_last_run",
        "npm_config_registry_of_user",
        "basic understanding of tokens",
        "commit 1f3e5d7c9b2a4f6e8d0c1b3a5f7e9d2c4b6a8f0e",
        "the password: ask the administrator",
        "def test_password_is_checked_before_login():",
    ],
)
def test_ordinary_text_is_sent_as_it_is(text):
    assert mask_secrets(text) == text
