"""Comparison of a gateway's arms: false claims at most at 5 %, a planted difference is found."""

import json

import numpy as np
import pandas as pd
import pytest

from harness.analysis.random_arms import (
    METRICS,
    SUCCESS,
    compare_random_arms,
    compute_detectable_difference,
    compute_permutation_p,
    compute_smallest_p,
    describe_differences,
)
from harness.errors import UsageError


def make_trials(random: np.random.Generator, sessions: int = 24, factor: float = 1.0) -> pd.DataFrame:
    arms = random.choice(["a", "b"], sessions)
    sizes = random.lognormal(0, 1, sessions) * np.where(arms == "b", factor, 1.0)
    marks = pd.array(random.random(sessions) < np.where(arms == "b", 1 - 0.5 / factor, 0.5), dtype="boolean")
    marks[random.random(sessions) < 0.2] = pd.NA
    return pd.DataFrame(
        {
            "config_json": [json.dumps({"gateway": {"arm": arm}}) for arm in arms],
            "total_cost_usd": sizes / 10,
            "steps": np.round(20 * sizes),
            "compactions": np.round(sizes),
            "prompt_tokens": np.round(9_000 * sizes),
            "marked_success": marks,
        }
    )


@pytest.mark.slow
def test_two_equal_arms_are_claimed_to_differ_in_at_most_five_percent() -> None:
    random = np.random.default_rng(7)
    runs = 100
    claims = sum(any(row.is_claimed for row in compare_random_arms(make_trials(random))) for _ in range(runs))
    assert claims / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs), claims


def test_a_planted_difference_is_found_with_its_size() -> None:
    rows = compare_random_arms(make_trials(np.random.default_rng(1), sessions=200, factor=3.0))
    assert [row.metric for row in rows] == list(METRICS)
    assert all(row.is_claimed and row.mean > row.baseline_mean and row.low > 0 for row in rows)
    assert describe_differences(rows)[0][0] == "b against a"


def test_success_is_compared_only_where_sessions_are_marked() -> None:
    trials = make_trials(np.random.default_rng(1), sessions=40)
    assert compare_random_arms(trials)[-1].metric == SUCCESS
    assert SUCCESS not in {row.metric for row in compare_random_arms(trials.assign(marked_success=pd.NA))}
    row = compare_random_arms(trials)[-1]
    assert row.sessions + row.baseline_sessions == trials["marked_success"].notna().sum()


def test_marks_that_are_all_equal_have_an_interval_and_a_detectable_difference() -> None:
    row = compare_random_arms(make_trials(np.random.default_rng(1), sessions=40).assign(marked_success=True))[-1]
    assert (row.mean, row.baseline_mean, row.p) == (1.0, 1.0, 1.0)
    assert -0.3 < row.low < 0 < row.high < 0.3
    assert 0 < row.detectable < 1


def test_values_that_are_all_equal_detect_no_difference_that_could_be_named() -> None:
    rows = compare_random_arms(make_trials(np.random.default_rng(1), sessions=40).assign(steps=20))
    steps = next(row for row in rows if row.metric == "steps")
    assert np.isnan(steps.detectable)
    assert next(cells for cells in describe_differences(rows) if cells[1] == "steps")[-1] == "unknown"


def test_too_few_sessions_detect_no_difference_however_large() -> None:
    apart = np.random.default_rng(1)
    least = next(count for count in range(2, 20) if compute_smallest_p(count, count) <= 0.05 / 5)
    assert least == 5  # of the 252 ways to choose five of ten values, two are as extreme as the observed one
    for count in (least - 1, least):
        trials = make_trials(apart, sessions=2 * count).assign(marked_success=[True] * count + [False] * count)
        arms = ["a"] * count + ["b"] * count
        trials["config_json"] = [json.dumps({"gateway": {"arm": arm}}) for arm in arms]
        for metric in METRICS[:-1]:
            trials[metric] = np.arange(2 * count) + np.where(np.array(arms) == "b", 1e6, 0)
        rows = compare_random_arms(trials)
        assert [row.is_claimed for row in rows] == [count == least] * len(rows)
        assert np.isinf([row.detectable for row in rows]).tolist() == [count < least] * len(rows)
        assert {cells[-1] == "none" for cells in describe_differences(rows)} == {count < least}


def test_the_first_arm_that_the_gateway_was_given_is_the_baseline() -> None:
    trials = make_trials(np.random.default_rng(1), sessions=40)
    arms = trials["config_json"].map(lambda text: json.loads(text)["gateway"]["arm"])
    named = [json.dumps({"gateway": {"arm": arm, "arms": ["b", "a"]}}) for arm in arms]
    assert {(row.arm, row.baseline) for row in compare_random_arms(trials.assign(config_json=named))} == {("a", "b")}


@pytest.mark.slow
def test_the_detectable_difference_is_detected_in_four_of_five_studies() -> None:
    random, runs, detected = np.random.default_rng(5), 100, 0
    alpha = 0.05 / 5
    for _ in range(runs):
        a, b = random.normal(10, 2, 40), random.normal(10, 2, 40)
        difference = compute_detectable_difference("steps", a, b, alpha)
        detected += compute_permutation_p(a + difference, b, random) <= alpha
    assert abs(detected / runs - 0.8) < 0.12, detected


def test_equal_values_are_no_difference() -> None:
    assert compute_permutation_p(np.ones(5), np.ones(4), np.random.default_rng(0)) == 1.0


def test_the_permutation_test_agrees_with_counting_all() -> None:
    # of the 20 ways to choose three of six values, two are as extreme as the observed one
    p = compute_permutation_p(np.array([1.0, 2.0, 3.0]), np.array([10.0, 11.0, 12.0]), np.random.default_rng(0))
    assert abs(p - 2 / 20) < 0.01


@pytest.mark.filterwarnings("error")
def test_an_arm_of_equal_values_has_the_interval_of_the_other_one() -> None:
    trials = make_trials(np.random.default_rng(4), sessions=40)
    trials.loc[trials["config_json"].str.contains('"a"'), "steps"] = 20.0
    steps = next(row for row in compare_random_arms(trials) if row.metric == "steps")
    assert steps.low < steps.mean - 20.0 < steps.high


def test_one_session_has_no_interval_and_no_claim() -> None:
    trials = make_trials(np.random.default_rng(2), sessions=40)
    arms = trials["config_json"].str.contains('"a"')
    rows = compare_random_arms(pd.concat([trials[arms].head(1), trials[~arms]]))
    assert not any(row.is_claimed for row in rows)
    assert describe_differences(rows)[0][4].endswith("(no interval)")
    assert describe_differences(rows)[0][5] == "unknown"


def test_a_journal_without_arms_says_how_to_get_them() -> None:
    trials = make_trials(np.random.default_rng(3)).assign(config_json="{}")
    with pytest.raises(UsageError, match="start it with --arm twice or more"):
        compare_random_arms(trials)
