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

MAX_DETAIL_CHARACTERS = 500
NONCE_PATH = ".nonce"
"""Where the grader finds its nonce, in the workspace."""


class Verdict(NamedTuple):
    """What the grader said of one check."""

    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCheck:
    """A check and its verdict."""

    check: Check
    passed: bool
    detail: str
    """Why it failed; hostile text."""


def grade_workspace(task: Task, sandbox: Sandbox) -> tuple[GradedCheck, ...]:
    """Run the grader of a task on the workspace as the agent left it; one verdict for each check, in their order.

    It is really run, always: a sandbox with an action cache hands out the real one below it.

    Raises:
        SandboxDied: the sandbox was lost; there is no verdict at all.
    """
    if isinstance(sandbox, CachedSandbox):
        sandbox = sandbox.bypass_cache()
    nonce = secrets.token_hex(16)
    try:
        sandbox.lay({path: text.encode() for path, text in list_grader_files(task.grader, nonce)})
    except ToolError as error:
        return fail_all_checks(task, f"the grader cannot be laid: {error}"[:MAX_DETAIL_CHARACTERS])
    result = _run_grader(task.grader, sandbox)
    verdicts_by_check = parse_verdicts(result.stdout, nonce) if result.exit_code == 0 else {}
    return apply_verdicts(task.checks, verdicts_by_check, _explain_missing_verdict(result, task.grader))


def list_grader_files(grader: Grader, nonce: str) -> tuple[tuple[str, str], ...]:
    """Path and content of the files that a grader needs."""
    return (*grader.files, (NONCE_PATH, nonce))


def format_grader_command(grader: Grader) -> str:
    """The grader with its only argument."""
    return f"{grader.command} {NONCE_PATH}"


def _run_grader(grader: Grader, sandbox: Sandbox) -> ExecResult:
    """The shell becomes the grader, since one that waits for it would hold its output open to others."""
    if isinstance(sandbox, ServedSandbox):
        return sandbox.run_program(format_grader_command(grader), modules=grader.modules, timeout_seconds=grader.timeout_seconds)
    return sandbox.run(f"exec {format_grader_command(grader)}", timeout_seconds=grader.timeout_seconds)


def fail_all_checks(task: Task, reason: str) -> tuple[GradedCheck, ...]:
    """Every check as failed, since the grader could not run."""
    return apply_verdicts(task.checks, {}, reason)


def apply_verdicts(
    checks: tuple[Check, ...], verdicts_by_check: Mapping[str, Verdict], missing_reason: str
) -> tuple[GradedCheck, ...]:
    """Each check with its verdict; `missing_reason` explains those without one."""
    verdict_pairs = ((check, verdicts_by_check.get(check.name, Verdict(False, missing_reason))) for check in checks)
    return tuple(GradedCheck(check=check, passed=verdict.passed, detail=verdict.detail) for check, verdict in verdict_pairs)


def parse_verdicts(output: bytes, nonce: str) -> dict[str, Verdict]:
    """The verdicts in a grader's output by the name of their check; none unless its last line says that it was done."""
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
            passed, detail = False, "the grader gave two verdicts"
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
