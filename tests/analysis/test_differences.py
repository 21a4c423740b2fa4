"""The paired difference of scores."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from harness.analysis.differences import paired_difference


def pairs(a, b, tasks=None):
    return pd.DataFrame({"task": tasks or ["t"] * len(a), "seed": range(len(a)), "score_a": a, "score_b": b})


def test_the_interval_is_that_of_the_paired_t_test():
    a, b = [0.5, 0.75, 1.0, 0.25], [0.25, 0.5, 1.0, 0.5]
    found, expected = paired_difference(pairs(a, b), "score"), ttest_rel(a, b).confidence_interval(0.95)
    assert found.mean == pytest.approx(0.0625)
    assert list(found.interval) == pytest.approx([expected.low, expected.high])


def test_the_task_is_the_unit_and_not_its_trials():
    few = paired_difference(pairs([0.5, 1.0], [0.25, 1.0], ["x", "y"]), "score")
    many = paired_difference(pairs([0.5] * 9 + [1.0], [0.25] * 9 + [1.0], ["x"] * 9 + ["y"]), "score")
    assert (many.units, many.unit, many.pairs) == (2, "task", 10)
    assert (many.mean, many.interval) == (few.mean, few.interval)


def test_one_unit_has_no_interval_and_equal_units_have_one_of_no_width():
    assert np.isnan(paired_difference(pairs([1.0], [0.5]), "score").interval).all()
    assert paired_difference(pairs([1.0, 0.75], [0.75, 0.5]), "score").interval == (0.25, 0.25)


def test_no_pair_has_no_difference():
    assert np.isnan(paired_difference(pairs([], []), "score").mean)
