"""Models that overlook facts keep the laws of the simulation: their answers depend on the request alone, and repeat."""

from functools import cache

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.models.factory import open_model
from harness.protocols import Policy
from harness.task import Task
from harness.tasks import SUITE
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS, WINDOW_TOKENS, Run, ScriptedModelSpec, simulate
from tests.laws.suite import FULL, SEEDS, needs, simulate_with_cache

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

TASK_SEEDS = SEEDS[:3] if FULL else SEEDS[:1]
TASKS = [pytest.param(name, marks=needs(name)) for name in sorted(SUITE)]


@cache
def task(name: str, seed: int) -> Task:
    return SUITE[name](seed)


@cache
def run(name: str, seed: int, model: str, policy: Policy = NoCompaction(), window_tokens: int = HUGE_WINDOW_TOKENS) -> Run:  # noqa: B008  (frozen)
    return simulate_with_cache(task(name, seed), policy, window_tokens=window_tokens, model_spec=ScriptedModelSpec(model))


@pytest.mark.parametrize("seed", TASK_SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_law_6_holds_for_the_typical_reader(name: str, seed: int) -> None:
    """A new model gives the same answers to requests of a compacted session in another order, and the session repeats."""
    model, policy = "scripted:typical", KeepLast(summarizer="scripted/extractive")
    done = run(name, seed, model, policy, WINDOW_TOKENS)
    for request, reply in reversed(done.requests[::7]):
        fresh = open_model(model, task=task(name, seed), seed=1, window_tokens=WINDOW_TOKENS)
        assert fresh.reply(request).message == reply.message
    again = simulate(task(name, seed), policy, window_tokens=WINDOW_TOKENS, model_spec=ScriptedModelSpec(model))
    assert (again.calls, again.files) == (done.calls, done.files)


@pytest.mark.parametrize("seed", TASK_SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_a_worse_reader_of_the_same_session_does_no_better(name: str, seed: int) -> None:
    """Without compaction, from the attentive model over the typical model to a model that overlooks as much as possible."""
    best, typical, worst = (run(name, seed, f"scripted:{reader}") for reader in ("overlooks-0", "typical", "overlooks-1"))
    assert run(name, seed, "scripted").calls == best.calls
    assert 1.0 == best.score >= typical.score >= worst.score
    assert worst.calls != best.calls, "nothing is ever overlooked"
