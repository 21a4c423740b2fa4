"""Advice on what to run next: it counts seeds, or says that the question needs another design."""

from math import isnan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.effects import estimate_effect
from harness.reporting.next_step import MAX_SEEDS, TARGET_HALF_WIDTH, Spread, count_needed_seeds, measure_spread

pytestmark = pytest.mark.slow


def draw_pairs(tasks: int, seeds: int, between: float, within: float, number: int = 0) -> pd.DataFrame:
    """Return pairs whose differences in score vary over tasks and over the seeds of a task."""
    generator = np.random.default_rng(number)
    rows = [
        {"task": f"t{task}", "seed": seed, "score_a": 0.5 + shift + within * generator.standard_normal(), "score_b": 0.5}
        for task in range(tasks)
        for shift in [between * generator.standard_normal()]
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


@settings(max_examples=10)
@given(st.floats(0.0, 0.3), st.floats(0.01, 0.3))
def test_the_parts_of_the_variance_are_those_from_which_the_differences_were_drawn(between, within):
    spreads = [measure_spread(draw_pairs(40, 6, between, within, number), "score") for number in range(5)]
    assert np.mean([spread.within for spread in spreads]) == pytest.approx(within**2, rel=0.3)
    assert np.mean([spread.between for spread in spreads]) == pytest.approx(between**2, rel=0.5, abs=0.5 * within**2)


def test_a_single_seed_of_each_task_says_nothing_about_more_seeds():
    spread = measure_spread(draw_pairs(7, 1, 0.1, 0.1), "score")
    assert isnan(spread.within)
    assert isnan(spread.between)


@settings(max_examples=20)
@given(st.floats(0.0, 0.02), st.floats(0.05, 0.3))
def test_the_counted_seeds_narrow_the_interval_to_the_target_and_one_seed_less_does_not(between, within):
    pairs = draw_pairs(7, 4, between, within)
    effect = estimate_effect(pairs, "score", is_tested=False, estimand="tasks like these")
    spread = measure_spread(pairs, "score")
    seeds = count_needed_seeds(effect, spread)

    def predict(number):
        return effect.half_width * (spread.compute_variance(number) / spread.compute_variance(4)) ** 0.5

    if seeds is None:
        assert predict(MAX_SEEDS) > TARGET_HALF_WIDTH - 1e-9
    else:
        assert predict(seeds) <= TARGET_HALF_WIDTH + 1e-9
        assert seeds == 2 or predict(seeds - 1) > TARGET_HALF_WIDTH - 1e-9


def test_no_number_of_seeds_answers_a_question_whose_answer_differs_from_task_to_task():
    pairs = draw_pairs(7, 4, between=0.2, within=0.02)
    effect = estimate_effect(pairs, "score", is_tested=False, estimand="tasks like these")
    spread = measure_spread(pairs, "score")
    assert count_needed_seeds(effect, spread) is None
    assert spread.count_own_seeds() <= 4  # about these tasks, today's seeds are enough


def test_equal_differences_need_no_seeds_of_their_own():
    assert Spread(7, 28, 0.0, 0.0).count_own_seeds() > MAX_SEEDS
