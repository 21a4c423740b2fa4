"""CPU time of a request through the gateway in each protocol, compared with litellm's proxy alone, in one run.

An agent takes `STEPS` steps with a history that grows by an answer and an output each. The proxies run at the same time and get
each request in turn, so that other load of the machine meets all. The CPU time is that of the proxy's process and, for the
gateway, of the process that records, without the client and the upstream, which run in other processes.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from harness.gateway.environment import is_installed
from harness.gateway.proxy_hook import GEMINI_MODELS
from tests.bench.figure import Figure

STEPS = 60
SESSIONS = 2
OUTPUT_CHARACTERS = 2_000
NAME, BAR = "gateway: CPU of a request / litellm's proxy without the hook", 2.0
CHECKOUT = Path(__file__).parents[2]
_UPSTREAM = """
import sys
from harness.conversation.messages import assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.models.endpoint.server import serve_endpoint
from harness.protocols import Reply
class Model:
    name, window = "echo", Window(tokens=1_000_000, source="configuration")
    def reply(self, request, listen=None):
        usage = Usage(input_tokens=Measured(1), output_tokens=Measured(1))
        return Reply(message=assistant("Step."), usage=usage, seconds=0.0)
with serve_endpoint(lambda name: Model()) as endpoint:
    print(endpoint.address, flush=True)
    sys.stdin.read()
"""
_RECORDER = """
import sys
from pathlib import Path
from harness.gateway.process import serve_proxy
from harness.gateway.recorder import SessionRecorder, make_arms
settings = {"journal": Path(sys.argv[3]), "window_tokens": 30_000, "summarizer": "scripted/extractive"}
recorder = SessionRecorder(make_arms({"arm": sys.argv[2]}), **settings)
with serve_proxy(sys.argv[1], recorder.answer) as proxy:
    print(proxy.address, proxy.process_id, flush=True)
    sys.stdin.read()
recorder.close()
"""
_PLAIN = """
import sys
from harness.gateway.process import serve_proxy
with serve_proxy(sys.argv[1], lambda question: {}, is_hooked=False) as proxy:
    print(proxy.address, proxy.process_id, flush=True)
    sys.stdin.read()
"""


@contextmanager
def _run(code: str, *arguments: str) -> Iterator[tuple[int, list[str]]]:
    """Run a program that prints one line, and yield the id of its process and the words of the line."""
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().split()
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


class Spoken(NamedTuple):
    """How an agent speaks a protocol: path, and body of a request with a history of texts, each with its role."""

    path: str
    make_body: Callable[[list[tuple[str, str]]], object]
    plain_path: str = ""
    """Path for the proxy without the hook, which would send a request elsewhere; empty if it is the same."""


def _list_messages(texts: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in texts]


def _list_contents(texts: list[tuple[str, str]]) -> list[dict[str, object]]:
    return [{"role": "model" if role == "assistant" else role, "parts": [{"text": text}]} for role, text in texts]


PROTOCOLS = {
    "chat": Spoken("/v1/chat/completions", lambda texts: {"model": "gpt-4o", "messages": _list_messages(texts)}),
    "messages": Spoken("/v1/messages", lambda texts: {"model": "gpt-4o", "max_tokens": 9, "messages": _list_messages(texts)}),
    "responses": Spoken("/v1/responses", lambda texts: {"model": "gpt-4o", "input": _list_messages(texts)}),
    "generateContent": Spoken(
        "/v1beta/models/gpt-4o:generateContent",
        lambda texts: {"contents": _list_contents(texts)},
        f"/v1beta/models/{GEMINI_MODELS}/gpt-4o:generateContent",
    ),
}


def _ask(address: str, path: str, body: object) -> None:
    headers = {"content-type": "application/json", "authorization": "Bearer sk-none"}
    request = urllib.request.Request(address.removesuffix("/v1") + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        answer.read()


def _cpu_seconds(*process_ids: int) -> float:
    return sum(sum(psutil.Process(number).cpu_times()[:2]) for number in process_ids)


def gateway(steps: int = STEPS, sessions: int = SESSIONS) -> Iterator[Figure]:
    if not is_installed():
        yield Figure(name=NAME, value=None, unit="×", bar=BAR, note="the proxy is not installed: harness gateway --install")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _, (base,) = stack.enter_context(_run(_UPSTREAM))
        ends = {}
        for arm in ("plain", "none", "keep-last"):
            arguments = (_PLAIN, base) if arm == "plain" else (_RECORDER, base, arm, str(folder / f"{arm}.sqlite"))
            recorder_id, (address, proxy_id) = stack.enter_context(_run(*arguments))
            ends[arm] = (address, (int(proxy_id), *(() if arm == "plain" else (recorder_id,))))
        for name in PROTOCOLS:  # the first requests import modules
            _drive(ends, name, steps=1, sessions=1)
        used = {name: _drive(ends, name, steps=steps, sessions=sessions) for name in PROTOCOLS}
    count = steps * sessions
    for name, seconds_by_arm in used.items():
        milliseconds = ", ".join(f"{arm} {1_000 * seconds / count:.1f} ms" for arm, seconds in seconds_by_arm.items())
        note = f"{count} requests, histories up to {steps * OUTPUT_CHARACTERS // 1_000}K characters; {milliseconds} a request"
        for arm, words in (("none", "--record-only"), ("keep-last", "--policy keep-last")):
            value = seconds_by_arm[arm] / seconds_by_arm["plain"]
            yield Figure(name=f"{NAME}, {name}, {words}", value=value, unit="×", bar=BAR, note=note)


def _drive(ends: Mapping[str, tuple[str, tuple[int, ...]]], name: str, *, steps: int, sessions: int) -> dict[str, float]:
    """Take an agent's steps in a protocol at each proxy in turn, and return the CPU seconds of each."""
    spoken = PROTOCOLS[name]
    before = {arm: _cpu_seconds(*ids) for arm, (_, ids) in ends.items()}
    for session in range(sessions):
        texts = [("user", f"Fix test {session} of {steps} by {name}.")]
        for step in range(steps):
            for arm, (address, _) in ends.items():
                _ask(address, spoken.plain_path if arm == "plain" and spoken.plain_path else spoken.path, spoken.make_body(texts))
            text = f"output {session} {step} " + os.urandom(OUTPUT_CHARACTERS // 2).hex()
            texts += [("assistant", "Step."), ("user", text)]
    return {arm: _cpu_seconds(*ids) - before[arm] for arm, (_, ids) in ends.items()}
