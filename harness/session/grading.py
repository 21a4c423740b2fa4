"""Grading of a task: runs the hidden checks in the sandbox after the end of a session.

The agent's code runs again during grading and could try to forge verdicts. Therefore the agent's processes are ended first, the
grader runs without a shell, and each verdict is a line that begins with a random nonce, which only a file that the grader deletes
has contained. Verdicts count only if the grader reports that it has finished and exits with code 0. A check without a verdict, or
with contradictory verdicts, has failed.
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

MAX_DETAIL_CHARACTERS = 500
"""Maximum number of characters in the explanation of why a check of a task failed."""
NONCE_PATH = ".nonce"
"""Path in the workspace of the file with the nonce, a random text that marks genuine verdicts."""


class Verdict(NamedTuple):
    """Verdict of the grader on one check of a task, i.e. whether the agent's work passed the check."""

    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCheck:
    """Check of a task together with the grader's verdict, which says whether the agent's work passed the check."""

    check: Check
    passed: bool
    detail: str
    """Explanation of why the check of the task failed; the agent may have influenced the text, so it must be escaped."""


def grade_workspace(task: Task, sandbox: Sandbox) -> tuple[GradedCheck, ...]:
    """Run the grader of a task on the workspace that the agent left, and return one verdict for each check, in order.

    The grader always runs for real, even in a sandbox with an action cache.

    Raises:
        SandboxDied: the sandbox was lost, so there are no verdicts.
    """
    if isinstance(sandbox, CachedSandbox):
        sandbox = sandbox.bypass_cache()
    nonce = secrets.token_hex(16)
    try:
        sandbox.lay({path: text.encode() for path, text in list_grader_files(task.grader, nonce)})
    except ToolError as error:
        return fail_all_checks(task, f"the files of the grader cannot be written: {error}"[:MAX_DETAIL_CHARACTERS])
    result = _run_grader(task.grader, sandbox)
    verdicts_by_check = parse_verdicts(result.stdout, nonce) if result.exit_code == 0 else {}
    return apply_verdicts(task.checks, verdicts_by_check, _explain_missing_verdict(result, task.grader))


def list_grader_files(grader: Grader, nonce: str) -> tuple[tuple[str, str], ...]:
    """Return the paths and contents of the files that the grader of a task needs."""
    return (*grader.files, (NONCE_PATH, nonce))


def format_grader_command(grader: Grader) -> str:
    """Return the shell command that runs the grader of a task."""
    return f"{grader.command} {NONCE_PATH}"


def _run_grader(grader: Grader, sandbox: Sandbox) -> ExecResult:
    """Run the grader without a parent shell, because a waiting shell would keep the output open for other processes."""
    if isinstance(sandbox, ServedSandbox):
        return sandbox.run_program(format_grader_command(grader), modules=grader.modules, timeout_seconds=grader.timeout_seconds)
    return sandbox.run(f"exec {format_grader_command(grader)}", timeout_seconds=grader.timeout_seconds)


def fail_all_checks(task: Task, reason: str) -> tuple[GradedCheck, ...]:
    """Return every check of a task as failed for the same reason, for a grader that could not run."""
    return apply_verdicts(task.checks, {}, reason)


def apply_verdicts(
    checks: tuple[Check, ...], verdicts_by_check: Mapping[str, Verdict], missing_reason: str
) -> tuple[GradedCheck, ...]:
    """Return each check of a task with its verdict. A check without a verdict has failed for `missing_reason`."""
    verdict_pairs = ((check, verdicts_by_check.get(check.name, Verdict(False, missing_reason))) for check in checks)
    return tuple(GradedCheck(check=check, passed=verdict.passed, detail=verdict.detail) for check, verdict in verdict_pairs)


def parse_verdicts(output: bytes, nonce: str) -> dict[str, Verdict]:
    """Return the verdicts in the output of a grader, by name of the check.

    The result is empty unless the last line of the output reports that the grader has finished.
    """
    lines = output.decode(errors="replace").removesuffix("\n").split("\n")
    if lines.pop() != f"{nonce} done":
        return {}
    verdicts_by_check: dict[str, Verdict] = {}
    for line in lines:
        prefix, word, name, verdict, detail = (*line.split(" ", 4), "", "", "", "", "")[:5]
        if (prefix, word) != (nonce, "check") or verdict not in {"pass", "fail"}:
            continue
        passed = verdict == "pass"
        if name in verdicts_by_check and verdicts_by_check[name].passed != passed:
            passed, detail = False, "the grader gave contradictory verdicts"
        verdicts_by_check[name] = Verdict(passed, detail[:MAX_DETAIL_CHARACTERS])
    return verdicts_by_check


def _explain_missing_verdict(result: ExecResult, grader: Grader) -> str:
    if result.timed_out:
        return f"no verdict: the grader was killed after {grader.timeout_seconds:g} s"
    if result.oom_killed:
        return "no verdict: the grader ran out of memory"
    if result.exit_code > 128:
        return f"no verdict: the grader was killed by signal {result.exit_code - 128}"
    tail = result.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return f"no verdict (the grader ended with exit code {result.exit_code}) {tail}".strip()[:MAX_DETAIL_CHARACTERS]
