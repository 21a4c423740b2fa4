"""Sections of the report, with one row per arm."""

import pytest

from harness.reporting.section import shorten_arm_names


def test_arms_of_a_grid_are_named_by_their_values_below_a_heading():
    heading, names = shorten_arm_names(["a=1 b=x", "a=2 b=x", "control"])
    assert heading == "a, b"
    assert names == {"a=1 b=x": "1, x", "a=2 b=x": "2, x", "control": "control"}


@pytest.mark.parametrize("arms", [["a=1"], ["a=1", "b=2"], ["one", "two"], ["a=1 x", "a=2 x"]])
def test_other_arms_keep_their_names(arms):
    assert shorten_arm_names(arms) == ("arm", {arm: arm for arm in arms})
