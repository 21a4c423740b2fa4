"""Shades of cells: the ends of the colours follow the values, and are never nearer than the ends of the widest interval."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.measures import METRICS
from harness.reporting.page.shades import NO_DIFFERENCE, SHADES, shade_differences, shade_values

VALUES = st.lists(st.none() | st.floats(0, 1), max_size=8)


def estimates(values, half_width=0.0):
    return [None if value is None else [5, value, value - half_width, value + half_width, "", ""] for value in values]


@given(VALUES, st.floats(0, 0.5))
def test_shades_follow_the_values_and_cells_without_a_value_have_none(values, half_width):
    shades, low, high = shade_values(METRICS["cost"], estimates(values, half_width))
    assert [shade is None for shade in shades] == [value is None for value in values]
    known = sorted((value, shade) for value, shade in zip(values, shades, strict=True) if value is not None and shade is not None)
    assert all(one[1] <= other[1] for one, other in pairwise(known))
    assert all(0 <= shade < SHADES for _, shade in known)
    if low is None or high is None:
        assert known == []
    else:
        assert high - low >= max(known[-1][0] - known[0][0], 2 * half_width) - 1e-9


def test_differences_within_the_widest_interval_do_not_look_large():
    assert shade_values(METRICS["score"], estimates([0.2, 0.4, 0.6])).shades == [0, 4, 7]
    assert shade_values(METRICS["score"], estimates([0.48, 0.5, 0.52], 0.4)).shades == [3, 4, 4]
    assert shade_differences(METRICS["score"], estimates([-0.1, 0.0, 0.1])) == [0, NO_DIFFERENCE, 6]
    assert shade_differences(METRICS["score"], estimates([-0.1, 0.0, 0.1], 0.5)) == [2, NO_DIFFERENCE, 4]


def test_the_ends_of_shares_lie_between_0_and_1_unless_an_interval_is_wider():
    _, low, high = shade_values(METRICS["score"], estimates([0.95, 1.0], 0.2))
    assert (low, high) == pytest.approx((0.6, 1.0))


def test_ratios_have_shades_by_their_logarithms():
    assert shade_differences(METRICS["cost"], estimates([0.5, 1.0, 2.0])) == [0, NO_DIFFERENCE, 6]
    assert shade_differences(METRICS["cost"], [[3, 0.0, None, None, "", ""], None]) == [None, None]
    assert shade_differences(METRICS["cost"], [[3, 2.0, None, None, "", ""]]) == [6]
