"""Building blocks of graders: checks, interviews (programs that call the agent's Python code), and comparisons.

The judge of a grader (a function, see `harness.task.Grader`) compares the agent's files, and the answers of its code, with
expected values. Each comparison returns whether a condition holds, and a description of what was found. It never raises an
exception, whatever the agent's code answers.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.task import Check, FunctionChange, Interview, Submission
from harness.tasks.kit.explanations import cut, describe_value, explain_difference, explain_parts, explain_statements, list_names
from harness.tasks.kit.texts import fill_text

MAX_PAPER_CHARACTERS = 32_000
"""Maximum length in characters of a document that must contain certain words; a longer document counts as a list of guesses."""
MAX_ALTERNATIVES = 60
"""Maximum number of words of one form, such as ticket numbers, in a document; more of them count as a list of guesses."""

MIN_CHOICES = 5
"""Minimum number of possible values of a fact for which a list of guesses is recognized.

With fewer possible values, an honest document may name most of them.
"""
MAX_CHOICES = 10_000
"""Maximum number of possible values of a fact that are searched for in a document, one by one.

With more possible values, a list of guesses is recognized by many words of the same form.
"""
MIN_LONG_DIGITS = 5
"""Minimum number of digits of a number, e.g. `30151`, for which all numbers with as many digits count as words of its form."""


class ComparisonResult(NamedTuple):
    """Whether a part of the agent's work is right, with an explanation of what was expected and what was found.

    Only the explanation of a part that is not right is shown.
    """

    passed: bool
    detail: str


def make_check(name: str, title: str, *required_facts: str) -> Check:
    """Make a check, i.e. a condition that the agent's work has to fulfil at the end of the task.

    Args:
        name: Name of the check, unique in the task.
        title: Description of the condition for people.
        required_facts: Names of the facts without which an agent passes the check only by luck.
    """
    return Check(name=name, title=title, required_facts=required_facts)


def describe_initial_files(files: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, Any]:
    """Return data on the initial files, from which a grader recognizes at the end what the agent has changed.

    Args:
        files: Text of each file in the initial workspace, by path.
        prefixes: Beginnings of the paths of the files whose digests and number of tests are returned.

    Returns:
        A dictionary with three entries. `hashes` has the digest of each selected file by path, `tests` the number of tests in
        the selected files, and `entries` the lines of the change log.
    """
    texts = {path: text for path, text in files.items() if path.startswith(prefixes)}
    return {
        "hashes": {path: hash_text(text) for path, text in texts.items()},
        "tests": sum(text.count("def test_") for text in texts.values()),
        "entries": files["CHANGELOG.md"].splitlines(),
    }


def hash_text(text: str) -> str:
    """Return a short SHA-256 digest (16 hexadecimal digits) of the text of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_interviews(source: str, questions: Sequence[str], changes: Sequence[FunctionChange]) -> tuple[Interview, ...]:
    """Make the programs that call the agent's modules and run its tests.

    The tests run several times, in some runs with a function that is wrong on purpose. The answers are two lists of test results:
    `tests` for the runs with right functions, and `broken_tests` for the others (see `check_tests`). The order of the runs is
    random, so that the agent's code cannot tell them apart.

    Args:
        source: Python source that defines a function for each question about the modules.
        questions: Names of the functions that answer questions about the agent's modules.
        changes: Functions of the agent that are changed; see `harness.task.FunctionChange`.
    """
    stems = dict.fromkeys(PurePosixPath(change.path).stem for change in changes)
    suite = fill_text(__package__, "suite.py", {"changed": repr([*stems])})
    interviews = (Interview(source=source, questions=tuple(questions)),) if questions else ()
    return (*interviews, Interview(source=suite, questions=("tests",), changes=tuple(changes), tests="tests"))


