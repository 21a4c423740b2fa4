"""One conversation through the gateway in each protocol that agents speak: the record and what goes upstream are the same."""

import http.server
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.conversation.events import Compaction, MessageAdded, ModelCallFailed, SessionEnded, StepFinished
from harness.conversation.messages import ToolCall, assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow
from harness.models.endpoint.server import serve_endpoint
from harness.protocols import Reply, Request
from harness.store.journal import Journal
from tests.peers.test_gateway import KEY, MINE, running

pytestmark = pytest.mark.peers

SYSTEM, TASK, OUTPUT = "You are a coding agent.", "Fix the test.", "line of output\n" * 400
STEPS, OVERFLOWING = 6, 8


class Upstream:
    """Model that calls a tool in each of the first steps, and refuses one request as too long."""

    name = "upstream"
    window = Window(tokens=4_000, source="configuration")

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def reply(self, request: Request, listen: Any = None) -> Reply:
        self.requests.append(request)
        number = len(self.requests)
        if number == OVERFLOWING:
            raise ContextOverflow(self.name, 5_000, 4_000)
        calls = (ToolCall(call_id=f"call-{number}", name="bash", arguments_json='{"command": "ls"}'),) if number <= STEPS else ()
        usage = Usage(input_tokens=Measured(1_000 + number), output_tokens=Measured(7))
        return Reply(message=assistant(f"Step {number}.", *calls), usage=usage, seconds=0.0)


class Answer(NamedTuple):
    """Answer of the gateway: status, the messages that an agent appends, and the ids of the calls."""

    status: int
    messages: list[Any]
    call_ids: list[str]
    error: str = ""


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "x-api-key": KEY, "x-goog-api-key": KEY}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def list_events(text: str) -> list[Any]:
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and "[DONE]" not in line]


def ask_chat(base: str, history: list[Any], stream: bool) -> Answer:
    body = {"model": "gpt-4o", "messages": [{"role": "system", "content": SYSTEM}, *history], "stream": stream}
    body |= {"stream_options": {"include_usage": True}} if stream else {}
    status, text = post(f"{base}/chat/completions", body)
    if status != 200:
        return Answer(status, [], [], text)
    if not stream:
        message = json.loads(text)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
    else:
        deltas = [choice["delta"] for event in list_events(text) for choice in event["choices"]]
        message = {"content": "".join(delta.get("content") or "" for delta in deltas)}
        pieces = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        arguments = "".join(piece["function"].get("arguments") or "" for piece in pieces)
        calls = [{**pieces[0], "function": {"name": "bash", "arguments": arguments}}] if pieces else []
    kept = [{"id": call["id"], "type": "function", "function": call["function"]} for call in calls]
    shown = {"role": "assistant", "content": message["content"]} | ({"tool_calls": kept} if kept else {})
    return Answer(200, [shown], [call["id"] for call in kept])


def ask_messages(base: str, history: list[Any], stream: bool) -> Answer:
    body = {"model": "gpt-4o", "system": SYSTEM, "messages": history, "max_tokens": 100, "stream": stream}
    status, text = post(f"{base}/messages", body)
    if status != 200:
        return Answer(status, [], [], text)
    if not stream:
        blocks = json.loads(text)["content"]
    else:
        events, blocks = list_events(text), list[Any]()
        blocks = [dict(event["content_block"]) for event in events if event["type"] == "content_block_start"]
        for event in events:
            if event["type"] == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                if "text" in delta:
                    block["text"] += delta["text"]
                else:
                    block["json"] = block.get("json", "") + delta["partial_json"]
        blocks = [{**block, "input": json.loads(block.pop("json"))} if "json" in block else block for block in blocks]
    return Answer(200, [{"role": "assistant", "content": blocks}], [block["id"] for block in blocks if "id" in block])


def ask_responses(base: str, history: list[Any], stream: bool) -> Answer:
    body = {"model": "gpt-4o", "instructions": SYSTEM, "input": history, "stream": stream}
    status, text = post(f"{base}/responses", body)
    if status != 200:
        return Answer(status, [], [], text)
    items = (list_events(text)[-1]["response"] if stream else json.loads(text))["output"]
    return Answer(200, items, [item["call_id"] for item in items if item["type"] == "function_call"])


