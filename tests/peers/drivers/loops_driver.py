"""Driver that runs agents of smolagents and mini-swe-agent with the classes of the guide, against a real endpoint.

Each operation returns the requests that the endpoint got, as lists of messages of OpenAI's chat completions.
"""

import json
import re
import runpy
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from smolagents import CodeAgent, LogLevel, ToolCallingAgent, tool

from harness import Compactor
from harness.policies import policy_from_plain
from tests.peers.drivers.serving import serve

GUIDE = Path(__file__).parents[3] / "docs/guide/other-agents.md"
WINDOW_TOKENS = 20_000
PARTS = 12
REQUEST = "Read every part and say what is in them."
Requests = list[list[dict[str, Any]]]


def load_class(file: str) -> Any:
    """Return the class of models that stands in the guide under the name of a file."""
    (text,) = re.findall(rf"<!-- file {file} -->\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(text)
        return runpy.run_path(str(path))["CompactedModel"]


class Endpoint(ThreadingHTTPServer):
    """Endpoint of chat completions on loopback, which gives prepared messages one after another and keeps its requests."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.requests = answers, Requests()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def settings(self) -> dict[str, str]:
        return {"api_base": f"http://127.0.0.1:{self.server_address[1]}/v1", "api_key": "none"}


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = self.server.answers[len(self.server.requests)]
        self.server.requests.append(request["messages"])
        tokens = len(json.dumps(request["messages"])) // 4
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        body = {"id": "c", "object": "chat.completion", "created": 0, "model": "parts", "choices": [choice], "usage": usage}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def make_call(name: str, number: int, **arguments: object) -> dict[str, Any]:
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"content": f"Now part {number}.", "tool_calls": [call]}


@tool
def read(part: int) -> str:
    """Read a part.

    Args:
        part: Number of the part.
    """
    return f"part {part}: " + f"line {part} of the text\n" * 150


def run_smolagents(agent: str, policy: dict[str, Any], journal: str | None = None, runs: int = 1) -> Requests:
    """Run an agent of smolagents, which is called `code` or `tools`."""
    if agent == "code":
        one = [{"content": f"Thought: part {part}.\n<code>\nprint(read({part}))\n</code>"} for part in range(PARTS)]
        one.append({"content": "Thought: all read.\n<code>\nfinal_answer('done')\n</code>"})
    else:
        one = [make_call("read", part, part=part) for part in range(PARTS)]
        one.append(make_call("final_answer", PARTS, answer="done"))
    endpoint = Endpoint(one * runs)
    model = load_class("smolagents_model.py")(
        policy_from_plain(policy), WINDOW_TOKENS, "scripted/extractive", journal, model_id="parts", **endpoint.settings
    )
    kind: Any = {"code": CodeAgent, "tools": ToolCallingAgent}[agent]
    for run in range(runs):
        assert kind(tools=[read], model=model, verbosity_level=LogLevel.OFF).run(f"{REQUEST} Run {run}.") == "done"
    model.conversations.close()
    endpoint.shutdown()
    return endpoint.requests


def run_mini(policy: dict[str, Any], journal: str | None = None) -> Requests:
    """Run mini-swe-agent, which prints parts by commands."""
    commands = [f"yes 'line {part} of the text' | head -n 150" for part in range(PARTS)]
    commands.append("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo done")
    endpoint = Endpoint([make_call("bash", number, command=command) for number, command in enumerate(commands)])
    compactor = Compactor(
        policy_from_plain(policy), window_tokens=WINDOW_TOKENS, summarizer="scripted/extractive", journal=journal, model="parts"
    )
    model = load_class("mini_model.py")(
        compactor, model_name="openai/parts", model_kwargs=endpoint.settings, cost_tracking="ignore_errors"
    )
    agent = DefaultAgent(model, LocalEnvironment(), system_template="Be brief.", instance_template="{{task}}")
    ended = agent.run(REQUEST)
    assert ended["exit_status"] == "Submitted", ended
    assert len(agent.messages) == 2 + 2 * len(commands), "the agent keeps its whole history"
    compactor.close()
    endpoint.shutdown()
    return endpoint.requests


if __name__ == "__main__":
    serve({operation.__name__: operation for operation in (run_smolagents, run_mini)})
