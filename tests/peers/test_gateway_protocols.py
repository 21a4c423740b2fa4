"""One conversation through the gateway in each protocol that agents speak: the record and what goes upstream are the same."""

import http.server
import itertools
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.conversation.events import Compaction, MessageAdded, ModelCallFailed, SessionEnded, StepFinished
from harness.conversation.messages import Message, ToolCall, assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow
from harness.integrations.usage import read_usage
from harness.models.endpoint.faults import parse_fault
from harness.models.endpoint.server import serve_endpoint
from harness.protocols import Reply, Request
from harness.store.journal import Journal
from tests.peers.test_gateway import KEY, MINE, running

pytestmark = pytest.mark.peers

SYSTEM, TASK, OUTPUT = "You are a coding agent.", "Fix the test.", "line of output\n" * 400
STEPS, OVERFLOWING = 6, 8
MODEL = "claude-sonnet-4-5"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
USAGE = Usage(
    input_tokens=Measured(1_000), output_tokens=Measured(7), cache_read_tokens=Measured(300), cache_write_tokens=Measured(20)
)


class Upstream:
    """Model that calls a tool in each of the first steps, and refuses one request as too long."""

    name = "upstream"
    window = Window(tokens=4_000, source="configuration")

    def __init__(self, usage: Usage | None = None) -> None:
        self.requests: list[Request] = []
        self.usage = usage

    def reply(self, request: Request, listen: Any = None) -> Reply:
        self.requests.append(request)
        number = len(self.requests)
        if number == OVERFLOWING:
            raise ContextOverflow(self.name, 5_000, 4_000)
        calls = (ToolCall(call_id=f"call-{number}", name="bash", arguments_json='{"command": "ls"}'),) if number <= STEPS else ()
        usage = Usage(input_tokens=Measured(1_000 + number), output_tokens=Measured(7))
        return Reply(message=assistant(f"Step {number}.", *calls), usage=self.usage or usage, seconds=0.0)


class Answer(NamedTuple):
    """Answer of the gateway: status, the messages that an agent appends, and the ids of the calls."""

    status: int
    messages: list[Any]
    call_ids: list[str]
    error: str = ""
    usage: Any = None


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
    body = {"model": MODEL, "messages": [make_chat_system(), *history], "stream": stream}
    body |= {"tools": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]}
    body |= {"stream_options": {"include_usage": True}} if stream else {}
    status, text = post(f"{base}/chat/completions", body)
    if status != 200:
        return Answer(status, [], [], text)
    if not stream:
        answered = json.loads(text)
        message = answered["choices"][0]["message"]
        calls = message.get("tool_calls") or []
    else:
        events = list_events(text)
        deltas, answered = [choice["delta"] for event in events for choice in event["choices"]], events[-1]
        message = {"content": "".join(delta.get("content") or "" for delta in deltas)}
        pieces = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        arguments = "".join(piece["function"].get("arguments") or "" for piece in pieces)
        calls = [{**pieces[0], "function": {"name": "bash", "arguments": arguments}}] if pieces else []
    kept = [{"id": call["id"], "type": "function", "function": call["function"]} for call in calls]
    shown = {"role": "assistant", "content": message["content"]} | ({"tool_calls": kept} if kept else {})
    return Answer(200, [shown], [call["id"] for call in kept], usage=answered["usage"])


def ask_messages(base: str, history: list[Any], stream: bool) -> Answer:
    body = {"model": MODEL, "system": [make_marked(SYSTEM)], "messages": history, "max_tokens": 100, "stream": stream}
    body |= {"tools": [{"name": "bash", "input_schema": SCHEMA}]}
    status, text = post(f"{base}/messages", body)
    if status != 200:
        return Answer(status, [], [], text)
    if not stream:
        answered = json.loads(text)
        blocks, usage = answered["content"], answered["usage"]
    else:
        events = list_events(text)
        starts = [event["message"] for event in events if event["type"] == "message_start"]
        usage = starts[0]["usage"] | next(event["usage"] for event in events if event["type"] == "message_delta")
        blocks = [dict(event["content_block"]) for event in events if event["type"] == "content_block_start"]
        for event in events:
            if event["type"] == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                if "text" in delta:
                    block["text"] += delta["text"]
                else:
                    block["json"] = block.get("json", "") + delta["partial_json"]
        blocks = [{**block, "input": json.loads(block.pop("json"))} if "json" in block else block for block in blocks]
    call_ids = [block["id"] for block in blocks if "id" in block]
    return Answer(200, [{"role": "assistant", "content": blocks}], call_ids, usage=usage)


