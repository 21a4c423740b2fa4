"""The hidden checks, run in the sandbox after the end of a session.

The agent's code runs again while it is judged, and may try to speak for the grader. So its processes end before the grader
is laid, the grader runs without a shell around it, and its verdicts are lines that begin with a nonce drawn for this one run,
which only a file that the grader removes has ever held. They count if it said that it was done and ended well; a check
without a verdict, or with two that differ, has failed.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.errors import ToolError
from harness.protocols import ExecResult, Sandbox
from harness.sandboxes.action_cache import CachedSandbox
from harness.sandboxes.client import ServedSandbox
from harness.task import Check, Grader, Task

MOST_DETAIL_CHARACTERS = 500
NONCE_PATH = ".nonce"
"""Where the grader finds its nonce, in the workspace."""


class Verdict(NamedTuple):
    """What the grader said of one check."""

    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A check and its verdict."""

    check: Check
    passed: bool
    detail: str
    """Why it failed; hostile text."""


def grade(task: Task, sandbox: Sandbox) -> tuple[Judged, ...]:
    """Run the grader of a task on the workspace as the agent left it; one verdict for each check, in their order.

    It is really run, always: a sandbox with an action cache hands out the real one below it.

    Raises:
        SandboxDied: the sandbox was lost; there is no verdict at all.
    """
    if isinstance(sandbox, CachedSandbox):
        sandbox = sandbox.bypass_cache()
    nonce = secrets.token_hex(16)
    try:
        sandbox.lay({path: text.encode() for path, text in laid(task.grader, nonce)})
    except ToolError as error:
        return ungraded(task, f"the grader cannot be laid: {error}"[:MOST_DETAIL_CHARACTERS])
    result = _run(task.grader, sandbox)
    said = verdicts(result.stdout, nonce) if result.exit_code == 0 else {}
    return judged(task.checks, said, _silence(result, task.grader))


def laid(grader: Grader, nonce: str) -> tuple[tuple[str, str], ...]:
    """Path and content of the files that a grader needs."""
    return (*grader.files, (NONCE_PATH, nonce))


def command_line(grader: Grader) -> str:
    """The grader with its only argument."""
    return f"{grader.command} {NONCE_PATH}"


def _run(grader: Grader, sandbox: Sandbox) -> ExecResult:
    """The shell becomes the grader, since one that waits for it would hold its output open to others."""
    if isinstance(sandbox, ServedSandbox):
        return sandbox.run_program(command_line(grader), modules=grader.modules, timeout_seconds=grader.timeout_seconds)
    return sandbox.run(f"exec {command_line(grader)}", timeout_seconds=grader.timeout_seconds)


def ungraded(task: Task, reason: str) -> tuple[Judged, ...]:
    """Every check as failed, since the grader could not run."""
    return judged(task.checks, {}, reason)


def judged(checks: tuple[Check, ...], said: Mapping[str, Verdict], silence: str) -> tuple[Judged, ...]:
    """Each check with its verdict; `silence` explains those without one."""
    given = ((check, said.get(check.name, Verdict(False, silence))) for check in checks)
    return tuple(Judged(check=check, passed=verdict.passed, detail=verdict.detail) for check, verdict in given)


def verdicts(output: bytes, nonce: str) -> dict[str, Verdict]:
    """The verdicts in a grader's output by the name of their check; none unless its last line says that it was done."""
    lines = output.decode(errors="replace").removesuffix("\n").split("\n")
    if lines.pop() != f"{nonce} done":
        return {}
    found: dict[str, Verdict] = {}
    for line in lines:
        prefix, word, name, verdict, detail = (*line.split(" ", 4), "", "", "", "", "")[:5]
        if (prefix, word) != (nonce, "check") or verdict not in {"pass", "fail"}:
            continue
        passed = verdict == "pass"
        if name in found and found[name].passed != passed:
            passed, detail = False, "the grader gave two verdicts"
        found[name] = Verdict(passed, detail[:MOST_DETAIL_CHARACTERS])
    return found


def _silence(result: ExecResult, grader: Grader) -> str:
    if result.timed_out:
        return f"no verdict: the grader was killed after {grader.timeout_seconds:g} s"
    if result.oom_killed:
        return "no verdict: the grader ran out of memory"
    if result.exit_code > 128:
        return f"no verdict: the grader was killed by signal {result.exit_code - 128}"
    tail = _last_line(result.stderr)
    return f"no verdict (the grader ended with exit code {result.exit_code}) {tail}".strip()[:MOST_DETAIL_CHARACTERS]


def _last_line(output: bytes) -> str:
    return output.decode(errors="replace").strip().rsplit("\n", 1)[-1]
