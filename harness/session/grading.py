"""Grading of a task: after the end of a session, finds out which checks of the task the agent's workspace passes.

The code that grades is a function of the task, called the judge. It knows the expected values and runs outside of the sandbox.
After every process of the agent was ended, it learns about the agent's work in two ways, in this order:

1. It reads files of the workspace. No code of the agent runs meanwhile. If the workspace has a copy in memory (see
   `harness.sandboxes.action_cache`), the copy is read, so grading that asks no questions needs no sandbox.
2. It asks for the answers to the questions of the task's interviews. Then one program, the interviewer, runs in the sandbox. It
   starts a process of its own for each interview, in which the agent's code runs, asks the questions one by one through a pipe,
   and prints the answers. Each question contains a random token, which the answer must repeat, so output that nobody asked for
   does not count as an answer. The interviewer knows the questions but not the expected values.

The agent's code can therefore answer what it likes, but it learns neither the expected value nor the verdict. Some questions need
a value that the agent has to remember. Such a question passes all candidates for the value, and returns which of them have an
effect.

Tests that the agent wrote are the only work whose right answer is no secret: "all pass". They therefore run several times. In
some runs, a function is wrong on purpose, and the tests must fail; see `harness.session.sabotage`. All runs ask the same question
and start alike, so tests cannot tell the runs apart by names, order, leftovers or copies of files. A program that only parses
files counts the tests before any code of the agent runs.

If the interviewer does not end as it should, no answer counts, and every check that the judge grades after asking has failed.
A check without a verdict, or with contradictory verdicts, has failed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any, NamedTuple

from harness.errors import SandboxError, ToolError, UsageError
from harness.protocols import ExecResult, Sandbox
from harness.sandboxes.action_cache import CachedSandbox
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.toolserver import load_source
from harness.session.sabotage import NO_SURVEY, SURVEY, PlannedRun, Survey, collect_answers, list_missing, plan_runs
from harness.task import Check, Grader, Interview, Task

MAX_DETAIL_CHARACTERS = 300
"""Maximum number of characters in the explanation of why a check of a task failed."""
MAX_FILE_BYTES = 2**22
"""Maximum size in bytes of a file that a judge reads; a larger file counts as unreadable."""
GRACE_SECONDS = 30.0
"""Seconds that the interviewer may take beyond its interviews' time limits."""
MAX_OUTPUT_BYTES = 2**22
"""Maximum number of bytes that the interviewer prints.

The number does not depend on the limits of the trial, which apply to commands of the agent.
"""
NO_VERDICT = "no verdict"
"""Explanation of a check that counts as failed because the judge ended without a verdict on it."""
FOLDER = ".grade"
"""Folder in the workspace for the interviewer's files. The interviewer deletes them before any code of the agent runs."""
PROGRAM = "interviewer"
"""Name of the interviewer in `harness.sandboxes.toolserver`."""
SURVEYOR = "surveyor"
"""Name of the program in `harness.sandboxes.toolserver` that finds functions and counts tests."""
SURVEY_SECONDS = 30.0
"""Maximum duration in seconds of the search for functions and tests."""
MODULES = (
    *("argparse", "ast", "collections", "contextlib", "csv", "ctypes", "dataclasses", "datetime", "enum", "functools", "hashlib"),
    *("hmac", "importlib.machinery", "importlib.util", "inspect", "io", "json", "os", "pathlib", "re", "runpy", "select"),
    *("signal", "sqlite3", "stat", "tempfile", "time", "traceback", "types", "typing", "unittest", "urllib.parse", "zlib"),
)
"""Modules of Python's standard library that the interviewer may import once, to save each of its processes the import."""


class Verdict(NamedTuple):
    """Verdict on one check of a task: whether the agent's work passed, with an explanation if it did not."""

    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCheck:
    """Check of a task together with its verdict, which says whether the agent's work passed the check."""

    check: Check
    passed: bool
    detail: str
    """Explanation of why the check of the task failed; the agent may have influenced the text, so it must be escaped."""


