"""Regret: cost and failures of an arm in excess of the oracle."""

import pytest

from harness.analysis.regret import compute_regrets
from harness.errors import UsageError
from tests.analysis.selections import results


def arm(name, policy, won, **more):
    return [
        {"arm": name, "policy": policy, "seed": seed, "success": success, "summarizer_cost_usd": 0.0} | more
        for seed, success in enumerate(won)
    ]


def test_regret_is_not_computed_without_an_oracle_arm():
    assert compute_regrets(results([*arm("a", "keep-last", [True]), *arm("none", "none", [True])])) == []


def test_regret_is_the_difference_from_the_oracle_on_the_same_seeds():
    trials = [
        *arm("a", "keep-last", [True, False, False, True], steps=100, cost_usd=4.0, summarizer_cost_usd=0.5),
        *arm("best", "oracle", [True, True, True, True], steps=90, cost_usd=3.0),
    ]
    (regret,) = compute_regrets(results(trials))
    assert (regret.arm, regret.oracle_arm, regret.has_same_budget, regret.counts.pairs) == ("a", "best", True, 4)
    assert regret.success.value == -0.5
    assert regret.success.interval.low < -0.5 < regret.success.interval.high
    assert (regret.steps.value, regret.steps.scale) == (10, "difference")
    assert regret.cost_usd.value == pytest.approx(1.5)


def test_trials_that_repeat_another_trial_are_no_further_evidence():
    trials = [
        {"arm": name, "policy": policy, "replicate": replicate, "success": name == "best" or replicate % 2 == 0}
        | {"trajectory": f"{name} {replicate % 2}"}
        for name, policy in (("a", "keep-last"), ("best", "oracle"))
        for replicate in range(12)
    ]
    (regret,) = compute_regrets(results(trials))
    assert (regret.counts.pairs, regret.success.unit_count) == (12, 2)


def test_an_arm_is_held_against_the_oracle_of_its_own_threshold():
    trials = [
        *arm("best 0.5", "oracle", [True], threshold_tokens=500),
        *arm("best 0.8", "oracle", [True], threshold_tokens=800),
        *arm("a", "keep-last", [True], threshold_tokens=800),
        *arm("none", "none", [True], threshold_tokens=None),
    ]
    oracles = {regret.arm: (regret.oracle_arm, regret.has_same_budget) for regret in compute_regrets(results(trials))}
    assert oracles == {"a": ("best 0.8", True), "none": ("best 0.5", False)}


def test_trials_without_a_partner_or_lost_by_the_machinery_are_left_out():
    trials = [*arm("a", "keep-last", [True, False, True]), *arm("best", "oracle", [True, True])]
    trials[1]["reason"] = "sandbox_error"
    (regret,) = compute_regrets(results(trials))
    assert (regret.counts.pairs, regret.success.value) == (1, 0.0)


def test_levels_are_never_pooled():
    with pytest.raises(UsageError, match="fidelity level"):
        compute_regrets(results([*arm("a", "keep-last", [True], level="L1"), *arm("best", "oracle", [True])]))
