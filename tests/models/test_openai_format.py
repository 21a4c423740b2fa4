import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.messages import (
    CompactionMarker,
    File,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool,
    user,
)
from harness.conversation.tokens import Measured, Usage
from harness.errors import UsageError
from harness.models.openai_format import (
    INVALID_ARGUMENTS_KEY,
    StreamedReply,
    decode_messages,
    decode_tools,
    decode_usage,
    encode_messages,
    encode_tools,
    encode_usage,
    make_call_namer,
)
from harness.protocols import ToolSpec

texts = st.text(max_size=40)
some_text = st.text(min_size=1, max_size=40)
json_objects = st.dictionaries(texts, st.one_of(texts, st.integers(), st.none(), st.booleans()), max_size=3).map(json.dumps)
calls = st.builds(ToolCall, call_id=some_text, name=some_text, arguments_json=json_objects)
results = st.builds(ToolResult, call_id=some_text, name=some_text, output=texts)
plain_messages = st.builds(
    lambda role, text: Message(role=role, parts=(Text(text=text),)),
    st.sampled_from(["system", "user", "assistant"]),
    texts,
)
calling = st.builds(lambda text, calls: assistant(text, *calls), texts, st.lists(calls, min_size=1, max_size=3))
messages = (
    st.lists(st.one_of(plain_messages, calling, results.map(tool)), max_size=6)
    .map(lambda conversation: [one for one in conversation if one != assistant()])
    .map(tuple)
)
roles = st.sampled_from(["system", "user", "assistant", "tool"])
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                texts, st.sampled_from(["role", "content", "tool_calls", "function", "delta", "index", "choices", "usage"])
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)

wires = st.fixed_dictionaries({}, optional={"content": anything, "tool_calls": anything, "tool_call_id": anything})


counts = st.integers(min_value=0, max_value=10**9).map(Measured)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    reasoning_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
)
specs = st.builds(ToolSpec, name=some_text, description=texts, parameters_json=json_objects)


@given(usages)
def test_a_usage_report_survives_the_way_to_the_wire_and_back(usage):
    assert decode_usage(json.loads(json.dumps(encode_usage(usage)))) == usage


@given(st.lists(specs, max_size=3).map(tuple))
def test_tools_survive_the_way_to_the_wire_and_back(tools):
    assert decode_tools(json.loads(json.dumps(encode_tools(tools)))) == tools


@given(st.lists(anything, max_size=2))
def test_malformed_tools_are_refused_with_their_path_and_all_others_are_read(plain):
    named = [isinstance(one, dict) and isinstance(one.get("function"), dict) and one["function"].get("name") for one in plain]
    if all(isinstance(name, str) and name for name in named):
        assert [tool.name for tool in decode_tools(plain)] == named
    else:
        with pytest.raises(UsageError, match=r"^tools\.\d+\.function"):
            decode_tools(plain)


@given(messages)
def test_messages_survive_the_way_to_the_wire_and_back(conversation):
    assert decode_messages(json.loads(json.dumps(encode_messages(conversation)))) == conversation


@given(st.lists(st.one_of(anything, st.builds(lambda rest, role: {**rest, "role": role}, wires, roles)), max_size=3))
def test_hostile_requests_are_read_or_refused_with_the_place(plain):
    known = ("system", "developer", "user", "assistant", "tool")
    if all(isinstance(one, dict) and one.get("role") in known for one in plain):
        assert len(decode_messages(plain)) == len(plain)
    else:
        with pytest.raises(UsageError, match=r"messages\.\d+\.role"):
            decode_messages(plain)


@given(st.dictionaries(st.sampled_from(["choices", "usage"]), anything))
def test_hostile_chunks_never_break_the_reading(chunk):
    answer = StreamedReply()
    answer.add(chunk)
    assert answer.build_message(make_call_namer(())).role == "assistant"


@given(texts, st.lists(calls, max_size=3), st.lists(st.integers(1, 5), min_size=1))
def test_an_answer_is_the_same_however_its_stream_is_cut(text, tool_calls, widths):
    answer = StreamedReply()
    deltas_by_chunk = [answer.add(chunk) for chunk in _chunks(text, tool_calls, widths)]
    assert all(deltas_by_chunk), "something is told of every chunk"
    assert "".join(delta.text for deltas in deltas_by_chunk for delta in deltas) == text
    expected = [(call.name, call.arguments_json) for call in tool_calls]
    message = answer.build_message(make_call_namer(()))
    assert message.text == text
    assert [(call.name, call.arguments_json) for call in message.calls] == expected
    assert len({call.call_id for call in message.calls}) == len(tool_calls)