@dataclass(slots=True, kw_only=True)
class SandboxSubmission:
    """Access to the agent's work in a sandbox for the judge, the function that grades the work.

    Implements `harness.task.Submission`.
    """

    grader: Grader
    sandbox: Sandbox
    rng: Random
    """Source of the random order of interviews with equal questions, so that the agent's code cannot tell which one is held."""
    answers: Mapping[str, Any] | None = None
    """Answers of the agent's code to the questions, by name of the question; None until the judge asks for them."""
    asks_used_sandbox: bool = False
    """Whether the agent's code is asked in the sandbox in which the agent worked, although there is an action cache."""

    @property
    def expected(self) -> Mapping[str, Any]:
        """Values that the judge compares with the work of the agent."""
        return self.grader.expected

    def read_text(self, path: str) -> str:
        """Return the text of a file in the workspace; an empty string if the file cannot be read."""
        self._refuse_late_read(path)
        try:
            content = self.sandbox.read(path, max_bytes=MAX_FILE_BYTES + 1)
        except ToolError:
            return ""
        return content.decode(errors="replace") if len(content) <= MAX_FILE_BYTES else ""

    def list_files(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the files in a folder of the workspace."""
        self._refuse_late_read(path)
        try:
            return tuple(entry.name for entry in self.sandbox.list(path) if entry.kind == "file")
        except ToolError:
            return ()

    def ask(self) -> Mapping[str, Any]:
        """Ask the agent's code all questions of the task, and return the answer to each question.

        The questions are asked only once; later calls return the same answers.

        Raises:
            ToolError: The interviewer did not end as it should, so there are no answers.
            SandboxDied: The sandbox was lost.
        """
        if self.answers is None:
            self.answers = {}
            if self.grader.interviews:
                self.answers = _hold_interviews(self.grader, self._open_sandbox(), self.rng)
        return self.answers

    def _open_sandbox(self) -> Sandbox:
        """Return a sandbox in which no command of the agent has run, or else the sandbox in which the agent worked."""
        if not isinstance(self.sandbox, CachedSandbox):
            return self.sandbox
        fresh = self.sandbox.open_fresh()
        self.asks_used_sandbox = fresh is None
        return fresh or self.sandbox.bypass_cache()

    def _refuse_late_read(self, path: str) -> None:
        if self.answers is not None:
            raise UsageError(f"{path!r} is read after ask(), when the agent's code may have changed it; read all files before")


class Grading(NamedTuple):
    """Result of grading a workspace: the verdict on each check, and whether the verdicts are repeatable."""

    checks: tuple[GradedCheck, ...]
    is_repeatable: bool
    """Whether grading again would give the same verdicts, unless the agent's code behaves at random.

    The judge ended by itself, and the agent's code answered every question. If the sandbox has an action cache, the code ran in a
    new sandbox.
    """


def grade_workspace(task: Task, sandbox: Sandbox, rng: Random | None = None) -> tuple[GradedCheck, ...]:
    """Grade the workspace that the agent left, and return one verdict for each check of the task, in order.

    The agent's code is always run, even in a sandbox with an action cache. `judge_work` describes the arguments and the errors.
    """
    return judge_work(task, sandbox, rng).checks


def judge_work(task: Task, sandbox: Sandbox, rng: Random | None = None) -> Grading:
    """Grade the workspace that the agent left, and find out whether grading again would give the same verdicts.

    Args:
        task: Task whose checks are run.
        sandbox: Sandbox with the workspace that the agent left.
        rng: Source of the random order in which interviews (series of questions to the agent's code) with equal questions are
            held, so that the code cannot tell which is which. None uses the operating system's unpredictable random numbers.

    Raises:
        SandboxDied: The sandbox was lost, so there are no verdicts.
    """
    if isinstance(sandbox, CachedSandbox) and not sandbox.has_mirror:
        sandbox = sandbox.bypass_cache()
    submission = SandboxSubmission(grader=task.grader, sandbox=sandbox, rng=rng or SystemRandom())
    verdicts: dict[str, Verdict] = {}
    reason = NO_VERDICT
    try:
        if not isinstance(sandbox, CachedSandbox):
            sandbox.prepare_grading({})  # ends every process, so that no code of the agent changes files between two reads
        for name, passed, detail in task.grader.judge(submission):
            verdict = Verdict(bool(passed), "" if passed else _clean(detail))
            if verdicts.get(name, verdict).passed != verdict.passed:
                verdict = Verdict(False, "the judge gave contradictory verdicts")
            verdicts[name] = verdict
    except (ToolError, UsageError) as error:
        reason = f"no verdict: {error}"
    except SandboxError:
        raise
    except Exception as error:  # noqa: BLE001  (code of a task, which works on files and answers of the agent)
        reason = f"no verdict: the judge failed with {type(error).__name__}: {error}"
    has_all_answers = submission.answers is None or all(
        name in submission.answers for interview in task.grader.interviews for name in interview.names
    )
    is_repeatable = reason == NO_VERDICT and has_all_answers and not submission.asks_used_sandbox
    return Grading(apply_verdicts(task.checks, verdicts, _clean(reason)), is_repeatable)


def _hold_interviews(grader: Grader, sandbox: Sandbox, rng: Random) -> dict[str, Any]:
    """Run the interviewer, which questions the agent's code, and return the answer to each question."""
    changing = [interview for interview in grader.interviews if interview.changes]
    survey = _survey_workspace(changing, sandbox) if changing else NO_SURVEY
    runs = plan_runs(_shuffle_like_interviews(grader.interviews, rng), survey, rng)
    field_names = ("source", "questions", "runtime", "appended", "timeout_seconds")
    interviews = [
        {name: getattr(run.interview, name) for name in field_names} | {"names": run.interview.names, "replaced": run.replaced}
        for run in runs
    ]
    timeout_seconds = GRACE_SECONDS + sum(run.interview.timeout_seconds for run in runs)
    content = json.dumps({"interviews": interviews, "modules": MODULES})
    output = _run_program(sandbox, PROGRAM, content, timeout_seconds)
    answers = collect_answers(runs, dict(_parse_answers(output, runs)))
    surveyed = {"tests": survey.tests, "missing": list_missing(changing, survey)}
    return answers | ({SURVEY: surveyed} if changing else {})


def _survey_workspace(interviews: Sequence[Interview], sandbox: Sandbox) -> Survey:
    """Return the functions that interviews change, as far as they exist, and the number of tests."""
    functions = [(change.path, change.function) for interview in interviews for change in interview.changes]
    folders = sorted({interview.tests for interview in interviews if interview.tests})
    content = json.dumps({"functions": list(dict.fromkeys(functions)), "tests": folders})
    try:
        return Survey(**json.loads(_run_program(sandbox, SURVEYOR, content, SURVEY_SECONDS)))
    except ToolError:
        return NO_SURVEY  # files of the agent that no program can parse


def _run_program(sandbox: Sandbox, program: str, content: str, timeout_seconds: float) -> bytes:
    """Run a program of `harness.sandboxes.toolserver` in the sandbox and return its output.

    Args:
        sandbox: Sandbox in which the program runs; every other process in it is ended before.
        program: Name of the program.
        content: Text of the file whose path is the program's argument.
        timeout_seconds: Seconds after which the program is killed.

    Raises:
        ToolError: The program cannot be started, or did not end as it should.
    """
    paths = (f"{FOLDER}/{program}.py", f"{FOLDER}/{program}.json")
    try:
        sandbox.prepare_grading(dict(zip(paths, (load_source(program), content.encode()), strict=True)))
    except ToolError as error:
        raise ToolError(f"the files of the {program} cannot be written: {error}") from error
    if isinstance(sandbox, ServedSandbox):
        result = sandbox.run_program(program, *paths, timeout_seconds=timeout_seconds, output_bytes=MAX_OUTPUT_BYTES)
    else:  # without a parent shell, which would keep the output open for other processes
        result = sandbox.run(f"exec python3 -S -B {' '.join(paths)}", timeout_seconds=timeout_seconds)
    if problem := _describe_problem(program, result, timeout_seconds):
        raise ToolError(problem)
    return result.stdout


def _shuffle_like_interviews(interviews: Sequence[Interview], rng: Random) -> list[Interview]:
    """Swap interviews with equal questions at random, so that the agent's code cannot tell them apart."""
    ordered = list(interviews)
    places: dict[tuple[object, ...], list[int]] = {}
    for index, interview in enumerate(interviews):
        places.setdefault((interview.source, interview.questions, interview.runtime), []).append(index)
    for indices in places.values():
        for index, chosen in zip(indices, rng.sample(indices, len(indices)), strict=True):
            ordered[index] = interviews[chosen]
    return ordered


def _describe_problem(program: str, result: ExecResult, timeout_seconds: float) -> str:
    if result.exit_code == 0 and result.stdout and result.stdout_bytes == len(result.stdout):
        return ""
    if result.timed_out:
        return f"the {program} was killed after {timeout_seconds:g} s"
    if result.oom_killed:
        return f"the {program} ran out of memory"
    if result.exit_code > 128:
        return f"the {program} was killed by signal {result.exit_code - 128}"
    tail = result.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    return f"the {program} ended with exit code {result.exit_code} and {result.stdout_bytes} bytes of output {tail}"


def _parse_answers(output: bytes, runs: Sequence[PlannedRun]) -> Iterator[tuple[str, Any]]:
    answers: dict[str, str] = json.loads(output)
    for run in runs:
        for name in run.names:
            try:
                yield name, json.loads(answers[name])
            except (KeyError, ValueError, RecursionError):
                continue


def fail_all_checks(task: Task, reason: str) -> tuple[GradedCheck, ...]:
    """Return every check of a task as failed for the same reason, for a workspace that could not be graded."""
    return apply_verdicts(task.checks, {}, reason)


def apply_verdicts(
    checks: tuple[Check, ...], verdicts_by_check: Mapping[str, Verdict], missing_reason: str
) -> tuple[GradedCheck, ...]:
    """Return each check of a task with its verdict. A check without a verdict has failed for `missing_reason`."""
    verdict_pairs = ((check, verdicts_by_check.get(check.name, Verdict(False, missing_reason))) for check in checks)
    return tuple(GradedCheck(check=check, passed=verdict.passed, detail=verdict.detail) for check, verdict in verdict_pairs)


def _clean(detail: str) -> str:
    """Return an explanation as one line of printable ASCII characters, cut with `...` to `MAX_DETAIL_CHARACTERS`."""
    line = " ".join(detail.split())
    if len(line) > MAX_DETAIL_CHARACTERS:
        line = f"{line[: MAX_DETAIL_CHARACTERS - 3]}..."
    return "".join(char if " " <= char <= "~" else char.encode("unicode_escape").decode() for char in line)
