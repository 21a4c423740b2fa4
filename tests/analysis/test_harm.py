"""Tests of the harm of single compactions, mostly on tables whose harm is known because it was made."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.harm import (
    OUTCOMES,
    compute_harm,
    explain_harm,
    measure_concentration,
    measure_reliability,
    split_halves,
)
from harness.errors import UsageError


def make_twins(effects, *, noise=0.0, repetitions=2, seed=0):
    """Return twins in which each compaction costs `effects[i]` of the score, ten times as many steps, and a tenth in dollars."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, effect in enumerate(effects):
        for repetition in range(repetitions):
            for arm, share in (("as it was", 1.0), ("not compacted", 0.0), ("control text", 1.0), ("facts put back", 0.25)):
                loss = share * effect + noise * rng.standard_normal()
                outcomes = (0.8 - loss, 40 + 10 * loss, 1 + 0.1 * loss)
                rows.append((f"s{number // 2}", number, arm, repetition, *outcomes))
    return pd.DataFrame(rows, columns=["session", "round", "arm", "repetition", *OUTCOMES])


def make_events(count, **predictors):
    numbers = range(count)
    columns = {"session": [f"s{number // 2}" for number in numbers], "round": list(numbers)}
    return pd.DataFrame({**columns, "task": [f"t{number % 4}" for number in numbers], **predictors})


def test_harm_is_the_loss_of_score_and_the_gain_of_steps_and_cost_in_pairs_of_twins():
    effects = [0.0, 0.1, 0.4]
    harm = compute_harm(make_twins(effects))
    assert len(harm) == 6
    means = harm.groupby("round")[list(OUTCOMES)].mean()
    assert means["score"].to_list() == pytest.approx(effects)
    assert means["steps"].to_list() == pytest.approx([10 * effect for effect in effects])
    assert means["cost_usd"].to_list() == pytest.approx([0.1 * effect for effect in effects])
    facts = compute_harm(make_twins(effects), "lost facts").groupby("round")["score"].mean()
    assert facts.to_list() == pytest.approx([0.75 * effect for effect in effects])


def test_pairs_do_not_depend_on_the_order_of_the_rows():
    twins = make_twins([0.1, 0.3], noise=0.1)
    shuffled = twins.sample(frac=1, random_state=1)
    columns = ["session", "round", "repetition"]
    expected, actual = (compute_harm(table).sort_values(columns).reset_index(drop=True) for table in (twins, shuffled))
    pd.testing.assert_frame_equal(expected, actual)


def test_a_missing_twin_is_an_error():
    with pytest.raises(UsageError, match="'as it was' and 'not compacted' do not have the same compactions"):
        compute_harm(make_twins([0.1, 0.2]).iloc[1:])


@pytest.mark.slow
@given(st.lists(st.floats(0.01, 1), min_size=5, max_size=30))
def test_without_noise_the_cross_fitted_share_is_the_true_share(effects):
    halves = split_halves(compute_harm(make_twins(effects)), "score")
    result = measure_concentration(halves, 0.2)
    count = max(1, round(0.2 * len(effects)))
    expected = sum(sorted(effects, reverse=True)[:count]) / sum(effects)
    assert result.share_of_harm == pytest.approx(expected)
    assert result.apparent_share == pytest.approx(expected)
    assert measure_concentration(halves, 1.0).share_of_harm == pytest.approx(1)


@pytest.mark.slow
def test_noise_alone_seems_concentrated_but_is_not_when_cross_fitted():
    """All compactions are equally harmful, so a fifth of them has a fifth of the harm; the naive share is far larger."""
    results = []
    for seed in range(100):
        halves = split_halves(compute_harm(make_twins([0.3] * 20, noise=0.2, seed=seed)), "score")
        results.append(measure_concentration(halves, 0.2))
    assert np.mean([result.share_of_harm for result in results]) == pytest.approx(0.2, abs=0.03)
    assert np.mean([result.apparent_share for result in results]) > 0.4


def test_without_harm_in_total_there_is_no_share():
    halves = split_halves(compute_harm(make_twins([0.0, 0.0, 0.0])), "score")
    assert np.isnan(measure_concentration(halves, 0.5).share_of_harm)
    assert np.isnan(measure_reliability(halves))


@pytest.mark.slow
def test_reliability_is_one_without_noise_and_about_zero_for_noise():
    effects = list(np.linspace(0, 1, 40))
    assert measure_reliability(split_halves(compute_harm(make_twins(effects)), "score")) == pytest.approx(1)
    noisy = [
        measure_reliability(split_halves(compute_harm(make_twins([0.2] * 200, noise=0.2, seed=seed)), "score"))
        for seed in range(20)
    ]
    assert abs(np.mean(noisy)) < 0.1


def test_what_causes_the_harm_explains_it_on_held_out_tasks_and_noise_does_not():
    rng = np.random.default_rng(5)
    lost = rng.integers(0, 6, 60)
    harm = compute_harm(make_twins(list(0.1 * lost), noise=0.05))
    events = make_events(60, lost=lost, other=rng.standard_normal(60))
    explained = explain_harm(harm, "score", events, ["lost"])
    assert explained.reliable_share == pytest.approx(1, abs=0.05)
    assert explain_harm(harm, "score", events, ["other"]).held_out_r2 < 0.05
    assert explain_harm(harm, "score", events, []).held_out_r2 == pytest.approx(0)


def test_what_differs_between_tasks_only_explains_nothing_on_held_out_tasks():
    task = np.arange(60) % 4
    harm = compute_harm(make_twins(list(np.array([0.1, 0.5, 0.2, 0.4])[task]), noise=0.01))
    assert explain_harm(harm, "score", make_events(60, number=task), ["number"]).held_out_r2 < 0


def test_one_repetition_or_one_task_is_too_little():
    harm = compute_harm(make_twins([0.1, 0.2], repetitions=1))
    with pytest.raises(UsageError, match="at least two repetitions"):
        split_halves(harm, "score")
    with pytest.raises(UsageError, match="at least two tasks"):
        explain_harm(compute_harm(make_twins([0.1, 0.2])), "score", make_events(2, lost=[1, 2]).assign(task="t"), ["lost"])
