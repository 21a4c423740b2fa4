"""The gateway as a whole: the command, litellm's proxy in its own environment, and a server as the upstream."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.inspection.loading import load
from harness.store.journal import Journal
from tests.models.openai_stub import Refuse, Say, Stub, serving
from tests.peers.environments import BENCHMARKED, CHECKOUT

pytestmark = pytest.mark.peers

KEY = "sk-of-the-agent"
OVERFLOW = "This model's maximum context length is 4000 tokens. However, your messages resulted in 5000 tokens."
MINE = "def shorten(messages, budget):\n    return [messages[0], messages[1], *messages[-2:]]\n"
DUE = "\n\ndef broken(messages, budget):\n    raise KeyError('broken on purpose')\n"


class Served(NamedTuple):
    """Answer of the gateway to a request."""

    status: int
    body: str

    @property
    def message(self) -> Any:
        return json.loads(self.body)["choices"][0]["message"]

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


def post(base: str, messages: Any, path: str = "/chat/completions", **fields: Any) -> Served:
    body = json.dumps({"model": "gpt-4o", "messages": messages, **fields}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers), timeout=120) as answer:
            return Served(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Served(error.code, error.read().decode())


@contextmanager
def running(folder: Path, *options: str, end: signal.Signals = signal.SIGINT, code: int = 0) -> Iterator[str]:
    """Run `harness gateway` in a folder, yield the address that it prints, and end it by a signal."""
    command = [str(Path(sys.executable).with_name("harness")), "gateway", "--port", "0", "--journal", "gateway.sqlite", *options]
    variables = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OPENAI_API_KEY": "sk-of-the-gateways-user"}
    with (folder / "errors.txt").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("OPENAI_BASE_URL="), (folder / "errors.txt").read_text()
        yield line.strip().partition("=")[2]
    finally:
        process.send_signal(end)
        process.stdout.close()
        assert process.wait(60) == code, (folder / "errors.txt").read_text()


def begin(task: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "You are a coding agent."}, {"role": "user", "content": task}]


def test_a_policy_of_ones_own_acts_and_every_failure_reaches_the_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE + DUE)
    answers: list[Say | Refuse] = [
        *(Say(pieces=(f"Step {number}.",), calls=((f"call-{number}", "bash", "{}"),)) for number in range(6)),
        Refuse(status=400, error={"message": OVERFLOW, "code": "context_length_exceeded"}),
        Refuse(status=429, error={"message": "slow down"}),
        Refuse(status=401, error={"message": f"Incorrect API key provided: {KEY}"}),
        Say(pieces=("Done.",), streams=False),
    ]
    with (
        serving(*answers) as upstream,
        running(tmp_path, "--upstream", upstream.base, "--policy", "mine.py:shorten", "--window", "13000") as base,
    ):
        history = drive(base, upstream)
        lengths = [len(request["messages"]) for request in upstream.asked]
        assert lengths[0] == 2
        assert max(lengths) < len(history)  # the policy acted on what goes upstream, and the agent kept its history
        assert {headers["authorization"] for headers in upstream.headers_seen} == {f"Bearer {KEY}"}
        statuses = [post(base, history).status for _ in range(3)]
        assert statuses == [400, 429, 401]
        done = post(base, history)
        assert done.message["content"] == "Done."
        assert json.loads(done.body)["usage"]["prompt_tokens"] == 11
        assert len(upstream.asked) == 10  # nothing was tried twice
        assert "messages[2]: is the result of call 'x'" in post(base, [*history[:2], make_result("x")]).error
        assert "no known shape" in post(base, [{"who": "me"}]).error
        upstream.answers[:0] = [Refuse(status=404, error={"message": "Not Found"})] * 2
        lacking = post(base, None, "/responses", input=begin("Hello."))
        assert lacking.status == 404, lacking.body
        assert f"the upstream '{upstream.base}' answered a request to /v1/responses with status 404" in lacking.body
        assert "let the agent use another protocol" in lacking.body
        unknown = post(base, begin("An unknown model."))
        assert unknown.status == 404
        assert "harness gateway" not in unknown.body
        assert "is not served; use POST" in post(base, history, path="/embeddings").error
        assert len(upstream.asked) == 12
        upstream.answers.append(Say(pieces=("never",)))
        upstream.shutdown()
        upstream.server_close()
        down = post(base, begin("Another task."))
        assert down.status == 502
        for path, fields in ((None, {}), ("/messages", {"max_tokens": 9}), ("/responses", {"input": begin("Hello.")})):
            down = post(base, begin("Another task.")[1:], path or "/chat/completions", **fields)
            assert down.status == 502, down.body
            assert f"the upstream '{upstream.base}' cannot be reached" in down.body
            assert "check that it runs, and --upstream" in down.body
        root, content = base.removesuffix("/v1"), [{"role": "user", "parts": [{"text": "Hello."}]}]
        down = post(root, None, "/v1beta/models/gemini-3-pro:generateContent", contents=content)
        assert down.status == 502, down.body
        assert f"the upstream '{upstream.base}' cannot be reached" in down.body
    printed = (tmp_path / "errors.txt").read_text()
    assert "a request failed upstream with status 429: " in printed
    assert (
        f"a request failed upstream with status 502: harness gateway: the upstream '{upstream.base}' cannot be reached" in printed
    )
    trials = load(tmp_path / "gateway.sqlite").trials
    answered, *refused = trials[["status", "steps"]].values.tolist()
    assert answered == ["completed", 7]
    assert refused
    assert all(row == ["failed", 0] for row in refused)
    assert trials["compactions"][0] >= 1
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()


def drive(base: str, upstream: Stub) -> list[dict[str, Any]]:
    """Take six streamed steps as an agent does, and return its history."""
    history = begin("Fix the test.")
    for number in range(6):
        answer = post(base, history, stream=True, stream_options={"include_usage": True})
        assert answer.status == 200, answer.body
        chunks = [json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith("data: {")]
        assert chunks[-1]["usage"]["prompt_tokens"] == 11
        call = {"id": f"call-{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
        assert text == f"Step {number}."
        history += [{"role": "assistant", "content": text, "tool_calls": [call]}, make_result(f"call-{number}")]
    assert len(upstream.asked) == 6
    return history


def make_result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "line of output\n" * 400}


def test_two_agents_share_one_gateway_whose_proxy_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE + DUE)
    answers = [Say(pieces=(f"Answer {number}.",), streams=False) for number in range(6)]
    options = ("--policy", "mine.py:broken", "--window", "13000")
    killed: dict[str, Any] = {"end": signal.SIGKILL, "code": -signal.SIGKILL}
    with serving(*answers) as upstream, running(tmp_path, "--upstream", upstream.base, *options, **killed) as base:
        histories = [begin("First."), begin("Second.")]
        for _ in range(2):
            for history in histories:
                history += [post(base, history).message, {"role": "user", "content": "Go on."}]
        assert [[raw["content"] for raw in request["messages"][-2:]] for request in upstream.asked[2:]] == [
            ["Answer 0.", "Go on."],
            ["Answer 1.", "Go on."],
        ]
        long = [*histories[0], {"role": "assistant", "content": "x"}, {"role": "user", "content": "word " * 8_000}]
        refused = post(base, long)
        assert refused.status == 500
        assert "policy 'mine.py:broken'" in refused.error
        assert "KeyError: 'broken on purpose'" in refused.error
        assert len(upstream.asked) == 4
    with Journal.open(tmp_path / "gateway.sqlite", read_only=True) as journal:
        assert len(journal.list_session_ids()) == 2
    limit = time.monotonic() + 120
    while is_served(base):  # a proxy without its gateway would answer requests that nobody records
        assert time.monotonic() < limit
        time.sleep(0.2)


def is_served(base: str) -> bool:
    host, port = base.removeprefix("http://").removesuffix("/v1").split(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


def test_mini_swe_agent_works_through_the_gateway(tmp_path: Path) -> None:
    environment = BENCHMARKED["bench_mini_swe_agent"]
    if not environment.is_installed:
        pytest.skip("`make bench-peers` creates its environment")
    (tmp_path / "mine.py").write_text(MINE)
    commands = [*(f"seq {number}000 {number}999" for number in range(1, 7)), "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]
    answers = [
        Say(
            pieces=("Next.",), calls=((f"call-{number}", "bash", json.dumps({"command": text})),), streams=False,
            usage={"prompt_tokens": 1_000 + 1_300 * number, "completion_tokens": 20},
        )
        for number, text in enumerate(commands)
    ]  # fmt: skip
    options = ("--policy", "mine.py:shorten", "--window", "17000")
    with serving(*answers) as upstream, running(tmp_path, "--upstream", upstream.base, *options) as base:
        command = [str(environment.path / "bin" / "mini"), "-m", "openai/gpt-4o", "-t", "Count.", "-y", "--exit-immediately"]
        variables = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENAI_BASE_URL": base, "OPENAI_API_KEY": KEY,
            "MSWEA_CONFIGURED": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }  # fmt: skip
        ran = subprocess.run(
            [*command, "-o", "trajectory.json"], cwd=tmp_path, env=variables, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        lengths = [len(request["messages"]) for request in upstream.asked]
    trajectory = json.loads((tmp_path / "trajectory.json").read_text())
    assert len(trajectory["messages"]) > max(lengths)  # the agent keeps what the policy takes out of the requests
    trials = load(tmp_path / "gateway.sqlite").trials
    assert trials[["status", "steps"]].values.tolist() == [["completed", len(commands)]]
    assert trials["compactions"][0] >= 1
