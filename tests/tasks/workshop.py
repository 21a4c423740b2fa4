"""Execution of scripts with known values, without a model and without a sandbox, as by an agent that forgets nothing."""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from harness.session.grading import format_grader_command, list_grader_files, parse_verdicts
from harness.task import CallTemplate, Step, Task

ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/local/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "BUN_RUNTIME_TRANSPILER_CACHE_PATH": "0",
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C.UTF-8",
}


@dataclass
class Result:
    """Tool result as the model sees it."""

    output: str
    well: bool


def lay(task: Task, root: Path) -> Path:
    """Write the initial workspace of a task to a folder."""
    for path, text in task.workspace:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def _ran(root: Path, command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", command],
        check=False,
        cwd=root,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def run(root: Path, command: str) -> Result:
    """Run a command in the workspace and return its result."""
    done = _ran(root, command)
    output = f"exit code {done.returncode}\n{done.stdout}" + (f"\n[stderr]\n{done.stderr}" if done.stderr else "")
    return Result(output, done.returncode == 0)


def shell(root: Path, command: str) -> tuple[int, str]:
    """Run a command in the workspace and return exit status and output."""
    done = _ran(root, command)
    return done.returncode, done.stdout + done.stderr


def act(root: Path, tool: str, arguments: Mapping[str, str]) -> Result:
    """Carry out a call of one of the four standard tools."""
    if tool == "execute_command":
        return run(root, arguments["command"])
    path = root / arguments["path"]
    if tool == "read_file":
        return Result(path.read_text(encoding="utf-8"), True)
    if tool == "write_file":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(arguments["content"], encoding="utf-8")
        return Result(f"wrote {len(arguments['content'].encode())} bytes to {arguments['path']}", True)
    assert tool == "list_directory"
    entries = sorted(path.iterdir())
    shown = [f"dir  {e.name}" if e.is_dir() else f"file  {e.name}  {e.stat().st_size}" for e in entries]
    return Result("\n".join(shown), True)


def do(root: Path, call: CallTemplate, values: Mapping[str, str]) -> Result:
    """Carry out a call of the script with known values."""
    return act(root, call.tool, {name: Template(text).substitute(values) for name, text in call.arguments})


def final(step: Step) -> tuple[CallTemplate, ...]:
    """Return the calls of the repair, if a step has one, followed by the calls of the step."""
    return (*(call for repair in step.repairs for call in repair.calls), *step.calls)


def carried_out(task: Task, root: Path, values: Mapping[str, str], steps: Iterable[str]) -> Path:
    """Carry out the named steps in the order of the script, each after its repair, and return the workspace."""
    lay(task, root)
    wanted = set(steps)
    for step in task.script.steps:
        for call in final(step) if step.name in wanted else ():
            if call.tool in {"execute_command", "write_file"}:
                do(root, call, values)
    return root


def built(task: Task, root: Path, values: Mapping[str, str], effects: str) -> Path:
    """Carry out every write and every command that matches the regular expression `effects`; all must succeed."""
    lay(task, root)
    for step in task.script.steps:
        for call in final(step):
            key = Template(call.arguments[0][1]).substitute(values)
            if call.tool == "write_file" or (call.tool == "execute_command" and re.search(effects, key)):
                result = do(root, call, values)
                assert result.well, result.output
    return root


def rewritten(task: Task, root: Path, fact: str, value: str) -> bool:
    """Write the files that contain a fact again, with another value; return False if a command contains the fact as well."""
    values, told = {**task.values, fact: value}, "${" + fact + "}"
    telling = [call for step in task.script.steps for call in final(step) if any(told in text for _, text in call.arguments)]
    for call in telling:
        if call.tool == "write_file":
            do(root, call, values)
    return all(call.tool == "write_file" for call in telling)


def grade(task: Task, root: Path) -> dict[str, str]:
    """Run the grader and return the verdict of each check: `pass` or `fail DETAIL`."""
    for path, text in list_grader_files(task.grader, "n0nce"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    done = _ran(root, format_grader_command(task.grader))
    assert done.returncode == 0, done.stderr
    said = parse_verdicts(done.stdout.encode(), "n0nce")
    assert set(said) == {check.name for check in task.checks}
    return {name: "pass" if verdict.passed else f"fail {verdict.detail}" for name, verdict in said.items()}


def failed(verdicts: Mapping[str, str]) -> set[str]:
    """Return the names of the checks that did not pass."""
    return {name for name, verdict in verdicts.items() if verdict != "pass"}
