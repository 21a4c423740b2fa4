"""The laws with the tolerant reader: they hold as with the exact one, and statements in other words act like the task's own.

Each task meets a part of the laws; with HARNESS_LAWS=full every law on every task and seed. Laws 9 and 10 deal the readers as
one more dimension of their cases.
"""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.models.scripted.visible_state import FactReader
from harness.task import Fact, Task
from harness.task_checks.laws import LAWS, Law
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, Run, ScriptedModelSpec, SessionCache, rewrite_facts
from harness.tasks import SUITE
from tests.laws.suite import FULL, SEEDS, TASKS, each, needs, open_action_cache, simulate_with_cache
from tests.models.scripted.paraphrases import STATEMENTS, write

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

SESSION_LAWS = (
    *("succeeds", "sight", "law-1", "law-2", "law-3", "law-4", "law-5-told", "law-5-blank", "law-6-answers", "law-6-bytes"),
    "law-7",
)
"""Laws of sessions of the scripted agent; the other laws concern only the task and its patterns."""
LAWS_PER_TASK = 3
EXACT, TOLERANT = ScriptedModelSpec(), ScriptedModelSpec(reader="tolerant")


class Case(NamedTuple):
    """Try one law on one task with the tolerant reader."""

    law: Law
    task: str
    seed: int

    def __str__(self) -> str:
        return f"{self.law.name}-{self.task}-{self.seed}"


def cases() -> Iterator[Case]:
    """Deal the laws to the tasks in turn, so that each law is tried on at least two tasks."""
    laws = {law.name: law for law in LAWS}
    for at, task in enumerate(TASKS):
        names = SESSION_LAWS if FULL else [SESSION_LAWS[(3 * at + turn) % len(SESSION_LAWS)] for turn in range(LAWS_PER_TASK)]
        for name in names:
            yield from (Case(laws[name], task, seed) for seed in (SEEDS if FULL else SEEDS[:1]))


@functools.cache
def sessions(task: str) -> SessionCache:
    return SessionCache(SUITE[task], name=task, reader="tolerant", action_cache=open_action_cache())


def list_paraphrased(task: Task) -> list[Fact]:
    """Return the facts that the user alone states, with values that every form of a statement can contain."""
    return [fact for fact in task.facts if fact.said_in == "prompt" and task.values[fact.name].replace("-", "").isalnum()]


def paraphrase(task: Task, values: dict[str, str]) -> Task:
    """Return the task without its own statements of some facts, and with other statements of them after the request."""
    facts = [fact for fact in task.facts if fact.name in values]
    silent = rewrite_facts(task, dict.fromkeys(values))
    lines = [write(STATEMENTS[at % len(STATEMENTS)], fact, values[fact.name]) for at, fact in enumerate(facts)]
    return replace(silent, prompt="\n\n".join([silent.prompt, *lines]))


def run_uncompacted(task: Task, model_spec: ScriptedModelSpec) -> Run:
    return simulate_with_cache(task, NoCompaction(), window_tokens=HUGE_WINDOW_TOKENS, model_spec=model_spec)


def list_checks(task: Task, facts: set[str]) -> set[str]:
    """Return the names of the checks that need one of the facts."""
    return {check.name for check in task.checks if facts & {*check.required_facts}}


@pytest.mark.parametrize("case", [pytest.param(case, marks=needs(case.task), id=str(case)) for case in cases()])
def test_the_law_holds(case: Case) -> None:
    findings = case.law.find(sessions(case.task), case.seed, "extractive")
    assert [str(one) for one in findings] == [], case.law.title


@pytest.mark.parametrize("task", each())
def test_only_values_of_the_fact_are_read_from_a_whole_session(task: str) -> None:
    """Files, outputs, distractors and the agent's own texts are never read as another value of a fact."""
    task_instance = sessions(task).make_task(1)
    exact, tolerant = FactReader(task_instance.facts, "exact"), FactReader(task_instance.facts, "tolerant")
    messages = sessions(task).run(1).requests[-1][0].messages
    stated = {(name, value) for message in messages for name, values in exact.find_values(message).items() for value in values}
    read = {(name, value) for message in messages for name, values in tolerant.find_values(message).items() for value in values}
    assert read <= stated | {*task_instance.values.items()}


@pytest.mark.parametrize("name", each(TASKS if FULL else ["flashcards", "spec-api"]))
def test_law_5_holds_for_paraphrased_statements(name: str) -> None:
    """The work follows facts that are stated in other words; a reader of the task's words alone uses the priors."""
    task, other = sessions(name).make_task(1), sessions(name).make_variant(1, 2).values
    facts = {fact.name for fact in list_paraphrased(task)}
    same = paraphrase(task, {fact: task.values[fact] for fact in facts})
    done, missed = (run_uncompacted(same, model_spec) for model_spec in (TOLERANT, EXACT))
    assert done.failed_checks == set()
    assert missed.failed_checks == list_checks(task, facts)
    changed = {fact: other[fact] for fact in facts if other[fact] != task.values[fact]}
    assert run_uncompacted(paraphrase(task, changed), TOLERANT).failed_checks == list_checks(task, {*changed})


def test_a_summary_in_other_words_helps_only_the_tolerant_reader() -> None:
    """With summaries that a policy keeps as they are, the tolerant reader never does worse than the exact reader."""
    task, policy = SUITE["flashcards"](1), KeepLast(summarizer="scripted/extractive")
    exact, tolerant = (simulate_with_cache(task, policy, model_spec=spec) for spec in (EXACT, TOLERANT))
    assert tolerant.score >= exact.score