def ask_responses(base: str, history: list[Any], stream: bool) -> Answer:
    body = {"model": MODEL, "instructions": SYSTEM, "input": history, "stream": stream}
    body |= {"tools": [{"type": "function", "name": "bash", "parameters": SCHEMA}]}
    status, text = post(f"{base}/responses", body)
    if status != 200:
        return Answer(status, [], [], text)
    answered = list_events(text)[-1]["response"] if stream else json.loads(text)
    items = answered["output"]
    return Answer(200, items, [item["call_id"] for item in items if item["type"] == "function_call"], usage=answered["usage"])


def ask_contents(base: str, history: list[Any], stream: bool) -> Answer:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    body = {"contents": history, "systemInstruction": {"parts": [{"text": SYSTEM}]}, "generationConfig": {"temperature": 0}}
    body |= {"tools": [{"functionDeclarations": [{"name": "bash", "parameters": SCHEMA}]}]}
    status, text = post(f"{base.removesuffix('/v1')}/v1beta/models/{MODEL}:{method}", body)
    if status != 200:
        return Answer(status, [], [], text)
    contents = [event["candidates"][0]["content"] for event in (list_events(text) if stream else [json.loads(text)])]
    calls = [part["functionCall"] for content in contents for part in content["parts"] if "functionCall" in part]
    return Answer(200, contents, [call["id"] for call in calls])


def make_marked(text: str) -> Any:
    return {"type": "text", "text": text, **CACHE_MARK}


def make_chat_system() -> Any:
    return {"role": "system", "content": [make_marked(SYSTEM)]}


def make_chat_result(call_id: str) -> Any:
    return {"role": "tool", "tool_call_id": call_id, "content": [make_marked(OUTPUT)]}


def make_block_result(call_id: str) -> Any:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": OUTPUT, **CACHE_MARK}
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


class Driven(NamedTuple):
    """Session of an agent behind the gateway."""

    requests: list[Request]
    """Requests as the upstream read them."""
    record: list[Any]
    bodies: list[tuple[str, Any]]
    """Path and JSON body of each request that went upstream."""
    usages: list[Any]
    """Usage that the agent was shown with each answer."""


