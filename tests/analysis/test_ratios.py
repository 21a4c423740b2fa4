"""Ratios of what two arms take: the arithmetic, the unit that is resampled, and the warning."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.ratios import paired_ratio


def pairs(a, b, tasks=None, seeds=None):
    n = len(a)
    return pd.DataFrame({"task": tasks or ["t"] * n, "seed": seeds or range(n), "x_a": a, "x_b": b})


def test_totals_and_typical_pair_tell_a_long_tail_apart():
    found = paired_ratio(pairs([1, 1, 1, 10], [1, 1, 1, 100], tasks=list("abcd")), "x")
    assert found.of_totals == pytest.approx(13 / 103)
    assert found.geometric == pytest.approx(0.1 ** (1 / 4))
    assert (found.median_a, found.median_b, found.share_lower) == (1, 1, 0.25)


def test_the_task_is_resampled_and_not_its_trials():
    one_trial = pairs([1.0, 3.0], [2.0, 2.0], tasks=["a", "b"])
    repeated = pd.concat([one_trial] * 10, ignore_index=True)
    assert paired_ratio(repeated, "x").clusters == 2
    assert paired_ratio(repeated, "x").of_totals_interval == paired_ratio(one_trial, "x").of_totals_interval


def test_one_task_is_resampled_by_seed_and_says_so():
    found = paired_ratio(pairs([1.0, 3.0, 2.0], [2.0, 2.0, 2.0]), "x")
    assert (found.unit, found.clusters) == ("seed", 3)
    assert "3 seeds" in found.warning
    assert "nothing about other tasks" in found.warning


def test_a_single_unit_has_no_interval():
    found = paired_ratio(pairs([1.0], [2.0]), "x")
    assert np.isnan(found.of_totals_interval).all()
    assert found.warning == "one seed, so there is no interval"


def test_under_sixty_tasks_there_is_a_warning_and_from_sixty_on_there_is_none():
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(2, 60))
    assert "60 are needed" in paired_ratio(pairs(values[0][:59], values[1][:59], tasks=[str(i) for i in range(59)]), "x").warning
    assert paired_ratio(pairs(values[0], values[1], tasks=[str(i) for i in range(60)]), "x").warning == ""


def test_unknown_and_zero_values_are_left_out_and_counted():
    found = paired_ratio(pairs([1.0, None, 0.0, 4.0], [2.0, 1.0, 1.0, 4.0]), "x")
    assert (found.pairs, found.left_out) == (2, 2)
    assert found.of_totals == pytest.approx(5 / 6)


def test_no_known_value_gives_no_number():
    found = paired_ratio(pairs([None, None], [1.0, 2.0]), "x")
    assert found.pairs == 0
    assert np.isnan([found.of_totals, found.geometric]).all()
    assert found.warning == "no pair has both values"


def test_the_same_table_gives_the_same_interval():
    table = pairs([1.0, 5.0, 2.0, 8.0], [2.0, 2.0, 3.0, 3.0], tasks=list("abcd"))
    assert paired_ratio(table, "x") == paired_ratio(table, "x")


@settings(max_examples=20)
@given(st.floats(0.2, 5), st.integers(2, 12))
def test_a_constant_factor_is_found_without_any_spread(factor, tasks):
    b = np.arange(1.0, tasks + 1)
    found = paired_ratio(pairs(factor * b, b, tasks=[str(i) for i in range(tasks)]), "x", resamples=200)
    assert [found.of_totals, *found.of_totals_interval] == pytest.approx([factor] * 3)
    assert [found.geometric, *found.geometric_interval] == pytest.approx([factor] * 3)


def test_the_interval_covers_the_truth_at_sixty_tasks():
    rng, covered = np.random.default_rng(1), 0
    for _ in range(100):
        a, b = np.exp(rng.normal(0.2, 0.6, 60)), np.ones(60)
        low, high = paired_ratio(pairs(a, b, tasks=[str(i) for i in range(60)]), "x", resamples=400).geometric_interval
        covered += low <= np.exp(0.2) <= high
    assert covered >= 87
