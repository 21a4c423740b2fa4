"""The setting that is judged was chosen elsewhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.replay.choice import MIN_GROUPS, cross_fit, split_halves


def test_a_setting_that_is_best_everywhere_is_chosen_and_its_whole_saving_reported():
    as_it_was = np.array([10.0, 8.0, 6.0, 4.0, 2.0])
    costs = np.stack([as_it_was, 0.8 * as_it_was, 1.5 * as_it_was], axis=1)
    choice = cross_fit(costs, as_it_was, ["as it was", "good", "bad"])
    assert choice is not None
    assert choice.chosen == ("good", "good")
    assert np.isclose(choice.saving_usd, 6.0)
    assert (choice.dearer, choice.groups) == (0, 5)
    assert choice.low_usd <= choice.saving_usd <= choice.high_usd


def test_too_few_groups_choose_nothing():
    assert cross_fit(np.ones((MIN_GROUPS - 1, 2)), np.ones(MIN_GROUPS - 1), ["as it was", "other"]) is None


@given(st.integers(0, 1_000))
def test_the_saving_is_not_larger_than_that_of_the_best_settings_in_hindsight(seed):
    rng = np.random.default_rng(seed)
    as_it_was = rng.uniform(1, 10, 9)
    costs = as_it_was[:, None] * np.concatenate([np.ones((9, 1)), rng.uniform(0.5, 1.5, (9, 6))], axis=1)
    choice = cross_fit(costs, as_it_was, [str(number) for number in range(7)])
    first = split_halves(as_it_was)
    savings = as_it_was[:, None] - costs
    assert choice is not None
    assert choice.saving_usd <= savings[first].sum(axis=0).max() + savings[~first].sum(axis=0).max() + 1e-9


def test_on_noise_alone_the_mean_saving_is_not_positive():
    """Naively chosen, the best of 20 settings that change nothing on average would seem to save."""
    naive, fitted = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        as_it_was = np.full(10, 10.0)
        costs = as_it_was[:, None] + rng.normal(0, 2, (10, 20))
        choice = cross_fit(costs, as_it_was, [str(number) for number in range(20)])
        assert choice is not None
        fitted.append(choice.saving_usd)
        naive.append((as_it_was[:, None] - costs).sum(axis=0).max())
    assert np.mean(naive) > 8
    assert abs(np.mean(fitted)) < 2.5


@given(st.lists(st.floats(0.01, 1_000), min_size=4, max_size=30))
def test_halves_differ_by_one_group_at_most(costs):
    first = split_halves(np.array(costs))
    assert abs(int(first.sum()) - int((~first).sum())) <= 2
