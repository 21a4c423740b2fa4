"""Scripted tasks that real agents solve: the scripted model works through the tools of each agent, and hidden checks decide."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.sandboxes.backends import open_sandbox
from harness.session.grading import GradedCheck, grade_workspace
from harness.task import Task
from harness.tasks import make_task
from tests.peers.node_agents import PACKAGES, WINDOW_TOKENS, explain_absence, prepare
from tests.peers.original import Original

pytestmark = [pytest.mark.peers, pytest.mark.slow]

TASK = "log-forensics"
TIMEOUT_SECONDS = 500.0
AGENTS = {"langchain": "run_langchain", "mini-swe-agent": "run_mini", "openhands": "run_openhands"}


@pytest.fixture(scope="module")
def agents() -> Iterator[Original]:
    original = Original("agents")
    yield original
    original.close()


def grade(task: Task, folder: Path) -> tuple[GradedCheck, ...]:
    """Grade a folder by the hidden checks of a task, in a sandbox with a copy of the files."""
    with open_sandbox(session_id="dialects") as sandbox:
        for path in folder.rglob("*"):
            if path.is_file():
                sandbox.write(str(path.relative_to(folder)), path.read_bytes())
        return grade_workspace(task, sandbox)


def write_workspace(task: Task, folder: Path) -> None:
    for path, text in task.workspace:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_real_agent_solves_a_scripted_task(agents: Original, agent: str, tmp_path: Path) -> None:
    task = make_task(TASK, 0)
    write_workspace(task, tmp_path)
    before = sum(check.passed for check in grade(task, tmp_path))
    with serve_endpoint(make_model_finder([task])) as endpoint:
        model = f"scripted/{TASK}:attentive"
        final_text = agents.ask(AGENTS[agent], folder=str(tmp_path), address=endpoint.address, model=model, prompt=task.prompt)
        statuses = {answer.status for answer in endpoint.served}
        assert len(endpoint.served) < task.step_limit
    assert statuses == {200}
    assert final_text.strip()
    checks = grade(task, tmp_path)
    assert [check for check in checks if not check.passed] == []
    assert before < len(checks)


@pytest.mark.parametrize("agent", PACKAGES)
def test_an_agent_for_node_solves_a_scripted_task(agent: str, tmp_path: Path) -> None:
    if (reason := explain_absence(agent)) is not None:
        pytest.skip(reason)
    task, folder, home = make_task(TASK, 0), tmp_path / "workspace", tmp_path / "home"
    for path in (folder, home):
        path.mkdir()
    write_workspace(task, folder)
    with serve_endpoint(make_model_finder([task], window_tokens=WINDOW_TOKENS)) as endpoint:
        run = prepare(agent, home, endpoint.address, f"scripted/{TASK}:attentive", task.prompt)
        ran = subprocess.run(
            run.command, cwd=folder, env=run.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        statuses = {answer.status for answer in endpoint.served}
        assert len(endpoint.served) < task.step_limit
    assert ran.returncode == 0, ran.stderr
    assert statuses == {200}
    assert ran.stdout.strip()
    assert [check for check in grade(task, folder) if not check.passed] == []
