"""The server of scripted models on a real socket: answers, refusals, and robustness against invalid requests."""

import http.client
import json
import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI

from harness.conversation.messages import assistant, system, user
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow, UnknownName, UsageError
from harness.models.endpoint.application import MAX_BODY_BYTES
from harness.models.endpoint.faults import OVERFLOW_MESSAGES, Fault, parse_fault
from harness.models.endpoint.server import add_seed, list_model_names, make_model_finder, make_seeded_finder, serve_endpoint
from harness.models.factory import open_model
from harness.models.litellm_model import LitellmModel
from harness.models.retry import Retry
from harness.protocols import Reply, Request
from harness.tasks import make_task
from tests.models.test_openai_format import anything

ASKED = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}


class Echo:
    """A model that repeats the last message."""

    name = "echo"
    window = Window(tokens=100, source="configuration")

    def reply(self, request, listen=None):
        usage = Usage(input_tokens=Measured(3), output_tokens=Measured(1))
        return Reply(message=assistant(request.messages[-1].text or "nothing"), usage=usage, seconds=0.0)


def find(name):
    if name != "echo":
        raise UnknownName("model", name, ["echo"])
    return Echo()


@pytest.fixture(scope="module")
def endpoint():
    with serve_endpoint(find, names=["echo"]) as open_one:
        yield open_one


def asked(endpoint, body, path="/v1/chat/completions", method="POST", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.server_address[1], timeout=300)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, path, body=data if method == "POST" else None, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def sent(endpoint, data):
    """Return the status line of the response to some bytes."""
    with socket.create_connection(("127.0.0.1", endpoint.server_address[1]), timeout=300) as raw:
        raw.sendall(data)
        with raw.makefile("rb") as file:
            return file.readline()


def test_an_answer_at_once_has_message_reason_and_usage(endpoint):
    status, body = asked(endpoint, ASKED)
    answer = json.loads(body)
    assert status == 200
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hello"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (3, 1)


def test_a_stream_ends_with_usage_where_it_was_asked_for(endpoint):
    status, body = asked(endpoint, {**ASKED, "stream": True, "stream_options": {"include_usage": True}})
    lines = [line for line in body.decode().split("\n\n") if line]
    assert status == 200
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2].removeprefix("data: "))["usage"]["prompt_tokens"] == 3
    _, plain = asked(endpoint, {**ASKED, "stream": True})
    assert b"usage" not in plain


