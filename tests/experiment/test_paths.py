"""Tests of dotted paths: looking up and setting values, and refusing converted values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UnknownName
from harness.experiment.paths import flatten, list_changes, list_paths, look_up_value, with_values

KEYS = st.text("abcde", min_size=1, max_size=3)
LEAVES = st.integers() | st.text() | st.booleans() | st.none() | st.lists(st.integers(), max_size=3)
TABLES = st.dictionaries(KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=12))


@given(TABLES)
def test_setting_every_leaf_to_what_it_is_changes_nothing(table):
    assert with_values(table, flatten(table), "axes") == table


@given(TABLES, st.data())
def test_a_value_set_at_a_path_is_read_there_and_nothing_else_changes(table, data):
    flat = flatten(table)
    if not flat:
        return
    path = data.draw(st.sampled_from(sorted(flat)))
    changed = with_values(table, {path: 12345}, "axes")
    assert look_up_value(changed, path) == 12345
    assert {**flatten(changed), path: None} == {**flat, path: None}
    assert flatten(table) == flat


@given(TABLES)
def test_every_leaf_is_a_known_path(table):
    assert set(flatten(table)) <= set(list_paths(table))


def test_an_unknown_path_is_refused_with_the_nearest_ones():
    with pytest.raises(UnknownName, match=r"unknown path in axes: 'policy\.treshold'; did you mean 'policy\.threshold'"):
        with_values({"policy": {"threshold": 0.8}}, {"policy.treshold": 0.5}, "axes")


def test_a_path_through_a_leaf_is_refused():
    with pytest.raises(UnknownName):
        with_values({"seed": 1}, {"seed.deeper": 2}, "axes")


def test_a_table_with_a_kind_is_one_change_and_other_tables_are_many():
    changes = list_changes({"policy": {"kind": "none"}, "sandbox": {"limits": {"pids": 9}}, "replicate": 1})
    assert changes == {"policy": {"kind": "none"}, "sandbox.limits.pids": 9, "replicate": 1}
