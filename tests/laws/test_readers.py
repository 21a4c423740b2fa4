"""Models that overlook facts keep the laws of the simulation: their answers depend on the request alone, and repeat."""

from functools import cache
from typing import Any

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.models.factory import open_model
from harness.task import Task
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, WINDOW_TOKENS, Run, ScriptedModelSpec, simulate
from harness.tasks import SUITE
from tests.laws.suite import FULL, SEEDS, each, simulate_with_cache

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

TASK_SEEDS = SEEDS[:3] if FULL else SEEDS[:1]
TASKS = each()
REPEATED = TASKS if FULL else each(sorted(SUITE)[::4])
"""Tasks whose sessions are repeated; laws 9 and 10 repeat sessions of this model on other tasks too."""


@cache
def task(name: str, seed: int) -> Task:
    return SUITE[name](seed)


def run(name: str, seed: int, model: str, *, is_graded: bool = True) -> Run:
    options: dict[str, Any] = {"window_tokens": HUGE_WINDOW_TOKENS, "model_spec": ScriptedModelSpec(model)}
    return simulate_with_cache(task(name, seed), NoCompaction(), **options, is_graded=is_graded)


@pytest.mark.parametrize("seed", TASK_SEEDS)
@pytest.mark.parametrize("name", REPEATED)
def test_law_6_holds_for_the_typical_reader(name: str, seed: int) -> None:
    """A new model gives the same answers to requests of a compacted session in another order, and the session repeats."""
    model, policy = "scripted:typical", KeepLast(summarizer="scripted/extractive")
    options: dict[str, Any] = {"window_tokens": WINDOW_TOKENS, "model_spec": ScriptedModelSpec(model), "is_graded": False}
    done = simulate_with_cache(task(name, seed), policy, **options)
    for request, reply in reversed(done.requests[::7]):
        fresh = open_model(model, task=task(name, seed), seed=1, window_tokens=WINDOW_TOKENS)
        assert fresh.reply(request).message == reply.message
    again = simulate(task(name, seed), policy, **options)
    assert (again.calls, again.files) == (done.calls, done.files)


@pytest.mark.parametrize("seed", TASK_SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_a_worse_reader_of_the_same_session_does_no_better(name: str, seed: int) -> None:
    """Without compaction, from the attentive model over the typical model to a model that overlooks as much as possible."""
    best, typical, worst = (run(name, seed, f"scripted:{reader}") for reader in ("overlooks-0", "typical", "overlooks-1"))
    assert run(name, seed, "scripted", is_graded=False).calls == best.calls
    assert 1.0 == best.score >= typical.score >= worst.score
    assert worst.calls != best.calls, "nothing is ever overlooked"