def check_tests(answers: Mapping[str, Any], min_tests: int) -> ComparisonResult:
    """Check that the agent has written enough tests, that they pass, and that one fails whenever a function is wrong.

    A test counts if it was found in the files (answer `survey`), and if it ran and was not skipped.

    Args:
        answers: Answers `tests`, `broken_tests` and `survey` of the interview (see `make_interviews`), by name of the question.
            An answer about a run is a list: number of tests that ran, and names of those that failed.
        min_tests: Minimum number of tests that have to pass.
    """
    if not answers.get("tests"):
        return ComparisonResult(False, "the tests gave no result")
    counts = []
    for answer in answers["tests"]:
        match answer:
            case [int(count), []]:
                counts.append(count)
            case [int(count), [*failed]] if count:
                names = list_names([cut(str(name), 120) for name in failed], 1)
                return ComparisonResult(False, f"{len(failed)} of {count} tests failed: {names}")
            case _:
                reason = answer[1] if isinstance(answer, list) and len(answer) == 2 else answer
                return ComparisonResult(False, f"the tests did not run to their end: {describe_value(reason)}")
    survey = answers.get("survey", {"tests": 0, "missing": []})
    if "broken_tests" not in answers:
        missing = f"; not found: {', '.join(survey['missing'])}" if survey["missing"] else ", or changed files before"
        return ComparisonResult(False, f"the tests did not run to their end with functions that were wrong on purpose{missing}")
    for answer in answers["broken_tests"]:
        match answer:
            case [int(), []]:
                words = "all {} tests passed although a function was made wrong on purpose; at least one should have failed"
                return ComparisonResult(False, words.format(min(counts)))
    test_count = min(survey["tests"], *counts)
    detail = f"{test_count} tests passed, expected at least {min_tests}; {survey['tests']} tests in the files use the modules"
    return ComparisonResult(test_count >= min_tests, detail)


def compare(answers: Mapping[str, Any], question: str, *expected: object, about: str | Sequence[str] = "") -> ComparisonResult:
    """Check that an answer of the agent's code equals one of the expected answers.

    Args:
        answers: Answers of the agent's code, by name of the question.
        question: Name of the question.
        expected: Right answers, of which one is enough.
        about: Words for the value that is asked for or, if the answer is a list, for each of its items. Default: the question.
    """
    if question not in answers:
        return ComparisonResult(
            False, f"{about if about and isinstance(about, str) else question}: no answer of the agent's code"
        )
    answer = answers[question]
    if answer in expected:
        return ComparisonResult(True, "")
    if isinstance(about, str):
        return ComparisonResult(False, explain_difference(expected[0], answer, about or question))
    explanations = [explain_parts(value, answer, about) for value in expected if isinstance(value, list)]
    return ComparisonResult(False, min(explanations, key=len))


def combine(*outcomes: tuple[bool, str]) -> ComparisonResult:
    """Combine the results of several comparisons.

    The combined result passes if all of them pass. It describes only those that fail.
    """
    return ComparisonResult(all(passed for passed, _ in outcomes), "; ".join(detail for passed, detail in outcomes if not passed))


def compare_words(
    submission: Submission, path: str, *words: str, choices: Mapping[str, Sequence[object]] = MappingProxyType({})
) -> ComparisonResult:
    """Check that a file contains all of the given words, each as a whole word, and is no list of guesses.

    Lists of guesses are files that are very long, that have very many words of the same form, or that have most of the values
    from which a word was drawn.

    Args:
        submission: Work of the agent.
        path: Path of the file in the workspace.
        words: Words that the file must contain.
        choices: Possible values by name, from which words were drawn. Words may contain more than a value, e.g. quotation marks.
    """
    text = submission.read_text(path)
    if len(text) > MAX_PAPER_CHARACTERS:
        return ComparisonResult(False, f"{path} has {len(text):,} characters, more than {MAX_PAPER_CHARACTERS:,}")
    missing = [word for word in words if not _find_words(re.escape(word), text)]
    guessed_words = [
        word
        for word in words
        if len(_find_words(_describe_form(word), text)) > MAX_ALTERNATIVES or _lists_choices(word, text, choices)
    ]
    if not text:
        return ComparisonResult(False, f"{path} is empty or missing")
    parts = [
        f"{path} {verb} {', '.join(map(repr, found))}"
        for verb, found in (("does not contain", missing), ("lists many possible values instead of", guessed_words))
        if found
    ]
    return ComparisonResult(not parts, "; ".join(parts))


