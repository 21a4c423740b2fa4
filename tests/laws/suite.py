"""The tasks of the suite in tests of the laws: their requirements, and the seeds and policies with which they are combined."""

import hashlib
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

import pytest

from harness.protocols import Policy
from harness.sandboxes.action_cache import ActionCache, find_default_folder, open_cache
from harness.sandboxes.action_cache.cache import MAX_BYTES
from harness.store.database import replace_file
from harness.task import Task
from harness.task_checks.simulation import BUBBLEWRAP, Run, ScriptedModelSpec, open_cached_sandbox, simulate
from harness.tasks import SUITE

FULL = os.environ.get("HARNESS_LAWS") == "full"
"""Whether every combination is tried, as by `make laws`."""
TASKS = sorted(SUITE)
SEEDS = (1, 2, 3, 4, 5) if FULL else (1, 2)
READERS = (
    ScriptedModelSpec("scripted"),
    ScriptedModelSpec("scripted:typical"),
    ScriptedModelSpec("scripted", reader="tolerant"),
    ScriptedModelSpec("scripted:typical", reader="tolerant"),
)
"""Models that overlook nothing or overlook facts at random, and that read exactly or in free words."""


class Case(NamedTuple):
    """A task under a seed and a policy, with the scripted model that works on it."""

    task: str
    seed: int
    policy: Policy
    reader: ScriptedModelSpec

    def __str__(self) -> str:
        return f"{self.task}-{self.seed}-{type(self.policy).__name__}-{self.reader.full_name}"


@cache
def needs(task: str) -> list[pytest.MarkDecorator]:
    """Return the markers of a task besides those of the sandbox."""
    return [pytest.mark.bun] if SUITE[task](1).runtime == "bun" else []


def each(tasks: Sequence[str] = TASKS) -> list[object]:
    """Return tasks as the parameters of a test."""
    return [pytest.param(task, marks=needs(task)) for task in tasks]


def open_action_cache() -> ActionCache:
    """Return the action cache that all laws share, in which the commands of a session are stored for other policies."""
    return open_cache(find_default_folder(), MAX_BYTES)


def simulate_with_cache(task: Task, policy: Policy, **options: Any) -> Run:
    """Run a task as `simulate` does, but run no command that another session ran in an equal workspace."""
    with closing(open_cached_sandbox(task, BUBBLEWRAP, open_action_cache())) as sandbox:
        return simulate(task, policy, sandbox=sandbox, **options)


def simulate_in_real_sandbox(case: Case) -> Run:
    """Return the session of a case with no action cache, from a file if another law of this run of the tests has needed it."""
    file = find_default_folder().parent / "law-sessions" / hashlib.sha256(repr(case).encode()).hexdigest()
    if file.exists():
        run: Run = pickle.loads(file.read_bytes())
        return run
    run = simulate(SUITE[case.task](case.seed), case.policy, model_spec=case.reader)
    file.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(file) as unfinished:
        unfinished.write_bytes(pickle.dumps(run))
    return run


def spread(policies: Sequence[Policy], *, rounds: int, tasks: Sequence[str] = TASKS) -> list[object]:
    """Return each task in as many cases as there are rounds, as the parameters of a test, with spread seeds, policies and models.

    In two rounds each task is combined with two seeds, two policies and two models. Over both rounds, each of two seeds is
    combined with each of two policies.
    """
    some = (case for case in dealt(policies, rounds) if case.task in tasks)
    return [pytest.param(case, marks=needs(case.task), id=str(case)) for case in some]


def dealt(policies: Sequence[Policy], rounds: int) -> Iterator[Case]:
    """Return the cases of all tasks."""
    for turn in range(rounds):
        for at, task in enumerate(TASKS):
            policy, reader = policies[(at + turn) % len(policies)], READERS[(at // 2 + 3 * turn) % len(READERS)]
            yield Case(task, SEEDS[(at + 3 * (at // 4) + 2 * turn) % len(SEEDS)], policy, reader)
