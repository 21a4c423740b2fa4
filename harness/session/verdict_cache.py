"""Cache of grading results: a workspace that equals one graded before gets the same verdicts without being graded again.

Verdicts are stored in the action cache, which also stores results of commands. Their key is a digest of everything that
determines them: the files of the workspace with their modes, the environment of the sandbox, the grader (source of the judge,
interviews and expected values), the version of Python, and the source of this package. Workspaces with links or special files
have no key, because only a real sandbox can hold such files.

Verdicts are stored only if the agent's code was asked in a new sandbox, in which no command of the agent had run, and only if no
time limit had an effect: every question of the interviews has an answer. A judge from a file of the user must import nothing but
the standard library and this package, because other files are not part of the key.

One trial in twenty, drawn by its id, and all trials that other trials are compared with are graded again. If the new verdicts
differ from the stored ones, the workspace is graded several times more. Checks with changing verdicts are the fault of the agent,
whose code or tests behave at random, and count as failed. If the new verdicts agree with each other, the run ends with an error.
Then the stored verdicts are wrong, or the agent's code depends on the time of day, which is not part of the key.
"""

import ast
import functools
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.conversation.codec import BUILT_IN_PREFIX
from harness.errors import VerdictMismatch
from harness.files.bounded_input import read_input
from harness.files.user_file import MAX_USER_FILE_BYTES
from harness.protocols import Sandbox, Snapshot
from harness.sandboxes.action_cache import CachedSandbox
from harness.sandboxes.action_cache.entry import pack_bytes, unpack_bytes
from harness.session.grading import GradedCheck, Verdict, apply_verdicts, judge_work
from harness.task import Grader, Task

TESTED_SHARE = 0.05
"""Share of the trials that are graded again although there are stored verdicts, to test the stored verdicts."""
REPEATS = 5
"""Number of further gradings of a workspace whose new verdicts differ from the stored ones."""
UNSTABLE = "the agent's code behaves at random: graded several times, the same workspace passed and failed this check"
"""Explanation for a check that passed in some gradings of a workspace and failed in others."""
COMMAND = "(verdicts of the checks)"
"""Text that `harness cache` shows in place of a command where the cache contains verdicts on a workspace."""
_PACKAGE = Path(__file__).parents[1]
_SOURCES = (".", "conversation", "files", "sandboxes", "session", "tasks")
"""Folders of this package with code that can change a verdict; `.` stands for the modules at the top of the package."""


class CachedGrading(NamedTuple):
    """Verdict on each check of a task, and whether the verdicts were taken from the cache."""

    checks: tuple[GradedCheck, ...]
    is_cached: bool


def is_drawn_for_test(trial_id: str) -> bool:
    """Return whether a trial is one of the few that are graded again to test stored verdicts.

    The answer depends on the id of the trial alone.
    """
    draw = int.from_bytes(hashlib.sha256(f"grade again/{trial_id}".encode()).digest()[:8], "big")
    return draw < TESTED_SHARE * 2**64


def grade_with_cache(task: Task, sandbox: Sandbox, trial_id: str, *, reuse: bool) -> CachedGrading:
    """Return the verdict on each check of a task, taken from the cache if an equal workspace was graded before.

    Args:
        task: Task whose checks are graded.
        sandbox: Sandbox with the workspace that the agent left. Verdicts are only stored and reused if it has an action cache.
        trial_id: Id of the trial, for the message of an error. For a task whose expected values are not JSON it also decides the
            random choices of the grading; see `_seed_choices`.
        reuse: Whether stored verdicts may be returned. Otherwise, the workspace is graded and stored verdicts are tested.

    Raises:
        SandboxDied: The sandbox was lost, so there are no verdicts.
        VerdictMismatch: The workspace was graded several times with equal verdicts, which differ from the stored ones.
    """
    seed = _seed_choices(task, trial_id)
    key = compute_verdict_key(task, sandbox) if isinstance(sandbox, CachedSandbox) else None
    if key is None or not isinstance(sandbox, CachedSandbox):
        return CachedGrading(judge_work(task, sandbox, Random(seed)).checks, is_cached=False)
    stored = sandbox.cache.find(key, _unpack_verdicts)
    if stored is not None and reuse:
        return CachedGrading(apply_verdicts(task.checks, stored, ""), is_cached=True)
    workspace = None if stored is None else sandbox.snapshot()
    grading = judge_work(task, sandbox, Random(seed))
    verdicts = _collect_verdicts(grading.checks)
    if grading.is_repeatable and stored is not None and workspace is not None and _list_differences(stored, verdicts):
        unstable = _find_unstable_checks(task, sandbox.bypass_cache(), workspace, verdicts, seed)
        if not unstable.issuperset(_list_differences(stored, verdicts)):
            raise VerdictMismatch(trial_id, str(sandbox.cache.folder), *_describe_differences(stored, verdicts))
        verdicts |= dict.fromkeys(unstable, Verdict(False, UNSTABLE))
        return CachedGrading(apply_verdicts(task.checks, verdicts, ""), is_cached=False)
    if grading.is_repeatable and stored is None:
        sandbox.cache.store(key, pack_bytes(key, json.dumps(verdicts).encode()), task=sandbox.task, command=COMMAND)
    return CachedGrading(grading.checks, is_cached=False)