def _find_words(pattern: str, text: str) -> set[str]:
    return set(re.findall(rf"(?<![\w-]){pattern}(?![\w])", text))


def _lists_choices(word: str, text: str, choices: Mapping[str, Sequence[object]]) -> bool:
    """Return whether a text contains most of the values from which a word was drawn, or very many of them."""
    # Short numbers of different facts are easily equal, so more than three quarters of the possible numbers are needed.
    share = 0.75 if re.search(r"\d", word) else 0.5
    for options in choices.values():
        if not MIN_CHOICES <= len(options) <= MAX_CHOICES:
            continue
        value = max((str(option) for option in options if str(option) in word), key=len, default="")
        alternatives = [word.replace(value, str(option)) for option in options] if value else []
        count = sum(1 for alternative in alternatives if alternative in text and _find_words(re.escape(alternative), text))
        if count > min(share * len(options), MAX_ALTERNATIVES):
            return True
    return False


def _describe_form(word: str) -> str:
    """Return a regular expression for all words of the same form, e.g. `FC-` and any number for `FC-12`.

    For a number with many digits, these are all numbers of this length. For a short number, or a word without digits, it is only
    the word itself.
    """
    if word.isdecimal() and len(word) >= MIN_LONG_DIGITS:
        return rf"\d{{{len(word)}}}"
    parts = re.split(r"\d+", word)
    return r"\d+".join(map(re.escape, parts)) if any(parts) else re.escape(word)


def compare_statements(lines: Sequence[str], path: str, expected: Mapping[str, str]) -> ComparisonResult:
    """Check that a document states each value once, on a line `- NAME: VALUE` of its own.

    Args:
        lines: Lines of the document.
        path: Path of the document.
        expected: Right value by name; in the document, spaces take the place of underscores in names.
    """
    values = {name.replace("_", " "): value for name, value in expected.items()}
    found = {label: stated for label in values if (stated := _find_stated(lines, label))}
    is_right = found == {label: [value] for label, value in values.items()}
    return ComparisonResult(is_right, explain_statements(path, values, {name: _unwrap(stated) for name, stated in found.items()}))


def _find_stated(lines: Sequence[str], label: str) -> list[str]:
    return [line.removeprefix(f"- {label}: ") for line in lines if line.startswith(f"- {label}: ")]


def _unwrap(values: list[str]) -> object:
    return values[0] if len(values) == 1 else values


def compare_entries(found: Mapping[str, object], path: str, expected: Mapping[str, object]) -> ComparisonResult:
    """Check that the JSON object in a file has each of the expected entries; it may have others.

    Args:
        found: JSON object in the file.
        path: Path of the file.
        expected: Right value by key.
    """
    stated = {key: found[key] for key in expected if key in found}
    return ComparisonResult(stated == expected, explain_statements(path, expected, stated))


def list_new_lines(submission: Submission, path: str, initial_lines: Sequence[str], beginning: str = "") -> list[str]:
    """Return the lines that the agent appended to a file; none if it changed or deleted an initial line.

    Args:
        submission: Work of the agent.
        path: Path of the file in the workspace.
        initial_lines: Lines of the file at the start of the task, as the grader knows them; the agent may have changed the file.
        beginning: Text with which a line must begin to count, both among the initial lines and in the final file.
    """
    initial = [line for line in initial_lines if line.startswith(beginning)]
    lines = [line for line in submission.read_text(path).splitlines() if line.startswith(beginning)]
    return lines[len(initial) :] if lines[: len(initial)] == initial else []


def read_json_object(submission: Submission, path: str) -> dict[str, Any]:
    """Return the JSON object in a file of the workspace; empty if the file contains no JSON object."""
    try:
        value = json.loads(submission.read_text(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
