"""Paired ratios of totals and medians: the arithmetic, and the bootstrap interval over many tasks."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from harness.analysis.paired_ratios import compute_paired_ratio


def ratio_pairs(a, b, tasks=None):
    return pd.DataFrame({"task": tasks or ["t"] * len(a), "x_a": a, "x_b": b})


def test_totals_and_medians_tell_a_long_tail_apart():
    ratio = compute_paired_ratio(ratio_pairs([1, 1, 1, 10], [1, 1, 1, 100], tasks=list("abcd")), "x")
    assert ratio.ratio_of_totals == pytest.approx(13 / 103)
    assert (ratio.median_a, ratio.median_b, ratio.lower_share) == (1, 1, 0.25)


def test_there_is_no_bootstrap_interval_under_sixty_tasks():
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(2, 60))
    fewer = ratio_pairs(values[0][:59], values[1][:59], tasks=[str(i) for i in range(59)])
    assert np.isnan(compute_paired_ratio(fewer, "x").ratio_of_totals_interval).all()
    many = compute_paired_ratio(ratio_pairs(values[0], values[1], tasks=[str(i) for i in range(60)]), "x")
    assert many.ratio_of_totals_interval.low < many.ratio_of_totals < many.ratio_of_totals_interval.high


def test_the_task_is_resampled_and_not_its_trials():
    values, tasks = np.random.default_rng(0).lognormal(size=(2, 60)), [str(i) for i in range(60)]
    once = ratio_pairs(values[0], values[1], tasks=tasks)
    repeated = pd.concat([once] * 5, ignore_index=True)
    intervals = [compute_paired_ratio(one, "x").ratio_of_totals_interval for one in (once, repeated)]
    assert tuple(intervals[0]) == pytest.approx(tuple(intervals[1]))


def test_unknown_values_are_left_out_and_zero_values_are_part_of_the_totals():
    ratio = compute_paired_ratio(ratio_pairs([1.0, None, 0.0, 4.0], [2.0, 1.0, 1.0, 4.0]), "x")
    assert (ratio.pairs, ratio.excluded_pairs) == (3, 1)
    assert ratio.ratio_of_totals == pytest.approx(5 / 7)
    assert (ratio.median_a, ratio.median_b) == (1.0, 2.0)
    assert np.isnan(compute_paired_ratio(ratio_pairs([1.0, 2.0], [0.0, 0.0]), "x").ratio_of_totals)
    assert compute_paired_ratio(ratio_pairs([0.0, 0.0], [0.0, 0.0]), "x").pairs == 0


def test_no_known_value_gives_no_number():
    ratio = compute_paired_ratio(ratio_pairs([None, None], [1.0, 2.0]), "x")
    assert ratio.pairs == 0
    assert np.isnan(ratio.ratio_of_totals)


def test_the_same_table_gives_the_same_interval():
    values, tasks = np.random.default_rng(0).lognormal(size=(2, 60)), [str(i) for i in range(60)]
    table = ratio_pairs(values[0], values[1], tasks=tasks)
    assert compute_paired_ratio(table, "x") == compute_paired_ratio(table, "x")


def test_the_bootstrap_interval_is_that_of_scipy():
    top, bottom = np.random.default_rng(1).lognormal(size=(2, 70))
    ratio = compute_paired_ratio(ratio_pairs(top, bottom, tasks=[f"{place:02}" for place in range(70)]), "x")
    expected = bootstrap(
        (top, bottom),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert tuple(ratio.ratio_of_totals_interval) == pytest.approx(tuple(expected))
