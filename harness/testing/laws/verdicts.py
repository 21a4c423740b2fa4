"""Validity checks on the grader of a task: verdicts depend on the agent's work alone, and are the same each time."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from types import FunctionType, ModuleType

from harness.protocols import Sandbox, Snapshot
from harness.session.grading import grade_workspace
from harness.task import Task
from harness.testing.laws.bounds import find_stated_facts
from harness.testing.laws.findings import Finding, make_check_finding
from harness.testing.laws.simulation import SessionCache, open_task_sandbox
from harness.testing.observation import observe_calls

REPEATED_GRADINGS = 20
"""Number of times that the same files are graded. A check that passes half of the time is missed once in a million times."""


def check_other_work(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that work with wrong values fails: the finished work of another seed fails each check on facts that differ.

    The other work has the structure of this seed, so it differs in its values alone. A check that passes such work ignores its
    facts, or reads the expected value from a file that the agent can write. Only facts that messages or files state are
    considered. A value that only a command prints, such as a code needed to continue a copy, is right for the files of the other
    seed and proves nothing.
    """
    task, (other_seed, other_task, watched) = sessions.make_task(seed), sessions.watch_other(seed)
    other_values = other_task.values
    changed = {fact.name for fact in find_stated_facts(task) if other_values[fact.name] != task.values[fact.name]}
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        passed = _count_passes(task, sandbox, watched.trees[-1], 1)
    for check in task.checks:
        if passed[check.name] and changed & set(check.required_facts):
            words = (
                f"passes on the work for seed {other_seed}, which has other values: it ignores its facts, or reads its "
                "expectation from a file that the agent can write"
            )
            yield make_check_finding(task, check, words, seed)


def check_regrading(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the grader gives the same verdicts each time it grades the same files: the finished work, and the initial files.

    The judge must not read the clock or the machine, nor keep anything from one grading to the next.
    """
    task, watched = sessions.make_task(seed), sessions.watch(seed)
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()
        passed = {
            "the finished work": _count_passes(task, sandbox, watched.trees[-1], REPEATED_GRADINGS),
            "the initial workspace": _count_passes(task, sandbox, watched.trees[0], REPEATED_GRADINGS),
        }
        yield from _find_hidden_inputs(task, sandbox, watched.trees[-1], seed)
    for what, counts in passed.items():
        for check in task.checks:
            if 0 < counts[check.name] < REPEATED_GRADINGS:
                words = (
                    f"{what} passes {counts[check.name]} of {REPEATED_GRADINGS} gradings; the verdict must depend on files alone"
                )
                yield make_check_finding(task, check, words, seed)


def _count_passes(task: Task, sandbox: Sandbox, tree: Snapshot, times: int) -> Counter[str]:
    """Grade a state of the workspace several times, and return the number of times that each check passed."""
    passed: Counter[str] = Counter()
    for _ in range(times):
        sandbox.restore(tree)
        passed.update(graded.check.name for graded in grade_workspace(task, sandbox) if graded.passed)
    return passed


def _find_hidden_inputs(task: Task, sandbox: Sandbox, tree: Snapshot, seed: int) -> Iterator[Finding]:
    """Yield findings about a judge (grading function) that reads or keeps more than the files, so that verdicts may vary."""
    before = _describe_state(task.grader.judge)
    observed = observe_calls(lambda: _count_passes(task, sandbox, tree, 1))
    after = _describe_state(task.grader.judge)
    for what, calls in (("the clock", observed.clock_calls), ("the machine", observed.machine_calls)):
        for call in calls:
            yield Finding(f"the judge reads {what} by {call}; the verdict must depend on files alone", seed=seed)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Finding(f"the judge changes `{name}`, so the next grading can give other verdicts", seed=seed)


def _describe_state(judge: Callable[..., object]) -> dict[str, str]:
    """Return what a judge can keep from one grading to the next, as text by name, e.g. global values and attributes."""
    state: dict[str, object] = {}
    for name, value in getattr(judge, "__globals__", {}).items():
        if isinstance(value, type | FunctionType):
            if value.__module__ == judge.__module__:
                state |= {f"{name}.{key}": one for key, one in vars(value).items()}
        elif not name.startswith("__") and not isinstance(value, ModuleType):
            state[name] = value.getstate() if isinstance(value, Random) else value
    state |= {f"{judge.__qualname__}.{key}": one for key, one in vars(judge).items()}
    for cell_name, cell in zip(
        judge.__code__.co_freevars if isinstance(judge, FunctionType) else (),
        getattr(judge, "__closure__", None) or (),
        strict=False,
    ):
        state[cell_name] = cell.cell_contents
    state["the defaults of its parameters"] = getattr(judge, "__defaults__", None), getattr(judge, "__kwdefaults__", None)
    return {name: repr(value) for name, value in state.items()}
