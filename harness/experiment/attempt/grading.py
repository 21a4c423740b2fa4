"""The hidden checks, run in the sandbox after the end of a session.

The grader's verdicts are lines that begin with a nonce drawn for this one run, so nothing that the agent wrote into its
workspace can speak for it; a check without a verdict, or with two that differ, has failed.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.protocols import ExecResult, Sandbox
from harness.task import Check, Grader, Task

MOST_DETAIL_CHARACTERS = 500


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

    Raises:
        SandboxDied: the sandbox was lost; there is no verdict at all.
    """
    nonce = secrets.token_hex(16)
    for path, text in task.grader.files:
        sandbox.write(path, text.encode())
    result = sandbox.run(f"{task.grader.command} {nonce}", timeout_seconds=task.grader.timeout_seconds)
    return judged(task.checks, verdicts(result.stdout, nonce), _silence(result, task.grader))


def ungraded(task: Task, reason: str) -> tuple[Judged, ...]:
    """Every check as failed, since the grader could not run."""
    return judged(task.checks, {}, reason)


def judged(checks: tuple[Check, ...], said: Mapping[str, Verdict], silence: str) -> tuple[Judged, ...]:
    """Each check with its verdict; `silence` explains those without one."""
    given = ((check, said.get(check.name, Verdict(False, silence))) for check in checks)
    return tuple(Judged(check=check, passed=verdict.passed, detail=verdict.detail) for check, verdict in given)


def verdicts(output: bytes, nonce: str) -> dict[str, Verdict]:
    """The verdicts in a grader's output by the name of their check."""
    found: dict[str, Verdict] = {}
    for line in output.decode(errors="replace").splitlines():
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
    tail = result.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return f"no verdict (the grader ended with exit code {result.exit_code}) {tail}".strip()[:MOST_DETAIL_CHARACTERS]
