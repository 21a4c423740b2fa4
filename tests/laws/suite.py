"""The tasks of the suite in tests of the laws: what they need of a machine, and which meet which seeds and policies."""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import pytest

from harness.protocols import Policy
from harness.tasks import SUITE
from harness.testing.laws.simulation import ScriptedModelSpec

FULL = os.environ.get("HARNESS_LAWS") == "full"
"""Whether all is tried that can be, as by `make laws`."""
TASKS = sorted(SUITE)
SEEDS = (1, 2, 3, 4, 5) if FULL else (1, 2)
READERS = (ScriptedModelSpec("scripted"), ScriptedModelSpec("scripted:typical"))
"""One that sees all, and one that draws by chance."""


class Case(NamedTuple):
    """A task under a seed and a policy, and who works on it."""

    task: str
    seed: int
    policy: Policy
    reader: ScriptedModelSpec

    def __str__(self) -> str:
        return f"{self.task}-{self.seed}-{type(self.policy).__name__}-{self.reader.name}"


@cache
def needs(task: str) -> list[pytest.MarkDecorator]:
    """The markers of a task besides those of the sandbox."""
    return [pytest.mark.bun] if SUITE[task](1).runtime == "bun" else []


def each(tasks: Sequence[str] = TASKS) -> list[object]:
    """Tasks as the parameters of a test."""
    return [pytest.param(task, marks=needs(task)) for task in tasks]


def spread(policies: Sequence[Policy], *, rounds: int, tasks: Sequence[str] = TASKS) -> list[object]:
    """Every task in as many cases as there are rounds, as the parameters of a test, seeds, policies and readers dealt apart.

    In two rounds each task meets two seeds, policies and readers. Of two seeds and two policies each meets each in one round.
    """
    some = (case for case in dealt(policies, rounds) if case.task in tasks)
    return [pytest.param(case, marks=needs(case.task), id=str(case)) for case in some]


def dealt(policies: Sequence[Policy], rounds: int) -> Iterator[Case]:
    """The cases of all tasks."""
    for turn in range(rounds):
        for at, task in enumerate(TASKS):
            policy, reader = policies[(at + turn) % len(policies)], READERS[(at // 2 + turn) % len(READERS)]
            yield Case(task, SEEDS[(at + 3 * (at // 4) + 2 * turn) % len(SEEDS)], policy, reader)
