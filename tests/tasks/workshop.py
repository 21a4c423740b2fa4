"""A script carried out with known values, without a model and without a sandbox: what an agent that forgets nothing leaves."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template

from harness.experiment.attempt.grading import command_line, laid, verdicts
from harness.task import CallTemplate, Task

ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C.UTF-8",
}


def lay(task: Task, root: Path) -> Path:
    """The workspace as the agent finds it."""
    for path, text in task.workspace:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def shell(root: Path, command: str) -> tuple[int, str]:
    """Exit status and output of a command in the workspace."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        check=False,
        cwd=root,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def act(root: Path, call: CallTemplate, values: Mapping[str, str]) -> None:
    """What a call does to the workspace; looking does nothing to it."""
    given = {name: Template(text).substitute(values) for name, text in call.arguments}
    if call.tool == "execute_command":
        shell(root, given["command"])
    elif call.tool == "write_file":
        path = root / given["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given["content"], encoding="utf-8")


def carried_out(task: Task, root: Path, values: Mapping[str, str], steps: Iterable[str]) -> Path:
    """The workspace after these steps of the script, in the order of the script; what mends a step is done before it."""
    lay(task, root)
    wanted = set(steps)
    for step in task.script.steps:
        if step.name in wanted:
            for call in (*(call for repair in step.repairs for call in repair.calls), *step.calls):
                act(root, call, values)
    return root


def grade(task: Task, root: Path) -> set[str]:
    """Names of the checks that a workspace fails."""
    for path, text in laid(task.grader, "nonce"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    status, output = shell(root, command_line(task.grader))
    assert status == 0, output
    said = verdicts(output.encode(), "nonce")
    assert set(said) == {check.name for check in task.checks}
    return {name for name, verdict in said.items() if not verdict.passed}