def test_the_models_are_listed(endpoint):
    status, body = asked(endpoint, b"", "/v1/models", "GET")
    assert status == 200
    assert [one["id"] for one in json.loads(body)["data"]] == ["echo"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{no json", 400, "not valid JSON"),
        (b"\xff\xfe", 400, "not valid JSON"),
        (b"[" * 100_000, 400, "not valid JSON"),
        (b'{"model": ' + b"9" * 10_000 + b"}", 400, "not valid JSON"),
        (b"[]", 400, "JSON object"),
        ({**ASKED, "model": 5}, 400, "model: must be a name"),
        ({**ASKED, "model": "ehco"}, 404, "did you mean 'echo'"),
        ({**ASKED, "messages": "hello"}, 400, "messages: must be a list"),
        ({**ASKED, "messages": []}, 400, "messages: must be a list"),
        ({**ASKED, "messages": ["hello"]}, 400, "messages.0: must be an object"),
        ({**ASKED, "messages": [{"role": "king", "content": ""}]}, 400, "messages.0.role"),
        ({**ASKED, "messages": [{"role": "user", "content": 5}]}, 400, "messages.0.content"),
        ({**ASKED, "messages": [{"role": "assistant", "tool_calls": "x"}]}, 400, "messages.0.tool_calls"),
        ({**ASKED, "tools": {"a": 1}}, 400, "tools: must be a list"),
        ({**ASKED, "tools": [{"type": "function"}]}, 400, "tools.0.function.name"),
        ({**ASKED, "max_tokens": -1}, 400, "max_tokens"),
        ({**ASKED, "max_completion_tokens": True}, 400, "max_completion_tokens"),
        ({**ASKED, "stream": "yes"}, 400, "stream: must be"),
        ({**ASKED, "n": 2}, 400, "one answer"),
    ],
)
def test_a_wrong_request_is_refused_with_the_place(endpoint, body, status, message):
    got, answer = asked(endpoint, body)
    assert got == status
    assert message in json.loads(answer)["error"]["message"]


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.one_of(
        st.binary(max_size=200),
        anything.map(lambda value: json.dumps(value).encode()),
        st.fixed_dictionaries(
            {"model": st.just("echo"), "messages": st.lists(anything, max_size=2)},
            optional={"tools": anything, "stream": anything, "max_tokens": anything, "stream_options": anything, "n": anything},
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_whatever_is_posted_gets_an_answer_or_a_refusal(endpoint, body):
    status, _ = asked(endpoint, body)
    assert status == 200 or 400 <= status < 500
    assert asked(endpoint, ASKED)[0] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n", b"411"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), b"413"),
        (b"DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
        (b"GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"POST /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", b"400"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"400"),
    ],
)
def test_malformed_http_is_refused_too(endpoint, data, status, capfd):
    line = sent(endpoint, data)
    assert status in line
    assert asked(endpoint, ASKED)[0] == 200
    assert capfd.readouterr().err == ""


def test_half_a_body_counts_as_no_request(endpoint):
    before = len(endpoint.served)
    with socket.create_connection(("127.0.0.1", endpoint.server_address[1]), timeout=300) as raw:
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{}")
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(65536) == b""
    assert len(endpoint.served) == before


def test_a_key_is_asked_for_where_one_is_set():
    with serve_endpoint(find, key="sk-this-one") as endpoint:
        assert asked(endpoint, ASKED)[0] == 401
        assert asked(endpoint, ASKED, Authorization="Bearer sk-this-two")[0] == 401
        assert asked(endpoint, ASKED, Authorization="Bearer sk-this-one")[0] == 200


def test_injected_faults_come_when_due_and_are_listed(capfd):
    faults = [parse_fault(written) for written in ("429:7@1", "500@2", "529@3", "overflow:anthropic@4", "reset@5")]
    with serve_endpoint(find, faults=faults) as endpoint:
        statuses = [asked(endpoint, ASKED)[0] for _ in range(4)]
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            asked(endpoint, {**ASKED, "stream": True})
        assert asked(endpoint, ASKED)[0] == 200
        served = endpoint.served
    assert statuses == [429, 500, 529, 400]
    assert [one.number for one in served] == [1, 2, 3, 4, 5, 6]
    assert [one.fault and one.fault.kind for one in served] == ["429", "500", "529", "overflow", "reset", None]
    assert capfd.readouterr().err == ""


def test_an_answer_that_stalls_ends_with_the_endpoint():
    with serve_endpoint(find, faults=[Fault(kind="stall")]) as endpoint:
        raw = socket.create_connection(("127.0.0.1", endpoint.server_address[1]), timeout=300)
        body = json.dumps({**ASKED, "stream": True}).encode()
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        head = raw.recv(65536)
        assert b"200" in head
    with raw:
        while raw.recv(65536):
            pass


def test_a_port_that_is_taken_is_refused_with_advice(endpoint):
    with pytest.raises(UsageError, match="cannot be used"), serve_endpoint(find, port=endpoint.server_address[1]):
        pass


TASK = make_task("flashcards", 0)
BUG = make_task("bug-hunt", 0)
START = Request(messages=(system("s"), user(TASK.prompt)))


def over_the_wire(endpoint, name="scripted/flashcards:attentive", *, timeout_seconds=60.0, **fields):
    waits: list[float] = []
    retry = Retry(sleep=waits.append, draw=lambda: 0.0)
    model = LitellmModel(
        name=f"hosted_vllm/{name}", api_base=endpoint.address, retry=retry, timeout_seconds=timeout_seconds, **fields
    )
    return model, waits


@pytest.mark.parametrize("name", ["scripted/flashcards:attentive", "scripted/flashcards:overlooks-0.3", "scripted/flashcards"])
def test_a_model_answers_over_http_as_in_process(name):
    here = open_model(name, task=TASK, seed=7, window_tokens=None).reply(START)
    with serve_endpoint(make_model_finder([TASK], seed=7)) as endpoint:
        there = over_the_wire(endpoint, name)[0].reply(START)
    assert (there.message, there.usage, there.cut_short) == (here.message, here.usage, here.cut_short)


def test_a_model_answers_a_client_of_anthropic_as_in_process():
    here = open_model("scripted", task=TASK, seed=7, window_tokens=None).reply(START)
    with serve_endpoint(make_model_finder([TASK], seed=7)) as endpoint:
        base = endpoint.address.removesuffix("/v1")
        model = LitellmModel(name="anthropic/scripted/flashcards:attentive", api_base=base, api_key="sk-any")
        there = model.reply(START)
    assert here.message.calls
    assert (there.message.text, there.message.calls) == (here.message.text, here.message.calls)
    assert there.usage == here.usage


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_answers_a_client_of_gemini_as_in_process(streams):
    here = open_model("scripted", task=TASK, seed=7, window_tokens=None).reply(START)
    contents = [{"role": "user", "parts": [{"text": message.text}]} for message in START.messages if message.role == "user"]
    system = {"parts": [{"text": message.text} for message in START.messages if message.role == "system"]}
    method = "streamGenerateContent" if streams else "generateContent"
    with serve_endpoint(make_model_finder([TASK], seed=7)) as endpoint:
        path = f"/v1beta/models/scripted/flashcards:attentive:{method}"
        status, answer = asked(endpoint, {"contents": contents, "systemInstruction": system}, path)
    assert status == 200
    events = (
        [json.loads(line[5:]) for line in answer.splitlines() if line.startswith(b"data:")] if streams else [json.loads(answer)]
    )
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    assert [(call["id"], call["name"]) for call in calls] == [(call.call_id, call.name) for call in here.message.calls] != []
    assert [call["args"] for call in calls] == [json.loads(call.arguments_json) for call in here.message.calls]
    assert "".join(part.get("text", "") for part in parts) == here.message.text
    usage = events[-1]["usageMetadata"]
    assert (usage["promptTokenCount"], usage["totalTokenCount"]) == (
        here.usage.prompt_tokens,
        here.usage.prompt_tokens + here.usage.output_tokens,
    )
    assert [part for part in parts if "thoughtSignature" in part] == [part for part in parts if "functionCall" in part][:1]


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_answers_a_client_of_the_responses_api_as_in_process(streams):
    here = open_model("scripted", task=TASK, seed=7, window_tokens=None).reply(START)
    items = [{"role": message.role, "content": message.text} for message in START.messages]
    with serve_endpoint(make_model_finder([TASK], seed=7)) as endpoint, OpenAI(base_url=endpoint.address, api_key="k") as client:
        asked_for: Any = {"model": "scripted/flashcards:attentive", "input": items}
        if streams:
            with client.responses.stream(**asked_for) as stream:
                there = stream.get_final_response()
        else:
            there = client.responses.create(**asked_for)
    calls = [(item.call_id, item.name, item.arguments) for item in there.output if item.type == "function_call"]
    assert calls == [(call.call_id, call.name, call.arguments_json) for call in here.message.calls] != []
    assert there.output_text == here.message.text
    assert there.usage is not None
    assert (there.usage.input_tokens, there.usage.output_tokens) == (here.usage.prompt_tokens, here.usage.output_tokens)


CALL_ID, OUTPUT = "call-1", "four lines"
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Count."},
    {"role": "assistant", "content": "I look.",
     "tool_calls": [{"id": CALL_ID, "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": CALL_ID, "content": OUTPUT},
]  # fmt: skip
GEMINI_PATH = "/v1beta/models/echo:streamGenerateContent"
CALL_ITEM = {"type": "function_call", "call_id": CALL_ID, "name": "look", "arguments": "{}"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": CHAT, "tools": [{"type": "function", "function": {"name": "look"}}]},
    "/v1/responses": {
        "instructions": "Be brief.",
        "input": [*CHAT[1:2], {"role": "assistant", "content": "I look."}, CALL_ITEM,
                  {"type": "function_call_output", "call_id": CALL_ID, "output": OUTPUT}],
        "tools": [{"type": "function", "name": "look", "parameters": {}}, {"type": "web_search"}],
    },
    "/v1beta/models/echo:generateContent": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Count."}]},
            {"role": "model", "parts": [
                {"text": "I look."}, {"functionCall": {"id": CALL_ID, "name": "look", "args": {}}, "thoughtSignature": "?"}
            ]},
            {"role": "user", "parts": [{"functionResponse": {"id": CALL_ID, "name": "look", "response": {"output": OUTPUT}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "look", "parameters": {}}]}, {"googleSearch": {}}],
    },
    "/v1/messages": {
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            CHAT[1],
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."}, {"type": "tool_use", "id": CALL_ID, "name": "look", "input": {}}
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": CALL_ID, "content": OUTPUT}]},
        ],
        "tools": [{"name": "look", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}],
    },
}  # fmt: skip


def test_one_conversation_is_the_same_request_in_each_protocol():
    seen = []

    class Watching(Echo):
        def reply(self, request, listen=None):
            seen.append(request)
            return super().reply(request, listen)

    with serve_endpoint(lambda name: Watching()) as endpoint:
        for path, body in BODIES.items():
            assert asked(endpoint, {"model": "echo", **body}, path)[0] == 200
    assert seen[0].messages[-1].results[0].name == "look"
    assert seen == [seen[0]] * len(BODIES)


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("/v1/responses", {"input": 5}, "input: must be a text or a list"),
        ("/v1/responses", {"input": [5]}, "input.0: must be an object"),
        ("/v1/responses", {"input": "x", "previous_response_id": "resp_1"}, "previous_response_id: the server keeps no answers"),
        ("/v1/responses", {"input": "x", "instructions": 5}, "instructions: must be a text"),
        ("/v1/messages", {"messages": ["x"]}, "messages.0: must be an object"),
        ("/v1/messages", {"messages": [{"role": "system", "content": "x"}]}, "pass the system prompt as `system=`"),
        ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "system": 5}, "system: must be a text or a list"),
        (GEMINI_PATH, {"contents": "x"}, "contents: must be a list of at least one content"),
        (GEMINI_PATH, {"contents": [5]}, "contents.0: must be an object"),
        (GEMINI_PATH, {"contents": [{"role": "system", "parts": []}]}, "pass the system prompt as `systemInstruction`"),
        (GEMINI_PATH, {"contents": [{"parts": 5}]}, "the parts must be a list"),
        (GEMINI_PATH, {"contents": [{"parts": []}], "generationConfig": {"maxOutputTokens": 0}}, "maxOutputTokens: must be"),
    ],
)  # fmt: skip
def test_a_wrong_request_of_another_protocol_is_refused_in_its_own_form(endpoint, path, fields, message):
    status, answer = asked(endpoint, {"model": "echo", **fields}, path)
    assert status == 400
    assert message in json.loads(answer)["error"]["message"]
    assert ("type" in json.loads(answer)) == (path == "/v1/messages")
    assert (json.loads(answer)["error"].get("status") == "INVALID_ARGUMENT") == (path == GEMINI_PATH)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "field"), [("/v1/responses", "input"), ("/v1/messages", "messages"), (GEMINI_PATH, "contents")])
