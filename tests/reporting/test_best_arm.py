"""Best arm: chosen on one half of the trials and estimated on the other, without the bias of the highest observed value."""

import dataclasses

import numpy as np
import pytest

from harness.errors import UnknownName, UsageError
from harness.experiment.contrasts import Family
from harness.reporting.best_arm import estimate_best_arm
from tests.analysis.selections import results
from tests.reporting.test_claims import SUCCESS, rows

ARMS = 8


def grid(tasks, seeds, arms=ARMS, **changes):
    places = [(f"a{arm}", f"t{task}", seed) for arm in range(arms) for task in range(tasks) for seed in range(seeds)]
    return results([{"arm": arm, "task": task, "seed": seed} | changes for arm, task, seed in places])


def with_scores(tables, scores):
    return dataclasses.replace(tables, trials=tables.trials.assign(score=scores, success=scores > 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "seeds", "halves"), [(12, 2, "tasks"), (3, 8, "seeds")])
def test_the_highest_observed_value_is_too_high_and_that_of_the_other_half_is_not(tasks, seeds, halves):
    tables, rng, truth = grid(tasks, seeds), np.random.default_rng(3), 0.5
    naive, split = [], []
    for study in range(60):
        effects = rng.normal(0, 0.1, (ARMS, tasks, 1)) if halves == "tasks" else 0.0  # arms differ from task to task
        scores = np.clip(truth + effects + rng.normal(0, 0.2, (ARMS, tasks, seeds)), 0, 1).ravel()
        drawn = with_scores(tables, scores)
        naive.append(scores.reshape(ARMS, -1).mean(axis=1).max())
        best = estimate_best_arm(drawn, "score", seed=study)
        assert best.halves == halves
        split.append(best.value)
    assert np.mean(naive) > truth + 0.05
    assert abs(np.mean(split) - truth) < 0.03


def test_the_estimate_has_the_size_the_estimand_and_the_effect_of_its_half():
    tables = grid(12, 1, arms=2)
    scores = np.where(tables.trials["arm"] == "a1", 0.7, 0.1)
    best = estimate_best_arm(with_scores(tables, scores), "score", against="a0")
    assert (best.arm, best.halves, best.estimand, best.trial_count, best.candidate_count) == (
        "a1",
        "tasks",
        "tasks like these",
        6,
        2,
    )
    assert (best.value, best.value_where_chosen) == pytest.approx((0.7, 0.7))
    assert best.effect is not None
    assert best.effect.value == pytest.approx(0.6)
    assert "chosen on one half of the tasks, with 0.70 there; estimated on the other half: 0.70 [" in str(best)


@pytest.mark.slow
def test_the_halves_share_no_task_and_the_same_seed_gives_the_same_halves():
    tables = grid(13, 2, arms=2)
    number = tables.trials["task"].str[1:].astype(int)
    marked = with_scores(tables, 2.0**-number * np.where(tables.trials["arm"] == "a0", 1.0, 0.5))
    best = estimate_best_arm(marked, "score")
    assert estimate_best_arm(marked, "score") == best
    assert 6 * best.value_where_chosen + 7 * best.value == pytest.approx(sum(2.0**-task for task in range(13)))
    assert {estimate_best_arm(marked, "score", seed=seed).value for seed in range(4)} != {best.value}


def test_the_cheapest_arm_is_the_best_by_cost_but_never_a_bound_such_as_oracle():
    tables = grid(2, 4, arms=3)
    costs = tables.trials["arm"].map({"a0": 3.0, "a1": 2.0, "a2": 1.0})
    drawn = dataclasses.replace(
        tables, trials=tables.trials.assign(cost_usd=costs, policy=np.where(costs == 1.0, "oracle", "keep-last"))
    )
    best = estimate_best_arm(drawn, "cost", against="a2")
    assert (best.arm, best.halves, best.estimand, best.candidate_count, best.task_count) == ("a1", "seeds", "these tasks", 2, 2)
    assert best.effect is not None
    assert best.effect.value == pytest.approx(2.0)


def test_tasks_and_seeds_that_an_arm_lacks_are_left_out():
    tables = grid(2, 5, arms=2)
    lost = tables.trials["arm"].eq("a0") & tables.trials["seed"].eq(4)
    drawn = dataclasses.replace(
        tables,
        trials=tables.trials.assign(status=np.where(lost, "crashed", "completed"), reason=np.where(lost, "crashed", "declared")),
    )
    assert estimate_best_arm(drawn, "score").trial_count == 4


@pytest.mark.slow
def test_too_few_units_and_unfinished_plans_are_refused():
    with pytest.raises(UsageError, match=r"12 tasks, or 4 seeds of each task.*got 11 tasks, 3 seeds of.*highest observed"):
        estimate_best_arm(grid(11, 3, arms=2), "score")
    with pytest.raises(UsageError, match="at least 2 arms"):
        estimate_best_arm(grid(12, 1, arms=1), "score")
    with pytest.raises(UnknownName, match="unknown metric 'speed'"):
        estimate_best_arm(grid(12, 1, arms=2), "speed")
    unfinished = rows(Family(contrasts=(SUCCESS,), planned_trials=30), tasks=12)
    with pytest.raises(UsageError, match="24 of 30 planned trials"):
        estimate_best_arm(results(unfinished), "score")