def ask_contents(base: str, history: list[Any], stream: bool) -> Answer:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    body = {"contents": history, "systemInstruction": {"parts": [{"text": SYSTEM}]}, "generationConfig": {"temperature": 0}}
    status, text = post(f"{base.removesuffix('/v1')}/v1beta/models/gpt-4o:{method}", body)
    if status != 200:
        return Answer(status, [], [], text)
    contents = [event["candidates"][0]["content"] for event in (list_events(text) if stream else [json.loads(text)])]
    calls = [part["functionCall"] for content in contents for part in content["parts"] if "functionCall" in part]
    return Answer(200, contents, [call["id"] for call in calls])


def make_chat_result(call_id: str) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": OUTPUT}


def make_block_result(call_id: str) -> Any:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": OUTPUT, "cache_control": {"type": "ephemeral"}}
    return {"role": "user", "content": [block]}


def make_item_result(call_id: str) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": OUTPUT}


def make_function_response(call_id: str) -> Any:
    return {"role": "user", "parts": [{"functionResponse": {"id": call_id, "name": "bash", "response": {"output": OUTPUT}}}]}


def make_text(text: str) -> Any:
    return {"role": "user", "content": text}


def make_content(text: str) -> Any:
    return {"role": "user", "parts": [{"text": text}]}


class Spoken(NamedTuple):
    """How an agent speaks a protocol."""

    ask: Callable[[str, list[Any], bool], Answer]
    make_result: Callable[[str], Any]
    place: str
    """Place of the second message in errors."""
    make_user: Callable[[str], Any] = make_text


SPOKEN = {
    "chat": Spoken(ask_chat, make_chat_result, "messages[2]"),
    "messages": Spoken(ask_messages, make_block_result, "messages[1]"),
    "responses": Spoken(ask_responses, make_item_result, "input[1]"),
    "contents": Spoken(ask_contents, make_function_response, "contents[1]", make_content),
}


def drive(folder: Path, spoken: Spoken, *, stream: bool) -> tuple[list[Request], list[Any]]:
    """Take an agent's steps, with an overflow and a compaction of its own; return what upstream saw and the record."""
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    upstream = Upstream()
    options = ("--policy", "mine.py:shorten", "--window", "13000")
    with (
        serve_endpoint(lambda _: upstream, key=KEY) as endpoint,
        running(folder, "--upstream", endpoint.address, *options) as base,
    ):
        history: list[Any] = [spoken.make_user(TASK)]
        for _ in range(STEPS):
            answer = spoken.ask(base, history, stream)
            assert answer.status == 200, answer.error
            assert len(answer.call_ids) == 1, answer
            history += [*answer.messages, spoken.make_result(answer.call_ids[0])]
        for expected in (200, 400, 200):
            answer = spoken.ask(base, history, stream)
            assert answer.status == expected, answer.error
            assert ("context" in answer.error) == (expected == 400)
            if expected == 200:
                history += [*answer.messages, spoken.make_user("Go on. " + "word " * 500)]
        own = [history[0], spoken.make_user("Summary: nothing is left.")]
        assert spoken.ask(base, own, stream).status == 200
        refused = spoken.ask(base, [history[0], spoken.make_result("x")], stream)
        assert refused.status == 422
        assert f"{spoken.place}: is the result of call 'x'" in refused.error
        assert len(upstream.requests) == len(endpoint.served)
    for file in folder.iterdir():
        assert KEY.encode() not in file.read_bytes()
    return upstream.requests, read_record(folder / "gateway.sqlite")


