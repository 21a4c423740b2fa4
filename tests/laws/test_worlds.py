"""The laws in other worlds: a task with another user's behavior is a good task too, and its settings decide which policies lose
facts.

The laws of texts and of the session without compaction, on every task with all settings changed, and one of the laws of values,
of recovery and of the bounds on each task; with HARNESS_LAWS=full every law in every world. The effects of the settings on a
policy that evicts were predicted before the results were known.
"""

import functools
import os
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.metrics.session_metrics import measure_session
from harness.task import World
from harness.task_checks.laws import LAWS, Law
from harness.task_checks.simulation import Run, SessionCache
from harness.tasks import SUITE, make_task
from harness.tasks.variants import ORDER_FILE
from tests.laws.suite import needs, open_action_cache, simulate_with_cache

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

FULL = os.environ.get("HARNESS_LAWS") == "full"
WORLDS = {
    "late": World(use_lag_steps=12),
    "again": World(redundancy=3),
    "changed": World(update_rate=0.5),
    "written": World(recoverable_share=0.5),
    "all": World(use_lag_steps=20, redundancy=4, update_rate=0.4, recoverable_share=0.4),
}
TASKS = sorted(set(SUITE) - {"long-march"})
"""Tasks that have no worlds of their own."""
PLAIN = {"succeeds", "sight", "readings", "evidence"}
"""Laws that need only the session of a task without compaction."""
DEALT = ("values", "recovery", "law-3", "law-4")
"""Laws that need one more session of a task or a hundred instances, of which each task meets one."""
NAMELESS = "law-10"
"""Law that needs templates that another process finds by name; names do not include a world."""
SEEDS = (1, 2) if FULL else (1,)
LOST_SEEDS = (1, 2)
"""Seeds over which the lost facts are counted; a single seed does not always confirm the predictions."""
FORGETTING = "flashcards"
"""Task for which the lost facts are predicted."""
WRITTEN = [FORGETTING, "rename-sweep", "spec-api"] if FULL else [FORGETTING]
"""Tasks for which repeated values are predicted; the task itself revises nothing."""


class Case(NamedTuple):
    """Try one law on one task in one world."""

    law: Law
    world: str
    task: str
    seed: int

    def __str__(self) -> str:
        return f"{self.law.name}-{self.world}-{self.task}-{self.seed}"


def cases() -> Iterator[Case]:
    laws = [law for law in LAWS if law.name != NAMELESS]
    for at, name in enumerate(TASKS):
        due = {*PLAIN, DEALT[at % len(DEALT)]}
        chosen = laws if FULL else [law for law in laws if law.name in due or (law.stage in {1, 2} and law.name not in DEALT)]
        for world in WORLDS if FULL else ["all"]:
            yield from (Case(law, world, name, seed) for seed in SEEDS for law in chosen)


CASES = tuple(cases())


@functools.lru_cache(maxsize=1)
def sessions(task: str, world: str) -> SessionCache:
    return SessionCache(partial(make_task, task, world=WORLDS[world]), action_cache=open_action_cache())


def laws_of(task: str) -> type:
    """Return the tests of one task as a class; the tests share a worker and its sessions (--dist=loadscope)."""

    class Laws:
        pytestmark = needs(task)

        @pytest.mark.parametrize("case", [case for case in CASES if case.task == task], ids=str)
        def test_the_law_holds(self, case: Case) -> None:
            findings = case.law.find(sessions(task, case.world), case.seed, "extractive")
            assert [str(one) for one in findings] == [], case.law.title

    return Laws


for _task in TASKS:
    globals()["Test" + "".join(word.capitalize() for word in _task.split("-"))] = laws_of(_task)


@functools.cache
def lost(world: World, name: str = FORGETTING, summarizer: str = "scripted/empty") -> float:
    """Return the share of failed checks that depend on the request alone, over two seeds of a task that is compacted."""
    shares = []
    for seed in LOST_SEEDS:
        task = make_task(name, seed, world)
        prompt_facts = {fact.name for fact in task.facts if fact.said_in == "prompt"}
        resting = {check.name for check in task.checks if check.required_facts and prompt_facts.issuperset(check.required_facts)}
        shares.append(len(forgotten(world, seed, summarizer, name).failed_checks & resting) / len(resting))
    return sum(shares) / len(shares)


@functools.cache
def forgotten(world: World, seed: int, summarizer: str, name: str = FORGETTING) -> Run:
    done = simulate_with_cache(make_task(name, seed, world), KeepLast(summarizer=summarizer))
    assert done.compactions
    return done


@pytest.mark.parametrize("name", WRITTEN)
def test_facts_in_files_are_never_lost_but_cost_reads(name: str) -> None:
    """Items 7 and 10 of the battery, where everything in the request can be read again and where nothing can."""
    assert lost(World(), name) > 0.5
    assert lost(World(recoverable_share=1.0), name) == 0
    assert 0 < lost(World(recoverable_share=0.5), name) < lost(World(), name)
    for seed in LOST_SEEDS:
        worlds = (World(), World(recoverable_share=1.0))
        plain, written = (forgotten(world, seed, "scripted/empty", name) for world in worlds)
        assert [done.call_keys.count(("read_file", ORDER_FILE)) > 0 for done in (plain, written)] == [False, True]


def test_facts_that_are_stated_later_are_lost_less_often() -> None:
    assert lost(World(use_lag_steps=2)) < lost(World(use_lag_steps=20)) <= lost(World(use_lag_steps=60))


def test_facts_that_are_repeated_are_lost_less_often() -> None:
    assert lost(World(redundancy=8)) < lost(World(redundancy=3)) <= lost(World())


def test_an_agent_that_forgets_a_correction_uses_the_old_value() -> None:
    """Summaries that keep the request, as the prompt demands, keep its old values."""
    stale = []
    for world in (World(), World(update_rate=1.0)):
        done, task = forgotten(world, 1, "scripted/extractive"), make_task(FORGETTING, 1, world)
        metrics, _ = measure_session(done.entries, task, KeepLast().counter)
        stale.append(metrics.stale_uses)
    assert stale[0] == 0
    assert stale[1]
