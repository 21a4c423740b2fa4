"""CPU time of a request through the gateway, compared with litellm's proxy alone on the same requests, in one run.

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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from harness.gateway.environment import is_installed
from tests.bench.figure import Figure

STEPS = 60
SESSIONS = 4
OUTPUT_CHARACTERS = 2_000
NAME, BAR = "gateway: CPU of a request / litellm's proxy without the hook", 2.0
CHECKOUT = Path(__file__).parents[2]
_UPSTREAM = """
import sys
from tests.models.openai_stub import Say, Stub
answers = [Say(pieces=("Step.",), streams=False, usage=None)] * int(sys.argv[1])
stub = Stub(*answers)
print(stub.base, flush=True)
import threading
threading.Thread(target=stub.serve_forever, daemon=True).start()
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


def _ask(address: str, messages: list[dict[str, object]]) -> None:
    body = json.dumps({"model": "gpt-4o", "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer sk-none"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/chat/completions", body, headers), timeout=120) as answer:
        answer.read()


def _cpu_seconds(*process_ids: int) -> float:
    return sum(sum(psutil.Process(number).cpu_times()[:2]) for number in process_ids)


def gateway(steps: int = STEPS, sessions: int = SESSIONS) -> Iterator[Figure]:
    if not is_installed():
        yield Figure(name=NAME, value=None, unit="×", bar=BAR, note="the proxy is not installed: harness gateway --install")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        requests = 3 * (steps + 2) * sessions
        _, (base,) = stack.enter_context(_run(_UPSTREAM, str(requests)))
        ends = {}
        for arm in ("plain", "none", "keep-last"):
            arguments = (_PLAIN, base) if arm == "plain" else (_RECORDER, base, arm, str(folder / f"{arm}.sqlite"))
            recorder_id, (address, proxy_id) = stack.enter_context(_run(*arguments))
            ends[arm] = (address, (int(proxy_id), *(() if arm == "plain" else (recorder_id,))))
        for address, _ in ends.values():  # the first requests import modules
            _ask(address, [{"role": "user", "content": "Warm up."}])
        before = {arm: _cpu_seconds(*ids) for arm, (_, ids) in ends.items()}
        for session in range(sessions):
            history: list[dict[str, object]] = [{"role": "user", "content": f"Fix test {session}."}]
            for step in range(steps):
                for address, _ in ends.values():
                    _ask(address, history)
                text = f"output {session} {step} " + os.urandom(OUTPUT_CHARACTERS // 2).hex()
                history += [{"role": "assistant", "content": "Step."}, {"role": "user", "content": text}]
        used = {arm: _cpu_seconds(*ids) - before[arm] for arm, (_, ids) in ends.items()}
    count = steps * sessions
    milliseconds = ", ".join(f"{arm} {1_000 * seconds / count:.1f} ms" for arm, seconds in used.items())
    for arm, words in (("none", "--record-only"), ("keep-last", "--policy keep-last")):
        note = f"{count} requests, histories up to {steps * OUTPUT_CHARACTERS // 1_000}K characters; {milliseconds} a request"
        yield Figure(name=f"{NAME}, {words}", value=used[arm] / used["plain"], unit="×", bar=BAR, note=note)
