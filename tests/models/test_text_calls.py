"""Calls in text are parsed back unchanged, and quoted calls are not parsed as calls."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, Text, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Measured, Usage, Window
from harness.models.local.model import LocalModel
from harness.models.text_calls import (
    CALL_CLOSE,
    CALL_OPEN,
    RESULT_CLOSE,
    RESULT_OPEN,
    UNREADABLE_CALL_NAME,
    TextCallModel,
    escape_tags,
    parse_answer,
    render_call,
    render_messages,
)
from harness.protocols import Reply, Request, ToolSpec, ignore
from tests.models.test_openai_format import json_objects, texts

tags = st.sampled_from(
    [CALL_OPEN, CALL_CLOSE, RESULT_OPEN, RESULT_CLOSE, "<call_tool", "</CALL_TOOL>", "\n", "\r\n", " ", "{", "}", '"', "&lt;"]
)
hostile = st.lists(st.one_of(tags, texts, st.just('{"name": "rm", "arguments": {}}')), max_size=8).map("".join)
pretty = json_objects.map(lambda text: json.dumps(json.loads(text), indent=2, ensure_ascii=False))
arguments = st.one_of(
    json_objects, pretty, hostile, st.just(" {} "), st.just('{"a": 1, "a": 2}'), st.just('"text"'), st.just("[1]")
)
calls = st.builds(ToolCall, call_id=st.just(""), name=hostile, arguments_json=arguments)
some_calls = st.lists(calls, min_size=1, max_size=3)
LIST = ToolSpec(name="list_directory", description="Lists {it}.", parameters_json='{"type": "object", "properties": {}}')


def split_call(call):
    return call.name, call.arguments_json


@given(hostile, some_calls)
def test_any_call_survives_the_way_to_text_and_back(text, tool_calls):
    [message] = render_messages([assistant(text, *tool_calls)], ())
    assert parse_answer(message.text).calls == tuple(map(split_call, tool_calls))


@given(st.text(alphabet="ab\n <", max_size=40), some_calls)
def test_text_before_the_calls_survives_but_for_its_last_spaces(text, tool_calls):
    [message] = render_messages([assistant(text, *tool_calls)], ())
    assert parse_answer(message.text).text == text.rstrip()


@given(hostile, st.sampled_from(["system", "user", "assistant"]))
def test_no_quoted_text_is_a_call(text, role):
    [message] = render_messages([Message(role=role, parts=(Text(text=text),))], ())
    assert parse_answer(message.text).calls == ()


@given(st.lists(hostile, min_size=1, max_size=4), hostile)
def test_no_result_is_a_call_or_ends_before_its_end(outputs, text):
    messages = [tool(ToolResult(call_id=str(n), name="t", output=output)) for n, output in enumerate(outputs)]
    [message] = render_messages([*messages, user(text)], ())
    assert message.role == "user"
    assert parse_answer(message.text).calls == ()
    assert message.text.count(RESULT_OPEN) == message.text.count(RESULT_CLOSE) == len(outputs)
    for output in outputs:
        assert f"{RESULT_OPEN}\n{escape_tags(output)}\n{RESULT_CLOSE}" in message.text


@given(hostile)
def test_whatever_a_model_writes_is_read(text):
    reply = parse_answer(text)
    assert all(len(name) <= len(text) or name == UNREADABLE_CALL_NAME for name, _ in reply.calls)
    if not reply.calls:
        assert reply.text == text


@pytest.mark.parametrize(
    ("block", "call"),
    [
        ('{"name": "a", "arguments": {"b": 1}}', ("a", '{"b": 1}')),
        ('{"arguments": {"b":1}, "name": "a"}', ("a", '{"b": 1}')),
        ('{"name": "a"}', ("a", "{}")),
        ('{"name": "a", "arguments": "{\\"b\\": 1}"}', ("a", '{"b": 1}')),
        ('{"name": "a", "arguments": {"b": 1}', ("a", '{"name": "a", "arguments": {"b": 1}')),
        ('{"name": "a", "arguments": {"b": "two\nlines"}}', ("a", '{"name": "a", "arguments": {"b": "two\nlines"}}')),
        ('{"b": 1}', ("call_tool", '{"b": 1}')),
        ("", ("call_tool", "")),
        ("[" * 50_000, ("call_tool", "[" * 50_000)),
    ],
)
def test_a_block_is_a_call_whatever_stands_in_it(block, call):
    assert parse_answer(f"I call.\n{CALL_OPEN}\n{block}\n{CALL_CLOSE}\nand the result is 5").calls == (call,)


def test_calls_that_rest_on_results_which_are_not_there_are_left_out():
    one, two = (render_call(ToolCall(call_id="", name=name, arguments_json="{}")) for name in ("a", "b"))
    assert parse_answer(f"{one}\n\n{two}").calls == (("a", "{}"), ("b", "{}"))
    assert parse_answer(f"{one}\n{RESULT_OPEN}\n5\n{RESULT_CLOSE}\n{two}").calls == (("a", "{}"),)


def test_an_unfinished_block_is_a_call_with_the_received_arguments():
    assert parse_answer(f'{CALL_OPEN}{{"name": "a", "arguments": {{}}}}').calls == (("a", "{}"),)
    assert parse_answer(f'{CALL_OPEN}{{"name": "a", "argum').calls == (("a", '{"name": "a", "argum'),)


class Parrot:
    """A model that repeats a given answer in small pieces and keeps its requests."""

    name = "parrot"
    window = Window(tokens=100, source="configuration")

    def __init__(self, text, size=3):
        self.text, self.size, self.asked = text, size, []

    def reply(self, request, listen=ignore):
        self.asked.append(request)
        for at in range(0, len(self.text), self.size):
            listen(TextDelta(text=self.text[at : at + self.size]))
        usage = Usage(input_tokens=Measured(1), output_tokens=Measured(1))
        return Reply(message=assistant(self.text), usage=usage, seconds=0.0)


def test_the_first_part_of_the_system_prompt_describes_the_tools():
    parrot = Parrot("fine")
    prompt = Message(role="system", parts=(Text(text="Stable."), Text(text="Changing.")))
    TextCallModel(model=parrot).reply(Request(messages=(prompt, user("hi")), tools=(LIST,)))
    [asked] = parrot.asked
    assert asked.tools == ()
    stable, changing = asked.messages[0].parts
    assert stable.text.startswith("Stable.\n\nTOOLS:")
    assert "Lists {it}." in stable.text
    assert changing.text == "Changing."
    TextCallModel(model=parrot).reply(Request(messages=(user("hi"),), tools=(LIST,)))
    assert [message.role for message in parrot.asked[1].messages] == ["system", "user"]


class Stutterer(Parrot):
    """A model whose provider fails after some characters and is then called again."""

    fails_after = 0

    def reply(self, request, listen=ignore):
        for character in self.text[: self.fails_after]:
            listen(TextDelta(text=character))
        listen(TextDelta(text="", anew=True))
        return super().reply(request, listen)


@given(hostile, some_calls, st.integers(0, 99))
def test_text_before_a_retried_answer_is_ignored(text, tool_calls, fails_after):
    [message] = render_messages([assistant(text, *tool_calls)], ())
    stutterer = Stutterer(message.text)
    stutterer.fails_after = fails_after
    heard: list[TextDelta] = []
    reply = TextCallModel(model=stutterer).reply(Request(messages=(user("u"),), tools=(LIST,)), heard.append)
    [anew] = [at for at, delta in enumerate(heard) if delta.anew]
    assert "".join(delta.text for delta in heard[anew:]).rstrip() == reply.message.text


@given(hostile, some_calls, st.integers(1, 9))
def test_the_listener_hears_the_text_before_the_first_call_and_nothing_else(text, tool_calls, size):
    [message] = render_messages([assistant(text, *tool_calls)], ())
    heard: list[str] = []
    reply = TextCallModel(model=Parrot(message.text, size)).reply(
        Request(messages=(system("s"), user("u")), tools=(LIST,)), lambda delta: heard.append(delta.text)
    )
    assert "".join(heard).rstrip() == reply.message.text == escape_tags(text).rstrip()
    assert [split_call(call) for call in reply.message.calls] == [split_call(call) for call in tool_calls]
    assert len({call.call_id for call in reply.message.calls}) == len(tool_calls)


class Thinker(Parrot):
    """A model that reasons before it answers."""

    def reply(self, request, listen=ignore):
        listen(TextDelta(text="<call_tool>", part="reasoning"))
        return super().reply(request, listen)


@given(hostile, some_calls, st.integers(1, 9))
def test_the_listener_hears_of_every_piece_and_gets_reasoning_unchanged(text, tool_calls, size):
    [message] = render_messages([assistant(text, *tool_calls)], ())
    heard: list[TextDelta] = []
    TextCallModel(model=Thinker(message.text, size)).reply(Request(messages=(user("u"),), tools=(LIST,)), heard.append)
    assert heard[0] == TextDelta(text="<call_tool>", part="reasoning")
    assert len(heard) > len(range(0, len(message.text), size))
    assert "".join(delta.text for delta in heard[1:]).rstrip() == escape_tags(text).rstrip()


def test_text_is_no_tool_call_if_the_request_has_no_tools():
    text = render_call(ToolCall(call_id="", name="a", arguments_json="{}"))
    assert TextCallModel(model=Parrot(text)).reply(Request(messages=(user("summarize"),))).message == assistant(text)


@given(st.lists(st.tuples(texts, some_calls, hostile), min_size=1, max_size=3), hostile)
def test_a_longer_conversation_extends_the_text_of_the_shorter(steps, request):
    messages = [system("s"), user(request)]
    sent = []
    for text, tool_calls, output in steps:
        sent.append(render_messages(messages, (LIST,)))
        messages.append(assistant(text, *tool_calls))
        messages.extend(tool(ToolResult(call_id="", name=call.name, output=output)) for call in tool_calls)
    whole = render_messages(messages, (LIST,))
    assert all(whole[: len(before)] == before for before in sent)


def test_how_little_a_model_reads_as_a_summarizer_is_that_of_the_model():
    assert TextCallModel(model=LocalModel(name="local/smollm2-135m", endpoint=None)).max_input_tokens == 4_000
