"""The laws of a scripted simulation over the tasks of the suite (see harness/testing/laws); 8, 9 and 10 have files of their own.

A law that fails is a finding about the task or about the model, never a reason to bend the law. Each law is tried on each
task, and the presets and seeds are spread so that every two values meet somewhere; with HARNESS_LAWS=full (`make laws`) all
meet all.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from allpairspy import AllPairs

from harness.tasks import SUITE
from harness.testing.laws import LAWS, PRESETS, Law, Sessions
from tests.laws.suite import FULL, SEEDS, TASKS, needs

ELSEWHERE = {"law-9", "law-10"}

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]


class Case(NamedTuple):
    """One law on one task."""

    law: Law
    preset: str
    task: str
    seed: int

    def __str__(self) -> str:
        parts = [self.law.name, self.preset, self.task, str(self.seed)]
        return "-".join(part for part in parts if part)


def cases() -> Iterator[Case]:
    """Laws that depend on a policy meet the presets, the others have none."""
    for by_preset, presets in ((False, [""]), (True, list(PRESETS))):
        laws = [law for law in LAWS if law.by_preset is by_preset and law.name not in ELSEWHERE]
        values: list[list[Any]] = [laws, presets, TASKS, list(SEEDS)]
        yield from itertools.starmap(Case, itertools.product(*values) if FULL else AllPairs(values))


CASES = tuple(cases())


@functools.cache
def sessions(task: str) -> Sessions:
    return Sessions(SUITE[task], name=task)


def laws_of(task: str) -> type:
    """The tests of one task as a class of its own: they share a worker, and with it the sessions (--dist=loadscope)."""

    class Laws:
        pytestmark = needs(task)

        @pytest.mark.parametrize("case", [case for case in CASES if case.task == task], ids=str)
        def test_the_law_holds(self, case: Case) -> None:
            found = case.law.find(sessions(task), case.seed, case.preset or "extractive")
            assert [str(one) for one in found] == [], case.law.title

        @pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{task}-{seed}")
        def test_the_default_policy_compacts_two_to_six_times(self, seed: int) -> None:
            assert 2 <= len(sessions(task).compacted(seed, "oracle").compactions) <= 6

    return Laws


for _task in TASKS:
    globals()["Test" + "".join(word.capitalize() for word in _task.split("-"))] = laws_of(_task)