def compute_verdict_key(task: Task, sandbox: CachedSandbox) -> bytes | None:
    """Return the cache key of the verdicts on the current workspace, or None if there is no key.

    The key is a digest of the files of the workspace and of the grader. There is no key if the workspace has no digest, e.g.
    because it contains links, or if the grader uses code that is not part of the digest.
    """
    workspace_key, grader_key = sandbox.workspace_key, _compute_grader_key(task)
    if workspace_key is None or grader_key is None:
        return None
    parts = ("verdicts", sys.version, digest_package(), workspace_key.hex(), grader_key)
    return hashlib.sha256("\n".join(parts).encode()).digest()


@functools.cache
def digest_package() -> str:
    """Return the SHA-256 (hexadecimal) of those source files of this package that can change a verdict."""
    digest = hashlib.sha256()
    for path in sorted(_list_sources()):
        digest.update(f"{path.relative_to(_PACKAGE)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _list_sources() -> Iterator[Path]:
    for name in _SOURCES:
        for path in (_PACKAGE / name).glob("*.py" if name == "." else "**/*"):
            if path.is_file() and path.suffix != ".pyc":
                yield path


def _compute_grader_key(task: Task) -> str | None:
    """Return a digest of a task's grader and check names; None if the grader uses code that has no digest."""
    judge_source = _describe_judge(task.grader)
    return None if judge_source is None else _digest_grader(task, judge_source)


def _seed_choices(task: Task, trial_id: str) -> str:
    """Return the seed of the random choices of a grading, such as which functions are wrong in which runs of the agent's tests.

    It is equal for all trials of a task with the same values: tests that miss one function of ten would otherwise pass in one
    trial and fail in another whose workspace is equal. Nothing in the sandbox contains it. An expected value that is not JSON
    could be written differently in each process, so that the id of the trial takes its place.
    """
    return f"grade {_digest_grader(task) or trial_id}"


def _digest_grader(task: Task, judge_source: Sequence[str] = ()) -> str | None:
    """Return a digest (hexadecimal) of a task's checks, expected values and interviews; None if a value is not JSON."""
    parts = {
        "checks": [check.name for check in task.checks],
        "judge": judge_source,
        "expected": task.grader.expected,
        "interviews": [asdict(interview) for interview in task.grader.interviews],
    }
    try:
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    except (TypeError, ValueError):
        return None


def _describe_judge(grader: Grader) -> list[str] | None:
    """Return the name of a judge (code that grades a task) and, if it is in a user's file, its source.

    None if the judge uses variables or modules whose content is not known.
    """
    judge = grader.judge
    module_name, name = getattr(judge, "__module__", None), getattr(judge, "__qualname__", None)
    module = sys.modules.get(module_name) if isinstance(module_name, str) else None
    code = getattr(judge, "__code__", None)
    if module_name is None or name is None or code is None or "<" in name or getattr(module, name, judge) is not judge:
        return None
    if hasattr(judge, "__wrapped__"):
        return None  # the source of a decorator, too, would have to be known
    if module_name.startswith(BUILT_IN_PREFIX):
        return [module_name, name]  # the source is covered by `digest_package`
    return _describe_file(code.co_filename, name)


def _describe_file(path: str, name: str) -> list[str] | None:
    try:
        source = read_input(Path(path), MAX_USER_FILE_BYTES)
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return None
    known = {*sys.stdlib_module_names, _PACKAGE.name}
    return [name, hashlib.sha256(source).hexdigest()] if _list_imports(tree) <= known else None


def _list_imports(tree: ast.AST) -> set[str]:
    # The name of a relative import is empty.
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("" if node.level or node.module is None else node.module.partition(".")[0])
    return names


def _unpack_verdicts(key: bytes, data: bytes) -> dict[str, Verdict] | None:
    content = unpack_bytes(key, data)
    try:
        return None if content is None else {name: Verdict(*values) for name, values in json.loads(content).items()}
    except (ValueError, TypeError, AttributeError):  # stored by another version of this package
        return None


def _collect_verdicts(checks: Iterable[GradedCheck]) -> dict[str, Verdict]:
    return {graded.check.name: Verdict(graded.passed, graded.detail) for graded in checks}


def _find_unstable_checks(
    task: Task, sandbox: Sandbox, workspace: Snapshot, verdicts: Mapping[str, Verdict], seed: str
) -> set[str]:
    unstable = set[str]()
    for _ in range(REPEATS):
        sandbox.restore(workspace)
        unstable.update(_list_differences(verdicts, _collect_verdicts(judge_work(task, sandbox, Random(seed)).checks)))
    return unstable


def _list_differences(stored: Mapping[str, Verdict], new: Mapping[str, Verdict]) -> list[str]:
    """Return the sorted names of the checks on which two gradings disagree.

    Explanations of failed checks are not compared: they may quote what the agent's code printed, e.g. an address in memory.
    """
    outcomes = [{name: verdict.passed for name, verdict in verdicts.items()} for verdicts in (stored, new)]
    return sorted(name for name in {*stored, *new} if outcomes[0].get(name) != outcomes[1].get(name))


def _describe_differences(stored: Mapping[str, Verdict], new: Mapping[str, Verdict]) -> tuple[str, str]:
    """Return the stored and the new verdicts on which two gradings disagree, as two texts."""
    names = _list_differences(stored, new)
    return "; ".join(_format_verdict(name, stored.get(name)) for name in names), "; ".join(
        _format_verdict(name, new.get(name)) for name in names
    )


def _format_verdict(name: str, verdict: Verdict | None) -> str:
    if verdict is None:
        return f"{name}: none"
    return f"{name}: passed" if verdict.passed else f"{name}: failed ({verdict.detail})"
