"""Comparisons of judges, and the runs of the tests that an agent wrote."""

import re
from dataclasses import replace

import pytest

from harness.session.grading import grade_workspace
from harness.task import FunctionChange, Grader
from harness.tasks.kit.graders import (
    MAX_PAPER_CHARACTERS,
    check_tests,
    combine,
    compare,
    compare_words,
    make_interviews,
    read_json_object,
)
from harness.testing.fakes import MemorySandbox
from tests.experiment.tiny_task import tiny
from tests.tasks.workshop import FolderSandbox


def on_files(judge, **files):
    """Return what a function finds in a submission with some files."""
    findings = []

    def judging(submission):
        findings.append(judge(submission))
        return ()

    sandbox = MemorySandbox()
    for name, text in files.items():
        sandbox.write(f"{name}.txt", text.encode())
    grade_workspace(replace(tiny(1), grader=Grader(judge=judging)), sandbox)
    return findings[0]


def test_an_answer_must_be_there_and_equal_to_one_that_is_expected():
    assert compare({"x": 5}, "x", 4, 5).passed
    assert compare({"x": 5}, "x", 4, about="new cards") == (False, "new cards: expected 4, found 5")
    assert compare({}, "x", None) == (False, "x: no answer of the agent's code")


def test_of_an_answer_with_parts_only_the_wrong_parts_are_explained():
    labels = ("front", "tags")
    assert compare({"x": ["a", ["b"]]}, "x", ["a", ["b", "c"]], about=labels).detail == "tags: expected 'b' and 'c', found 'b'"
    assert compare({"x": "KeyError: 'a'"}, "x", ["a", []], about=labels).detail == (
        "the agent's code ended with KeyError: 'a'; expected front 'a', tags nothing"
    )
    closest = compare({"x": ["a", "z"]}, "x", ["q", "y"], ["a", "y"], about=labels)
    assert closest.detail == "tags: expected 'y', found 'z'"


def test_missing_words_are_named_in_plain_words():
    def read(text):
        return on_files(lambda submission: compare_words(submission, "a.txt", "FC-1", "port"), a=text).detail

    assert read("port FC-1") == ""
    assert read("port") == "a.txt does not contain 'FC-1'"
    guesses = " ".join(f"FC-{number}" for number in range(90))
    assert read(guesses) == "a.txt does not contain 'port'; a.txt lists many possible values instead of 'FC-1'"
    assert read("") == "a.txt is empty or missing"


def test_conditions_are_combined_with_the_details_of_those_that_do_not_hold():
    assert combine((True, "a"), (True, "b")) == (True, "")
    assert combine((True, "a"), (False, "b"), (False, "c")) == (False, "b; c")


@pytest.mark.parametrize(
    ("text", "passed"),
    [("it is 42 now", True), ("`42`", True), ("42", True), ("142 is it", False), ("-42", False), ("", False)],
)
def test_value_words_must_stand_alone(text, passed):
    assert on_files(lambda submission: compare_words(submission, "a.txt", "42"), a=text).passed is passed


@pytest.mark.parametrize("word", ["HQ-4213", "`42`", "r777", "30 days", "2026-03-04", "314159"])
def test_a_paper_that_lists_guesses_contains_no_word(word):
    """Few words of the same form are no guesses, and many numbers are none either."""

    def contains(text):
        return on_files(lambda submission: compare_words(submission, "a.txt", word), a=text).passed

    digits = re.findall(r"\d+", word)[0]
    first = 10 ** (len(digits) - 1) if word == digits else 1000
    guesses = " ".join(word.replace(digits, str(number), 1) for number in range(first, first + 8999))
    assert contains(f"{word} {guesses[:100]} {' '.join(map(str, range(500)))}")
    assert not contains(f"{word} {guesses[:2000]}")
    assert not contains(f"{word} {guesses}")
    assert not contains(f"{word} {'x' * MAX_PAPER_CHARACTERS}")


@pytest.mark.parametrize(("word", "value"), [("north", "north"), ("`north`", "north"), ("north_KEY", "north"), ("`7`", "7")])
def test_a_paper_that_lists_the_possible_values_contains_none_of_them(word, value):
    options = [value, *(["3", "4", "5", "8", "9"] if value == "7" else ["south", "east", "west", "inland", "coast"])]

    def contains(count):
        text = " ".join(word.replace(value, option) for option in options[:count])
        return on_files(lambda submission: compare_words(submission, "a.txt", word, choices={"side": options}), a=text).passed

    assert contains(1)
    assert contains(3)
    assert not contains(5)
    assert not contains(6)