def _chunks(text, tool_calls, widths):
    def pieces(whole):
        at, turn = 0, 0
        while at < len(whole):
            width = widths[turn % len(widths)]
            yield whole[at : at + width]
            at, turn = at + width, turn + 1

    for piece in pieces(text):
        yield {"choices": [{"delta": {"content": piece}}]}
    for index, call in enumerate(tool_calls):
        head = {"index": index, "id": call.call_id, "function": {"name": call.name, "arguments": ""}}
        yield {"choices": [{"delta": {"tool_calls": [head]}}]}
        for piece in pieces(call.arguments_json):
            yield {"choices": [{"delta": {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}}]}


def _call_chunk(index, call_id, name, arguments):
    piece = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return {"choices": [{"delta": {"tool_calls": [piece]}}]}


def test_calls_that_a_server_streams_under_one_index_stay_apart():
    answer = StreamedReply()
    for piece in (
        (0, "a", "read_file", '{"path":'),
        (0, None, None, ' "x"}'),
        (0, "b", "read_file", '{"path":'),
        (0, "", "", ' "y"}'),
        (1, "c", "list_files", "{"),
        (1, "c", "list_files", "}"),
        (1, "random", None, " "),
    ):
        answer.add(_call_chunk(*piece))
    assert answer.build_message(lambda call_id: call_id).calls == (
        ToolCall(call_id="a", name="read_file", arguments_json='{"path": "x"}'),
        ToolCall(call_id="b", name="read_file", arguments_json='{"path": "y"}'),
        ToolCall(call_id="c", name="list_files", arguments_json="{} "),
    )


def test_calls_without_ids_under_one_index_are_distinguished_by_name():
    answer = StreamedReply()
    for piece in (
        (0, None, "read_file", '{"path":'),
        (0, None, None, ' "x"}'),
        (0, None, "read_file", '{"path": "y"}'),
        (0, "", "list_files", ""),
        (0, "late", None, "{}"),
        (0, None, "list_files", " "),
    ):
        answer.add(_call_chunk(*piece))
    assert [(call.call_id, call.name, call.arguments_json) for call in answer.build_message(lambda call_id: call_id).calls] == [
        ("", "read_file", '{"path": "x"}'),
        ("", "read_file", '{"path": "y"}'),
        ("late", "list_files", "{} "),
    ]


def test_every_part_that_a_user_sends_is_readable_on_the_wire():
    message = Message(
        role="user",
        parts=(Text(text="look"), File(path="a.py", content="x = 1"), CompactionMarker(text="[cut]", round=1)),
    )
    assert encode_messages([message]) == [{"role": "user", "content": "look\na.py\nx = 1\n[cut]"}]


def test_reasoning_stays_at_home():
    message = Message(role="assistant", parts=(Reasoning(text="secret thought"), Text(text="done")))
    assert encode_messages([message]) == [{"role": "assistant", "content": "done"}]


def test_arguments_that_are_no_object_are_sent_as_one_that_shows_them():
    call = ToolCall(call_id="1", name="write_file", arguments_json='{"path": "a')
    [plain] = encode_messages([assistant("", call)])
    assert json.loads(plain["tool_calls"][0]["function"]["arguments"]) == {INVALID_ARGUMENTS_KEY: '{"path": "a'}


def test_a_tool_is_described_with_its_schema():
    spec = ToolSpec(name="read_file", description="Read.", parameters_json='{"type": "object"}')
    function = {"name": "read_file", "description": "Read.", "parameters": {"type": "object"}}
    assert encode_tools([spec]) == [{"type": "function", "function": function}]


def test_a_result_without_a_name_takes_that_of_its_call():
    call = {"id": "c1", "type": "function", "function": {"name": "list_directory", "arguments": "{}"}}
    read = decode_messages(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a.py"}]},
        ]
    )
    assert read[1].results[0].name == "list_directory"
    assert read[1].results[0].output == "a.py"


def test_an_unknown_role_is_refused_by_its_place():
    with pytest.raises(UsageError, match=r"messages\.1\.role.*'wizard'"):
        decode_messages([{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}])


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 5}, (100, 5, 0, 0, 0)),
        ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}, (40, 5, 0, 60, 0)),
        ({"prompt_tokens": 100, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, (10, 0, 0, 60, 30)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 4}}, (9, 5, 4, 0, 0)),
        ({"prompt_tokens": -3, "completion_tokens": "many"}, (0, 0, 0, 0, 0)),
        (None, (0, 0, 0, 0, 0)),
    ],
)
def test_usage_counts_each_token_of_the_prompt_once(plain, expected):
    usage = decode_usage(plain)
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, read, written) == expected