def read_record(path: Path) -> list[Any]:
    rows = list[Any]()
    with Journal.open(path, read_only=True) as journal:
        (session_id,) = journal.list_session_ids()
        for entry in journal.read_entries(session_id):
            match entry.event:
                case MessageAdded(message=message, step=step):
                    rows.append((message, step))
                case Compaction() as event:
                    rows.append((event.status, event.reason, event.patch, event.tokens_before, event.tokens_after))
                case StepFinished() as event:
                    rows.append((event.step, event.usage, event.view_tokens, event.calls))
                case ModelCallFailed():
                    rows.append("overflow")
                case SessionEnded(status=status, reason=reason):
                    rows.append((status, reason))
                case _:
                    pass
    return rows


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_record_and_the_requests_are_the_same_in_each_protocol(tmp_path: Path, stream: bool) -> None:
    driven = {name: drive(tmp_path / name, spoken, stream=stream) for name, spoken in SPOKEN.items()}
    requests, record = driven["chat"]
    assert "overflow" in record
    assert any("own compaction" in str(row) for row in record)
    refused, after = requests[OVERFLOWING - 1 : OVERFLOWING + 1]
    assert len(after.messages) < len(refused.messages)  # the policy acted after the overflow
    for name in ("messages", "responses", "contents"):
        assert [request.messages for request in driven[name][0]] == [request.messages for request in requests], name
        assert driven[name][1] == record, name


def test_a_response_whose_history_the_provider_stores_is_refused_with_the_field(tmp_path: Path) -> None:
    upstream = Upstream()
    with (
        serve_endpoint(lambda _: upstream) as endpoint,
        running(tmp_path, "--upstream", endpoint.address, "--record-only") as base,
    ):
        for fields, words in (
            ({"previous_response_id": "resp_1"}, "previous_response_id: names messages that the provider stores"),
            ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]: an item_reference names an item"),
            ({"input": [{"who": "me"}]}, "input[0]"),
        ):
            status, text = post(f"{base}/responses", {"model": "gpt-4o", "input": "Hello.", **fields})
            assert status == 422, text
            assert words in text
        assert not upstream.requests
        status, text = post(f"{base}/responses", {"model": "gpt-4o", "input": "Hello."})
        assert status == 200, text
        assert upstream.requests[0].messages[-1].text == "Hello."


def test_a_signature_of_gemini_goes_back_upstream_and_other_upstreams_are_refused(tmp_path: Path) -> None:
    bodies: list[tuple[str, Any, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            bodies.append((self.path, body, self.headers["x-goog-api-key"]))
            part = {"functionCall": {"name": "bash", "args": {}}, "thoughtSignature": f"signature {len(bodies)}"}
            usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4}
            answer = {"candidates": [{"content": {"role": "model", "parts": [part]}}], "usageMetadata": usage}
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        with running(tmp_path, "--upstream", address, "--record-only", "--window", "9000") as base:
            history: list[Any] = [make_content(TASK)]
            for _ in range(2):
                url = f"{base.removesuffix('/v1')}/v1beta/models/gemini-3-pro:generateContent?key={KEY}"
                status, text = post(url, {"contents": history, "tools": [{"functionDeclarations": [{"name": "bash"}]}]})
                assert status == 200, text
                response = {"functionResponse": {"name": "bash", "response": {"output": "x"}}}
                history += [json.loads(text)["candidates"][0]["content"], {"role": "user", "parts": [response]}]
        server.shutdown()
    assert [path.partition("?")[0] for path, _, _ in bodies] == ["/v1beta/models/gemini-3-pro:generateContent"] * 2
    assert [key for _, _, key in bodies] == [KEY] * 2
    assert bodies[1][1]["contents"] == history[:3]
    assert history[1]["parts"][0]["thoughtSignature"] == "signature 1"
    steps = [row for row in read_record(tmp_path / "gateway.sqlite") if len(row) == 4]
    usage = steps[0][1]
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (6, 4, 5)
    with running(tmp_path, "--upstream", "anthropic/claude-sonnet-4-5", "--record-only") as base:
        url = f"{base.removesuffix('/v1')}/v1beta/models/gemini-3-pro:generateContent"
        status, text = post(url, {"contents": [make_content(TASK)]})
    assert status == 422, text
    assert "'anthropic/claude-sonnet-4-5', and a request to generateContent goes to a model of Gemini only" in text
