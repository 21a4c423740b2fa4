"""The laws of `harness.task_checks.laws` on the tasks of the suite; laws 8, 9 and 10 have files of their own.

A failing law shows a defect of the task or of the model; the law is not changed. Each law is tried on each task, and presets and
seeds are spread so that every two values are combined somewhere; with HARNESS_LAWS=full (`make laws`) all are combined with all.
Laws 1, 6, 7 and 13 are also tried under every policy, law 1 if the trigger is relative to the window: each policy on one task, in
full on half of the tasks.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from allpairspy import AllPairs

from harness.conversation.tokens import Window
from harness.task_checks.bounds import PARTIAL_SUMMARIES
from harness.task_checks.laws import LAWS, Law
from harness.task_checks.simulation import (
    HUGE_WINDOW_TOKENS,
    POLICIES,
    PRESETS,
    SUMMARIZING_POLICIES,
    WINDOW_TOKENS,
    SessionCache,
)
from harness.tasks import SUITE
from tests.laws.suite import FULL, SEEDS, TASKS, needs, open_action_cache

ELSEWHERE = {"law-3-presets", "law-9", "law-10"}
GEOMETRY_PRESETS = ("extractive", "early-empty", "late-extractive")
"""Presets that differ in more than the summarizer."""
BY_GEOMETRY = {"law-1", "law-3", "law-4"}
BY_EVENTS = {"default/openhands"}
"""Policies that also act at a number of events."""

REPEATED_GRADINGS = 20 if FULL else 8
"""A check that passes at random, half of the time, is missed by eight gradings once in 128 runs of the tests."""

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]


class Case(NamedTuple):
    """Try one law on one task."""

    law: Law
    preset: str
    task: str
    seed: int

    def __str__(self) -> str:
        parts = [self.law.name, self.preset, self.task, str(self.seed)]
        return "-".join(part for part in parts if part)


def cases() -> Iterator[Case]:
    """Laws that depend on a policy are combined with presets; laws that choose the summarizer or never call it only with other
    geometries."""
    laws = [law for law in LAWS if law.name not in ELSEWHERE]
    kinds = {"": [law for law in laws if not law.by_preset], "geometry": [], "preset": []}
    for law in laws:
        if law.by_preset:
            kinds["geometry" if law.name in BY_GEOMETRY else "preset"].append(law)
    for kind, presets in {"": [""], "geometry": list(GEOMETRY_PRESETS), "preset": list(PRESETS)}.items():
        values: list[list[Any]] = [kinds[kind], presets, TASKS, list(SEEDS)]
        yield from itertools.starmap(Case, itertools.product(*values) if FULL else AllPairs(values))
    yield from policy_cases()


def policy_cases() -> Iterator[Case]:
    """Return every policy with a session that it compacts, on a task under a seed; in full on half of the tasks and with all
    laws. By default the task is not the one whose sessions take longest."""
    laws = {law.name: law for law in LAWS}
    tasks = TASKS if FULL else [task for task in TASKS if task != "flashcards"]
    for at, policy in enumerate(POLICIES):
        for turn in range(0, len(TASKS) if FULL else 1, 2):
            task, seed = tasks[(at + turn) % len(tasks)], SEEDS[(at // len(tasks) + turn) % len(SEEDS)]
            also = {"law-1": at % 4 == 0, "law-6-answers": at % 2 == 1, "law-6-bytes": at % 10 == 2}
            due = [name for name, dealt in also.items() if FULL or dealt]
            complete = policy in SUMMARIZING_POLICIES and policy not in PARTIAL_SUMMARIES
            for name in ["law-7", "law-13", "law-14", *(["law-3"] if complete else []), *due]:
                if name != "law-1" or relative(policy):
                    yield Case(laws[name], policy, task, seed)


def relative(policy: str) -> bool:
    """Return whether a policy acts by a size that follows from the window, and by nothing else."""
    small, large = (
        POLICIES[policy].budget(Window(tokens=tokens, source="configuration")) for tokens in (WINDOW_TOKENS, HUGE_WINDOW_TOKENS)
    )
    return small.threshold_tokens != large.threshold_tokens and policy not in BY_EVENTS


CASES = tuple(cases())


@functools.cache
def sessions(task: str) -> SessionCache:
    return SessionCache(SUITE[task], name=task, action_cache=open_action_cache(), repeated_gradings=REPEATED_GRADINGS)


def laws_of(task: str) -> type:
    """Return the tests of one task as a class; the tests share a worker and its sessions (--dist=loadscope)."""

    class Laws:
        pytestmark = needs(task)

        @pytest.mark.parametrize("case", [case for case in CASES if case.task == task], ids=str)
        def test_the_law_holds(self, case: Case) -> None:
            findings = case.law.find(sessions(task), case.seed, case.preset or "extractive")
            assert [str(one) for one in findings] == [], case.law.title

        @pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{task}-{seed}")
        def test_the_default_policy_compacts_two_to_six_times(self, seed: int) -> None:
            assert 2 <= len(sessions(task).run_compacted(seed, "oracle", is_graded=False).compactions) <= 6

    return Laws


for _task in TASKS:
    globals()["Test" + "".join(word.capitalize() for word in _task.split("-"))] = laws_of(_task)
