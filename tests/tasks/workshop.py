"""Execution of scripts with known values, without a model and without a sandbox, as by an agent that forgets nothing."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from harness.errors import FileMissing
from harness.protocols import ExecResult, FileEntry
from harness.session.grading import grade_workspace
from harness.task import CallTemplate, Step, Task
from harness.testing.fakes import MemorySandbox

ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/local/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "BUN_RUNTIME_TRANSPILER_CACHE_PATH": "0",
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C.UTF-8",
}


class FolderSandbox(MemorySandbox):
    """Sandbox whose workspace is a folder and whose commands run in it, as far as grading needs one."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        if not (self.root / path).is_file():
            raise FileMissing(path)
        return (self.root / path).read_bytes()[:max_bytes]

    def list(self, path: str) -> tuple[FileEntry, ...]:
        paths = sorted((self.root / path).iterdir()) if (self.root / path).is_dir() else []
        return tuple(FileEntry(name=one.name, kind="file" if one.is_file() else "directory", size_bytes=0) for one in paths)

    def prepare_grading(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                ["/bin/sh", "-c", command], check=False, cwd=self.root, env={**ENVIRONMENT, "TMPDIR": scratch},
                stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_seconds,
            )  # fmt: skip
        out, err = done.stdout, done.stderr
        return ExecResult(exit_code=done.returncode, stdout=out, stderr=err, stdout_bytes=len(out), stderr_bytes=len(err))


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


def fill(call: CallTemplate, values: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments of a call of the script with known values."""
    return {name: Template(text).substitute(values) for name, text in call.arguments}


def do(root: Path, call: CallTemplate, values: Mapping[str, str]) -> Result:
    """Carry out a call of the script with known values."""
    return act(root, call.tool, fill(call, values))


def final(step: Step) -> tuple[CallTemplate, ...]:
    """Return the calls of the repair, if a step has one, followed by the calls of the step."""
    return (*(call for repair in step.repairs for call in repair.calls), *step.calls)


def list_acts(task: Task, steps: Iterable[str]) -> list[CallTemplate]:
    """Return the writes and commands of the named steps in the order of the script, each step after its repair."""
    wanted = set(steps)
    calls = (call for step in task.script.steps if step.name in wanted for call in final(step))
    return [call for call in calls if call.tool in {"execute_command", "write_file"}]


def carried_out(task: Task, root: Path, values: Mapping[str, str], steps: Iterable[str]) -> Path:
    """Carry out the named steps in the order of the script, each after its repair, and return the workspace."""
    lay(task, root)
    for call in list_acts(task, steps):
        do(root, call, values)
    return root


class Rehearsal:
    """The named steps of a script, carried out with the true values, with a copy of the workspace before each call."""

    def __init__(self, task: Task, folder: Path, steps: Iterable[str]) -> None:
        self._task, self._folder, self._acts = task, folder, list_acts(task, steps)
        root = lay(task, folder / "workspace")
        for number, call in enumerate(self._acts):
            shutil.copytree(root, folder / str(number), symlinks=True)
            do(root, call, task.values)
        root.rename(folder / str(len(self._acts)))

    def repeat(self, root: Path, values: Mapping[str, str]) -> Path:
        """Return the workspace that `carried_out` makes with other values; calls before the first that differs are skipped."""
        same = (fill(call, values) == fill(call, self._task.values) for call in self._acts)
        first = next((number for number, is_same in enumerate(same) if not is_same), len(self._acts))
        shutil.copytree(self._folder / str(first), root, symlinks=True, dirs_exist_ok=True)
        for call in self._acts[first:]:
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
    values, placeholder = {**task.values, fact: value}, "${" + fact + "}"
    telling = [
        call for step in task.script.steps for call in final(step) if any(placeholder in text for _, text in call.arguments)
    ]
    for call in telling:
        if call.tool == "write_file":
            do(root, call, values)
    return all(call.tool == "write_file" for call in telling)


def grade(task: Task, root: Path) -> dict[str, str]:
    """Grade a workspace and return the verdict of each check: `pass` or `fail DETAIL`."""
    graded = grade_workspace(task, FolderSandbox(root))
    return {one.check.name: "pass" if one.passed else f"fail {one.detail}" for one in graded}


def grade_about(task: Task, root: Path, checks: Collection[str], tests: Collection[str] = ("own_tests",)) -> dict[str, str]:
    """Grade a workspace as `grade` does, but run the agent's tests, which takes longest, only if their checks are in question."""
    if not set(tests).isdisjoint(checks):
        return grade(task, root)
    asking = tuple(interview for interview in task.grader.interviews if not interview.changes)
    assert len(asking) == len(task.grader.interviews) - len(tests)
    verdicts = grade(replace(task, grader=replace(task.grader, interviews=asking)), root)
    assert set(tests) <= failed(verdicts), "the checks do not rest on the tests"
    assert not any(verdict.startswith("fail no verdict") for verdict in verdicts.values()), "the judge did not end by itself"
    return verdicts


def failed(verdicts: Mapping[str, str]) -> set[str]:
    """Return the names of the checks that did not pass."""
    return {name for name, verdict in verdicts.items() if verdict != "pass"}