@settings(max_examples=40)
@given(data=st.data())
def test_whatever_is_posted_to_another_protocol_gets_an_answer_or_a_refusal(endpoint, path, field, data):
    fields = {"model": st.just("echo"), field: st.one_of(anything, st.lists(anything, min_size=1, max_size=2))}
    optional = {"tools": anything, "system": anything, "instructions": anything, "stream": anything}
    status, _ = asked(endpoint, data.draw(st.fixed_dictionaries(fields, optional=optional)), path)
    assert status == 200 or 400 <= status < 500


def test_every_listed_model_can_be_opened():
    for tasks in ([TASK], [TASK, BUG]):
        find = make_model_finder(tasks, window_tokens=500)
        assert [find(name).name for name in list_model_names(tasks)] == list(list_model_names(tasks))
        assert find("scripted/flashcards").window.tokens == 500


@pytest.mark.parametrize("name", ["gpt-4o", "scripted", "scripted/flashcard", "scripted/bug-hunt", "scripted/flashcards:asleep"])
def test_other_names_are_unknown(name):
    with pytest.raises(UnknownName):
        make_model_finder([TASK])(name)


def test_a_name_with_a_seed_is_the_model_of_that_seed():
    tasks = {seed: [make_task("flashcards", seed)] for seed in (3, 4)}
    find = make_seeded_finder({seed: make_model_finder(instances, seed=seed) for seed, instances in tasks.items()})
    for seed, (task,) in tasks.items():
        request = Request(messages=(system("s"), user(task.prompt)))
        own = open_model("scripted/flashcards:attentive", task=task, seed=seed, window_tokens=None).reply(request)
        assert find(add_seed("scripted/flashcards:attentive", seed)).reply(request).message == own.message
    assert find("scripted/extractive").name == "scripted/extractive"
    with pytest.raises(UsageError, match="the seed must be one of 3, 4; see --seed"):
        find("scripted/flashcards@5:attentive")
    with pytest.raises(UnknownName):
        find("scripted/bug-hunt@3")


