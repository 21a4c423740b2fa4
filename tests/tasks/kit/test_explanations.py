"""Explanations of failed checks, which people read beside the title of the check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks.kit.explanations import (
    MAX_VALUE_CHARACTERS,
    cut,
    describe_value,
    explain_difference,
    explain_lines,
    explain_new_line,
    explain_parts,
    explain_statements,
    list_names,
)

ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
"""Values that an answer of an agent's code can have, as they are read from JSON."""


@given(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3))
def test_any_answer_can_be_explained(answer, expected):
    labels = [f"part {number}" for number in range(len(expected))]
    assert 0 < len(describe_value(answer)) <= MAX_VALUE_CHARACTERS
    assert "expected" in explain_difference(expected[0], answer, "a")
    if answer != expected:
        assert "part" in explain_parts(expected, answer, labels) or answer == expected
    assert explain_statements("a.md", dict(zip(labels, expected, strict=True)), answer if isinstance(answer, dict) else {})


def test_a_deeply_nested_answer_can_be_explained():
    answer: list[object] = []
    for _ in range(100_000):
        answer = [answer]
    assert describe_value(answer) == "((...))"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "nothing"),
        ({}, "nothing"),
        (None, "nothing"),
        ("", "an empty text"),
        (True, "yes"),
        ("a", "'a'"),
        ([2, "a", [3, 4]], "2, 'a' and (3 and 4)"),
        ({"a": [1], "b": False}, "a (1), b no"),
    ],
)
def test_values_are_described_without_brackets_of_python(value, text):
    assert describe_value(value) == text


def test_names_are_listed_and_the_others_counted():
    assert (list_names([]), list_names(["a"]), list_names(["a", "b", "c"])) == ("nothing", "a", "a, b and c")
    assert list_names(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert (cut("abcdef", 6), cut("abcdefg", 6)) == ("abcdef", "abc...")


def test_an_exception_is_no_value_that_was_found():
    text = explain_difference(5, "ModuleNotFoundError: No module named 'a'", "longest interval")
    assert text == "longest interval: expected 5, but the agent's code ended with ModuleNotFoundError: No module named 'a'"
    assert explain_difference(5, "Errors: none") == "expected 5, found 'Errors: none'"


def test_statements_are_named_that_are_wrong_missing_or_not_asked_for():
    expected = {"zone": "H", "reviewer": "Brandt"}
    assert explain_statements("a.md", expected, {"zone": "B", "room": "7"}) == (
        "a.md: zone should be 'H', but is 'B'; reviewer should be 'Brandt', but is missing; "
        "it also states room, which it should not"
    )
    assert explain_statements("a.md", expected, {"zone": ["H", "B"], "reviewer": "Brandt"}) == (
        "a.md: zone should be 'H', but is 'H' and 'B'"
    )
    assert explain_statements("a.md", expected, {}) == (
        "a.md is empty or missing, or states nothing in the agreed form; it should state zone and reviewer"
    )


def test_lines_are_named_that_are_missing_or_not_asked_for():
    assert explain_lines("a.log", ["x"], []) == "a.log is empty or missing; it should have the line 'x'"
    assert explain_lines("a.log", ["x", "y"], ["x", "z"]) == "a.log lacks the line 'y' and has the line 'z', not asked for"
    assert explain_lines("a.log", ["x", "y"], ["y", "x"]) == "a.log has the right lines, but not each of them once and in order"
    assert explain_new_line("a.md", [], "begins with 'x'") == "a.md should have one new line that begins with 'x'; found none"
    assert explain_new_line("a.md", ["y", "z"], "begins with 'x'").endswith("; found 2: 'y' and 'z'")