@pytest.mark.parametrize("text", ["", "[1]", "5", "{", "[" * 100_000, '{"a": ' * 100_000])
def test_a_file_without_a_json_object_is_read_as_an_empty_one(text):
    assert on_files(lambda submission: read_json_object(submission, "a.txt"), a=text) == {}
    assert on_files(lambda submission: read_json_object(submission, "a.txt"), a='{"b": [1]}') == {"b": [1]}


@pytest.mark.parametrize(
    ("answers", "passed"),
    [
        ({"tests": [[9, []]], "broken_tests": [[1, ["t"]]]}, True),
        ({"tests": [[9, []], [10, []]], "broken_tests": [[1, ["t"]], "SystemExit: 1"]}, True),
        ({"tests": [[9, []], [8, []]], "broken_tests": [[1, ["t"]]]}, False),
        ({"tests": [[9, ["t"]]], "broken_tests": [[1, ["t"]]]}, False),
        ({"tests": [[9, []], [9, ["t"]]], "broken_tests": [[1, ["t"]]]}, False),
        ({"tests": [[9, []]], "broken_tests": [[9, []]]}, False),
        ({"tests": [[9, []]], "broken_tests": [[1, ["t"]], [0, []]]}, False),
        ({"tests": [[9, []]]}, False),
        ({"tests": ["9"], "broken_tests": [[1, ["t"]]]}, False),
        ({"tests": [[]], "broken_tests": [[1, ["t"]]]}, False),
        ({"broken_tests": [[1, ["t"]]]}, False),
        ({}, False),
    ],
)
def test_tests_must_pass_and_notice_a_wrong_function(answers, passed):
    assert check_tests({**answers, "survey": {"tests": 9, "missing": []}}, 9).passed is passed


def test_tests_that_are_not_in_the_files_do_not_count():
    answers = {"tests": [[9, []]], "broken_tests": [[1, ["t"]]]}
    assert check_tests({**answers, "survey": {"tests": 8, "missing": []}}, 9) == (
        False,
        "8 tests passed, expected at least 9; 8 tests in the files use the modules",
    )


def test_failed_tests_are_counted_and_one_is_named():
    survey = {"tests": 9, "missing": []}
    assert check_tests({"tests": [[9, ["a.T.test_b", "c"]]], "survey": survey}, 9).detail == (
        "2 of 9 tests failed: a.T.test_b and 1 more"
    )
    assert check_tests({"tests": [[0, ["exit status 1"]]], "survey": survey}, 9).detail == (
        "the tests did not run to their end: 'exit status 1'"
    )


def test_functions_that_are_missing_are_named():
    answers = {"tests": [[9, []]], "survey": {"tests": 9, "missing": ["agent.py: double"]}}
    assert check_tests(answers, 9).detail.endswith("; not found: agent.py: double")


CASE = "import unittest\n\nimport agent\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        {}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "passed"),
    [
        ("self.assertEqual(agent.double(4), 8)", True),
        ("self.assertEqual(agent.double(4), 9)", False),
        ("self.assertTrue(agent)", False),
        ("raise unittest.SkipTest", False),
        ("import sys; sys.exit()", False),
    ],
)
def test_the_tests_of_the_agent_must_notice_a_wrong_function(body, passed, tmp_path):
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "agent.py").write_text("def double(number):\n    return 2 * number\n")
    (tmp_path / "tests" / "deep" / "test_x.py").write_text(CASE.format(body))
    verdicts = []

    def judge(submission):
        verdicts.append(check_tests(submission.ask(), 1).passed)
        return ()

    change = FunctionChange(path="agent.py", function="double", kind="number", wrong=("value + 1",))
    interviews = make_interviews("", (), (change,))
    grade_workspace(replace(tiny(1), grader=Grader(judge=judge, interviews=interviews)), FolderSandbox(tmp_path))
    assert verdicts == [passed]
    assert (tmp_path / "agent.py").read_text().endswith("return 2 * number\n")
