"""The bounds bound: who knows the future loses nothing, who drops everything loses what only the request said."""

import pytest

from harness.compaction.presets.bounds import DropAll, OracleRetention, RandomRetention
from harness.protocols import Policy
from harness.tasks import SUITE
from harness.testing.laws.simulation import Run, simulate

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

SEEDS = (1, 2)


def runs(policy: Policy) -> list[Run]:
    return [simulate(SUITE["flashcards"](seed), policy) for seed in SEEDS]


def test_with_oracle_retention_the_task_succeeds_without_a_call_that_the_script_does_not_have() -> None:
    for done, seed in zip(runs(OracleRetention()), SEEDS, strict=True):
        assert (done.outcome.reason, done.failed) == ("replied", set())
        assert done.compactions
        assert len(done.steps) <= len(SUITE["flashcards"](seed).script.steps) * 1.2


def test_oracle_retention_bounds_where_the_needs_of_a_step_fit_and_reads_in_circles_where_they_do_not() -> None:
    task = SUITE["spec-api"](1)
    wide = simulate(task, OracleRetention(), window_tokens=49_152)
    assert (wide.outcome.reason, wide.failed) == ("replied", set())
    assert wide.compactions
    narrow = simulate(task, OracleRetention(), max_steps=150)
    assert narrow.outcome.reason == "max_steps"
    assert len(set(narrow.acts[-40:])) < 10


@pytest.mark.parametrize("policy", [DropAll(), RandomRetention()], ids=lambda policy: policy.kind)
def test_what_only_the_request_says_is_lost_where_it_is_dropped(policy: Policy) -> None:
    for done, seed in zip(runs(policy), SEEDS, strict=True):
        told = {fact.name for fact in SUITE["flashcards"](seed).facts if fact.said_in == "prompt"}
        resting = {check.name for check in SUITE["flashcards"](seed).checks if told & set(check.rests_on)}
        assert done.failed & resting
        assert done.score < 1