def send(handler: http.server.BaseHTTPRequestHandler, status: int, content_type: str, data: bytes) -> None:
    """Send a whole answer."""
    handler.send_response(status)
    handler.send_header("content-type", content_type)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def tap(address: str) -> Iterator[tuple[str, list[tuple[str, Any, Any]]]]:
    """Forward requests to a server on loopback; yield the address to use, and path, headers and JSON body of each request."""
    requests: list[tuple[str, Any, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            requests.append((self.path, self.headers, json.loads(data)))
            names = ("content-type", "authorization", "x-api-key", "x-goog-api-key")
            headers = {name: self.headers[name] for name in names if name in self.headers}
            try:
                with urllib.request.urlopen(urllib.request.Request(address + self.path, data, headers), timeout=120) as answer:
                    send(self, answer.status, answer.headers["content-type"], answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    send(self, error.code, error.headers["content-type"], error.read())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def drive(folder: Path, spoken: Spoken, *, stream: bool | None, provider: str = "") -> Driven:
    """Take an agent's steps, with an overflow and a compaction of its own.

    Args:
        folder: New folder.
        spoken: Protocol of the agent.
        stream: Whether answers are streamed; None streams every second one.
        provider: Provider whose API alone the upstream has; empty is an upstream with the APIs of several.
    """
    streams = itertools.cycle((False, True) if stream is None else (stream,))
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    upstream, usages = Upstream(USAGE if provider else None), list[Any]()
    options = ("--policy", "mine.py:shorten", "--window", "13000")
    with (
        serve_endpoint(lambda _: upstream, key=KEY) as endpoint,
        tap(endpoint.address.removesuffix("/v1")) as (address, tapped),
        running(folder, *name_upstream(provider, address), *options) as base,
    ):
        history: list[Any] = [spoken.make_user(TASK)]
        for _ in range(STEPS):
            answer = spoken.ask(base, history, next(streams))
            assert answer.status == 200, answer.error
            assert len(answer.call_ids) == 1, answer
            usages.append(answer.usage)
            history += [*answer.messages, spoken.make_result(answer.call_ids[0])]
        for expected in (200, 400, 200):
            answer = spoken.ask(base, history, next(streams))
            assert answer.status == expected, answer.error
            assert ("context" in answer.error or "prompt is too long" in answer.error) == (expected == 400)
            if expected == 200:
                history += [*answer.messages, spoken.make_user("Go on. " + "word " * 500)]
        own = [history[0], spoken.make_user("Summary: nothing is left.")]
        assert spoken.ask(base, own, next(streams)).status == 200
        refused = spoken.ask(base, [history[0], spoken.make_result("x")], next(streams))
        assert refused.status == 422
        assert f"{spoken.place}: is the result of call 'x'" in refused.error
        assert len(upstream.requests) == len(endpoint.served)
    for file in folder.iterdir():
        assert KEY.encode() not in file.read_bytes()
    return Driven(upstream.requests, read_record(folder / "gateway.sqlite"), [(path, body) for path, _, body in tapped], usages)


def name_upstream(provider: str, address: str) -> tuple[str, ...]:
    return ("--upstream", f"{provider}/*", "--api-base", address) if provider else ("--upstream", f"{address}/v1")


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
    check_alike(driven)


def check_alike(driven: Mapping[str, Driven]) -> None:
    """Check that the record and the requests are the same in each protocol, and that the policy acted after the overflow."""
    requests, record = driven["chat"][:2]
    assert "overflow" in record
    assert any("own compaction" in str(row) for row in record)
    refused, after = requests[OVERFLOWING - 1 : OVERFLOWING + 1]
    assert len(after.messages) < len(refused.messages)
    for name, one in driven.items():
        assert list(map(join_users, one.requests)) == list(map(join_users, requests)), name
        assert one.record == record, name


def join_users(request: Request) -> list[Message]:
    """Return the messages of a request, in which messages of the user that follow each other are one, as Anthropic reads them."""
    messages = list[Message]()
    for message in request.messages:
        if messages and message.role == messages[-1].role == "user":
            messages[-1] = replace(messages[-1], parts=(*messages[-1].parts, *message.parts))
        else:
            messages.append(message)
    return messages


def test_a_server_with_the_api_of_anthropic_alone_is_an_upstream_of_three_protocols(tmp_path: Path) -> None:
    protocols = {name: spoken for name, spoken in SPOKEN.items() if name != "contents"}
    driven = {name: drive(tmp_path / name, spoken, stream=None, provider="anthropic") for name, spoken in protocols.items()}
    check_alike(driven)
    for one in driven.values():
        assert {path for path, _ in one.bodies} == {"/v1/messages"}
        assert {body["model"] for _, body in one.bodies} == {MODEL}
        assert {row[1] for row in one.record if len(row) == 4} == {USAGE}
    for name, usages in ((name, one.usages) for name, one in driven.items()):
        assert len(usages) == STEPS
        for usage in usages:
            assert read_usage(usage) == USAGE, name
    for name in ("chat", "messages"):  # the API of responses has no such marks
        (*_, block) = driven[name].bodies[2][1]["messages"][-1]["content"]
        assert block["type"] == "tool_result"
        assert CACHE_MARK.items() <= block.items() or CACHE_MARK.items() <= block["content"][0].items(), block
        assert CACHE_MARK.items() <= driven[name].bodies[2][1]["system"][0].items()


def test_errors_of_anthropic_reach_the_agent_in_each_protocol(tmp_path: Path) -> None:
    """A wrong key, a rate limit, an overload, and a server that ended."""
    upstream, protocols = Upstream(), [SPOKEN[name] for name in ("chat", "messages", "responses")]
    faults = tuple(parse_fault(text) for text in ("429@1-3", "529@4-6"))
    history = [make_text(TASK)]
    with ExitStack() as serving:
        endpoint = serving.enter_context(serve_endpoint(lambda _: upstream, faults=faults, key=KEY))
        address = endpoint.address.removesuffix("/v1")
        options = (*name_upstream("anthropic", address), "--record-only", "--window", "9000")
        with running(tmp_path, *options) as base:

            def refuse(status: int, words: str, *, stream: bool = False) -> None:
                for spoken in protocols:
                    refused = spoken.ask(base, history, stream)
                    assert refused.status == status, refused
                    assert words in refused.error, refused

            refuse(429, "Rate limit reached for requests")
            refuse(500, "Overloaded")  # litellm's status for the 529 of Anthropic
            endpoint.key = f"{KEY}-of-another"
            refuse(401, "Incorrect API key provided", stream=True)
            assert len(endpoint.served) == 6  # nothing was tried twice
            serving.close()
            refuse(502, f"the upstream 'anthropic/* at {address}' cannot be reached")
    assert not upstream.requests


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
            status, text = post(f"{base}/responses", {"model": MODEL, "input": "Hello.", **fields})
            assert status == 422, text
            assert words in text
        assert not upstream.requests
        status, text = post(f"{base}/responses", {"model": MODEL, "input": "Hello."})
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
            send(self, 200, "application/json", json.dumps(answer).encode())

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
