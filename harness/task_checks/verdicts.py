"""Validity checks on the grader of a task: verdicts depend on the agent's work alone, and are the same each time."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, cast

from harness.errors import ToolError
from harness.protocols import Sandbox, Snapshot
from harness.session.grading import grade_workspace
from harness.task import Task
from harness.task_checks.findings import Finding, make_check_finding
from harness.task_checks.kept_state import list_changed_variables
from harness.task_checks.observation import observe_calls
from harness.task_checks.simulation import SessionCache, WatchedRun, find_stated_facts, open_task_sandbox


def check_other_work(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that work with wrong values fails each check that requires one of these values.

    The work is the finished work on a task with the same structure but the values of another seed. A check that passes this work
    ignores its facts, or reads the expected value from a file that the agent can write.

    Only facts that messages or files state are considered. A value that only a command prints may be right for the files of the
    other seed.
    """
    task, (other_seed, other_task, watched) = sessions.make_task(seed), sessions.watch_other(seed)
    other_values = other_task.values
    changed_facts = {fact.name for fact in find_stated_facts(task) if other_values[fact.name] != task.values[fact.name]}
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        passed_count = _count_passes(task, sandbox, watched.trees[-1], 1)
    for check in task.checks:
        if passed_count[check.name] and changed_facts & set(check.required_facts):
            words = (
                f"passes on the work for seed {other_seed}, which has other values: it ignores its facts, or reads its "
                "expectation from a file that the agent can write"
            )
            yield make_check_finding(task, check, words, seed)


def check_claims(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no check passes because the agent claims to have done the work.

    The judge grades two workspaces:

    - The initial workspace, in which each file that the judge reads ends with claims, such as "done" or `{"passed": true}`.
    - The initial workspace with those finished files that no text of the task names, such as a reply.

    A file that the task asks for is work: only the author knows whether a check should accept it instead of other work. A check
    that only counts the lines of a file also passes on a meaningless text, does not believe the claim, and is not reported.
    """
    task, watched = sessions.make_task(seed), sessions.watch(seed)
    initial, final_tree = watched.trees[0], watched.trees[-1]
    unnamed = _find_unnamed_files(task, watched)
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        read_paths = {*_list_read_paths(task, sandbox, initial), *_list_read_paths(task, sandbox, final_tree)}
        claimed_files, alone = set[str](), set[str]()
        passed_lengths = defaultdict[str, set[int]](set)  # by check: numbers of lines of the meaningless texts that it accepts
        for claim in _make_claims(task):
            meaningless = re.sub(r"\w", "x", claim)
            accepting_checks = _grade_files(task, sandbox, initial, dict.fromkeys(read_paths, meaningless))
            for name in accepting_checks:
                passed_lengths[name].add(claim.count("\n"))
            claimed_files |= _grade_files(task, sandbox, initial, dict.fromkeys(read_paths, claim)) - accepting_checks
        claimed_files |= {name for name, lengths in passed_lengths.items() if len(lengths) > 1}
        if unnamed.keys() & read_paths:
            alone = _grade_files(task, sandbox, initial, unnamed) - claimed_files
    for check in task.checks:
        if check.name in claimed_files:
            words = "passes if the files that the judge reads only claim that the work is done; look at the work instead"
            yield make_check_finding(task, check, words, seed)
        elif check.name in alone:
            names = ", ".join(map(repr, sorted(unnamed.keys() & read_paths)))
            words = f"passes on {names} alone, which no text of the task names; look at the work, or ask for the file"
            yield make_check_finding(task, check, words, seed)


def _make_claims(task: Task) -> Iterator[str]:
    """Yield texts that claim the success of every check without any value of the task."""
    yield "done\n"
    lines = ("All work is done.", "All checks pass.", "All tests pass: ok, passed, success, true, yes, 100 %.")
    yield "\n".join((*lines, *(f"{check.name}: {check.title}: passed" for check in task.checks))) + "\n"
    words = ("done", "ok", "passed", "success", "complete", *(check.name for check in task.checks))
    yield json.dumps({"status": "done", **dict.fromkeys(words, True)}) + "\n"


def _find_unnamed_files(task: Task, watched: WatchedRun) -> dict[str, str]:
    """Return the text of each file that the agent made and that no message or initial file names, by path.

    A file also counts as named if a text names one of its folders.
    """
    initial = dict(task.workspace)
    texts = (task.prompt, *(later.text for later in task.later_messages), *initial, *initial.values())
    words = {word for text in texts for word in re.split(r"[^\w.-]+|[.](?!\w)", text)}
    changed_texts = {path: text for path, text in watched.read_texts(watched.trees[-1]).items() if initial.get(path) != text}
    return {path: text for path, text in changed_texts.items() if words.isdisjoint(path.split("/"))}


class _ReadingSandbox:
    """Sandbox that passes every call on to another sandbox and records the paths of the files that are read."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.paths: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def read(self, path: str, **options: Any) -> bytes:
        self.paths.add(path)
        return self._sandbox.read(path, **options)


def _list_read_paths(task: Task, sandbox: Sandbox, tree: Snapshot) -> set[str]:
    """Return the paths of the files that the judge reads in a state of the workspace."""
    sandbox.restore(tree)
    reading = _ReadingSandbox(sandbox)
    grade_workspace(task, cast(Sandbox, reading))
    return reading.paths


def _grade_files(task: Task, sandbox: Sandbox, tree: Snapshot, added: Mapping[str, str]) -> set[str]:
    """Return the names of the checks that pass after texts were appended to some files."""
    sandbox.restore(tree)
    for path, text in added.items():
        with suppress(ToolError):  # paths such as those of folders
            existing = sandbox.read(path) if path in tree.files else b""
            sandbox.write(path, existing + text.encode())
    return {graded.check.name for graded in grade_workspace(task, sandbox) if graded.passed}


def check_regrading(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the grader gives the same verdicts each time it grades the same files.

    The finished work and the initial workspace are graded several times. The judge must not read the clock or the machine, nor
    keep anything from one grading to the next.
    """
    task, watched, times = sessions.make_task(seed), sessions.watch(seed), sessions.repeated_gradings
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        passed = {
            "the finished work": _count_passes(task, sandbox, watched.trees[-1], times),
            "the initial workspace": _count_passes(task, sandbox, watched.trees[0], times),
        }
        yield from _find_hidden_inputs(task, sandbox, watched.trees[-1], seed)
    for description, counts in passed.items():
        for check in task.checks:
            if 0 < counts[check.name] < times:
                words = f"{description} passes {counts[check.name]} of {times} gradings; the verdict must depend on files alone"
                yield make_check_finding(task, check, words, seed)


def _count_passes(task: Task, sandbox: Sandbox, tree: Snapshot, times: int) -> Counter[str]:
    passed: Counter[str] = Counter()
    for _ in range(times):
        sandbox.restore(tree)
        passed.update(graded.check.name for graded in grade_workspace(task, sandbox) if graded.passed)
    return passed


def _find_hidden_inputs(task: Task, sandbox: Sandbox, tree: Snapshot, seed: int) -> Iterator[Finding]:
    """Report each thing besides files on which a judge depends, e.g. the clock."""

    def grade() -> None:
        _count_passes(task, sandbox, tree, 1)

    changed = list_changed_variables(task.grader.judge, grade, task.grader.expected)
    observed = observe_calls(grade)._replace(changed_variables=changed)
    for action, target in observed.hidden_inputs:
        yield Finding(f"the judge {action} {target}; the verdict must depend on files alone", seed=seed)