def test_the_oracle_is_refused_if_several_tasks_are_served():
    assert "scripted/oracle" not in list_model_names([TASK, BUG])
    with pytest.raises(UsageError, match="serve a single task"):
        make_model_finder([TASK, BUG])("scripted/oracle")


def test_a_prompt_beyond_the_window_is_refused_as_openai_refuses_it():
    with serve_endpoint(make_model_finder([TASK], window_tokens=50)) as endpoint:
        model, waits = over_the_wire(endpoint, window_tokens=50)
        with pytest.raises(ContextOverflow) as caught:
            model.reply(START)
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 50
    assert waits == []


@pytest.mark.slow
@pytest.mark.parametrize("wording", sorted(OVERFLOW_MESSAGES))
def test_an_overflow_is_recognised_in_the_wording_of_every_provider(wording):
    with serve_endpoint(make_model_finder([TASK]), faults=[parse_fault(f"overflow:{wording}@1")]) as endpoint:
        model, waits = over_the_wire(endpoint)
        with pytest.raises(ContextOverflow):
            model.reply(START)
        assert model.reply(START).message.calls
    assert waits == []


@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        ("429@1", [2.0]),
        ("429:7@1", [7.0]),
        ("500@1-2", [2.0, 4.0]),
        ("529@1-3", [2.0, 4.0, 8.0]),
        ("reset@1", [2.0]),
        ("stall@1", [2.0]),
    ],
)
def test_a_fault_of_the_provider_is_waited_out_and_the_answer_is_the_same(fault, waited):
    here = open_model("scripted", task=TASK, seed=0, window_tokens=None).reply(START)
    with serve_endpoint(make_model_finder([TASK]), faults=[parse_fault(fault)]) as endpoint:
        model, waits = over_the_wire(endpoint, timeout_seconds=3.0 if "stall" in fault else 60.0)
        assert model.reply(START).message == here.message
    assert waits == waited
