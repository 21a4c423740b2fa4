"""Two policies drawn at random by the gateway, in front of a scripted model: the report finds what was planted."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.random_arms import compare_random_arms
from harness.inspection.loading import load
from harness.models.endpoint.server import make_model_finder, make_seeded_finder, serve_endpoint
from harness.tasks import make_task
from tests.cli.command import within
from tests.peers.environments import CHECKOUT, ENVIRONMENTS
from tests.peers.test_dialects import write_workspace
from tests.peers.test_gateway import running

pytestmark = [pytest.mark.peers, pytest.mark.slow]

TASK, SESSIONS, STEPS = "log-forensics", 14, 14
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
ARMS = (
    "--arm",
    "none",
    "--arm",
    "keep-last,threshold=0.2,keep_last=4",
    "--summarizer",
    "scripted/extractive",
    "--window",
    "40000",
)


def work(base: str, folder: Path, session: int, prompt: str) -> None:
    """Work as an agent with a shell does, for at most some steps."""
    history: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for _ in range(STEPS):
        body = json.dumps({"model": f"scripted/{TASK}:attentive", "messages": history, "tools": TOOLS}).encode()
        headers = {"content-type": "application/json", "authorization": "Bearer none", "x-session-id": f"session-{session}"}
        with urllib.request.urlopen(urllib.request.Request(f"{base}/chat/completions", body, headers), timeout=300) as answer:
            message = json.loads(answer.read())["choices"][0]["message"]
        calls = [{"id": call["id"], "type": "function", "function": call["function"]} for call in message.get("tool_calls") or ()]
        history.append({"role": "assistant", "content": message["content"]} | ({"tool_calls": calls} if calls else {}))
        if not calls:
            return
        for call in calls:
            command = json.loads(call["function"]["arguments"])["command"]
            ran = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
            observed = json.dumps({"returncode": ran.returncode, "output": (ran.stdout + ran.stderr)[:10_000]})
            history.append({"role": "tool", "tool_call_id": call["id"], "content": observed})


def test_a_planted_effect_is_found_behind_a_scripted_model(tmp_path: Path) -> None:
    task = make_task(TASK, 0)
    with (
        serve_endpoint(make_model_finder([task], window_tokens=1_000_000)) as endpoint,
        running(tmp_path, "--upstream", endpoint.address, *ARMS) as base,
    ):
        for session in range(SESSIONS):
            folder = tmp_path / f"workspace-{session}"
            write_workspace(task, folder)
            work(base, folder, session, task.prompt)
    trials = load(tmp_path / "gateway.sqlite").trials
    assert len(trials) == SESSIONS
    rows = {row.metric: row for row in compare_random_arms(trials)}
    assert {row.baseline for row in rows.values()} == {"none"}
    assert rows["compactions"].is_claimed
    assert rows["compactions"].baseline_mean == 0
    assert rows["prompt_tokens"].is_claimed
    assert rows["prompt_tokens"].mean < rows["prompt_tokens"].baseline_mean
    assert rows["steps"].p == 1.0


def test_the_two_policies_of_the_guide_are_compared(tmp_path: Path) -> None:
    environment = ENVIRONMENTS["agents"]
    if not environment.is_installed:
        pytest.skip("`make peers` creates its environment")
    guide = (CHECKOUT / "docs/guide/gateway.md").read_text()
    (script,) = re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)
    command = next(
        line for line in guide.splitlines() if line.startswith("$ harness gateway --upstream http://127.0.0.1:8765/v1")
    )
    options = shlex.split(command)[3:]
    (tmp_path / "mini/bin").mkdir(parents=True)
    (tmp_path / "mini/bin/mini").symlink_to(environment.path / "bin/mini")
    finders = {1: make_model_finder([make_task(TASK, 1)], seed=1)}
    with (
        serve_endpoint(make_seeded_finder(finders)) as endpoint,
        running(tmp_path, *[endpoint.address if option.startswith("http") else option for option in options]) as base,
    ):
        for printed, used in (("seed in 0 1 2;", "seed in 1;"), ("http://127.0.0.1:8788/v1", base)):
            assert printed in script
            script = script.replace(printed, used)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    assert ran.stdout.count("checks passed\n") == 2, ran.stderr
    assert "FAIL  " in ran.stdout
    assert "ok    " not in ran.stdout
    assert not (tmp_path / ".config/mini-swe-agent").exists()
    trials = load(tmp_path / "gateway.sqlite").trials
    assert trials[["status", "reason"]].values.tolist() == [["completed", "declared"]] * 2
    by_policy = trials.set_index("policy")
    assert by_policy["marked_success"].to_dict() == {"none": True, "keep-last": False}
    assert by_policy["compactions"].gt(0).to_dict() == {"none": False, "keep-last": True}
    assert by_policy["marked_score"]["none"] == 1.0 > by_policy["marked_score"]["keep-last"] > 0
    shown = within("report", tmp_path / "gateway.sqlite")
    assert "keep-last,threshold=0.5 against none" in shown.output