@given(st.lists(st.sampled_from(["", "a", "a-1", "b"]), max_size=8))
def test_call_ids_never_repeat_in_a_conversation(given_ids):
    name_call = make_call_namer([user("hi"), assistant("", ToolCall(call_id="a", name="t", arguments_json="{}"))])
    ids = [name_call(given_id) for given_id in given_ids]
    assert len({"a", *ids}) == 1 + len(ids)
    assert "" not in ids


def test_an_answer_that_was_stopped_while_the_model_thought_is_not_sent():
    assert encode_messages([user("ask"), assistant(reasoning="hm"), user("Go on.")]) == encode_messages(
        [user("ask"), user("Go on.")]
    )


def test_cleared_marked_and_interrupted_results_are_sent_in_the_words_of_the_view():
    """S3.8. An answer that failed is no complete message: the text received so far is kept, or nothing."""
    call = ToolCall(call_id="c", name="read_file", arguments_json='{"path": "a"}')
    cleared = ToolResult(call_id="c", name="read_file", output="[Old tool result content cleared]")
    stopped = ToolResult(call_id="c", name="read_file", output="error: the call was interrupted", status="interrupted")
    marker = Message(role="user", parts=(CompactionMarker(text="What did we do so far?", round=2),))
    thought = Message(role="assistant", parts=(Reasoning(text="hidden"), Text(text="partial answ")))
    sent = encode_messages([marker, assistant("", call), tool(cleared), assistant("", call), tool(stopped), thought])
    assert [one["content"] for one in sent] == [
        "What did we do so far?",
        None,
        "[Old tool result content cleared]",
        None,
        "error: the call was interrupted",
        "partial answ",
    ]
    assert sent[0]["role"] == "user"
    assert not any("hidden" in str(one) or "round" in one for one in sent), "no provider's metadata goes to another"


DRAWN = Image(text="(image a.svg shows: Bay 7)", tokens=9, drawing='<svg width="9" height="9"></svg>')
UNKNOWN = Image(text="(image b.png)", tokens=9)


def encode_look(*images: Image, sends_images: bool):
    call = ToolCall(call_id="c1", name="view_image", arguments_json='{"path": "a.svg"}')
    shown = tool(ToolResult(call_id="c1", name="view_image", output="a.svg, 9 x 9 pixels"), *images)
    return encode_messages((user("look"), assistant("", call), shown, assistant("seen")), sends_images=sends_images)


def test_a_model_that_cannot_see_reads_the_text_of_an_image_in_the_result():
    messages = encode_look(DRAWN, UNKNOWN, sends_images=False)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2]["content"] == "a.svg, 9 x 9 pixels\n(image a.svg shows: Bay 7)\n(image b.png)"


def test_a_model_that_can_see_gets_pixels_behind_the_results_and_never_the_text_of_the_drawing():
    messages = encode_look(DRAWN, UNKNOWN, sends_images=True)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user", "assistant"]
    assert messages[2]["content"] == "a.svg, 9 x 9 pixels\n(image b.png)"
    label, image = messages[3]["content"]
    assert label == {"type": "text", "text": "Image shown by the call c1:"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert "Bay 7" not in json.dumps(messages)


@pytest.mark.parametrize("sends_images", [True, False])
def test_a_message_of_the_user_carries_its_image(sends_images):
    [message] = encode_messages((Message(role="user", parts=(Text(text="what is it?"), DRAWN)),), sends_images=sends_images)
    if sends_images:
        assert [block["type"] for block in message["content"]] == ["text", "image_url"]
        assert message["content"][0]["text"] == "what is it?"
    else:
        assert message["content"] == "what is it?\n(image a.svg shows: Bay 7)"


def test_results_of_one_step_stay_together_before_their_images():
    shown = [tool(ToolResult(call_id=name, name="view_image", output=name), DRAWN) for name in ("c1", "c2")]
    calls = [ToolCall(call_id=name, name="view_image", arguments_json="{}") for name in ("c1", "c2")]
    messages = encode_messages((assistant("", *calls), *shown), sends_images=True)
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert len(messages[-1]["content"]) == 4
