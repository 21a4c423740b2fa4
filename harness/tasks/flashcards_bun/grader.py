"""Grader of the task `flashcards-bun`: checks the agent's documents, and what its modules answer when they are called."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.task import Submission
from harness.tasks.flashcards_bun.program import PROGRAM
from harness.tasks.kit.graders import ComparisonResult, check_tests, compare

MIN_TESTS = 50
"""Minimum number of tests that the agent has to write."""


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    yield from PROGRAM.judge_papers(submission)
    yield from _judge_answers(submission.ask(), submission.expected)


def _judge_answers(answers: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[tuple[str, bool, str]]:
    ease, second, floor = float(values["initial_ease"]), int(values["second_interval_days"]), float(values["ease_floor"])
    limit, draft, program = int(values["new_per_day"]), values["draft_mark"], values["program_name"]
    columns = ("card_id", "front", "back", values["hint_column"], "tags", "deck", "ease", "interval_days", "due_on")
    row = ("a", "Alfa", "diver down", "blue", "letter danger", "flags", "2.00", "9", "2024-03-01")
    about = f"{program} {values['goal_version']}, release {values['release_id']}"
    yield "own_tests", *_check_tests(answers)
    yield "sm2_numbers", *compare(answers, "sm2", [ease, [1, second], floor, [1, 0, 2]])
    tables = sorted(("answers", values["cards_table"]))
    yield "storage_schema", *compare(answers, "schema", [tables, int(values["schema_version"]), True])
    yield "journal_mode", *compare(answers, "journal", values["journal_mode"])
    identifier = answers.get("ids")
    has_form = re.fullmatch(re.escape(values["id_prefix"]) + "[0-9a-f]{10}", str(identifier)) is not None
    yield "ids", has_form, f"an id is {identifier!r}"
    yield "deck_format", *compare(answers, "read", [values["hint_column"], ["x", "y"], ease])
    yield "export_format", *compare(answers, "written", [values["export_separator"].join(line) for line in (columns, row)])
    yield "card_generator", *compare(answers, "generated", [f"A {values['gap_mark']} never slips.", "bowline"])
    yield "drafts", *compare(answers, "hidden", [[draft], ["b"], ["a", "b"]])
    yield "interval_cap", *compare(answers, "cap", int(values["max_interval_days"]))
    yield "new_card_limit", *compare(answers, "room", [limit, limit - 1])
    yield "queue_order", *compare(answers, "order", [values["tie_break"]])
    yield "maturity", *compare(answers, "maturity", int(values["mature_days"]))
    yield "stuck", *compare(answers, "stuck", round(100 * floor))
    yield "about", *compare(answers, "about", [0, [about]])
    usage = str(answers.get("usage"))
    yield "usage", usage.startswith(f"usage: {program} "), f"the usage is {usage!r:.187}"
    yield "idle_status", *compare(answers, "idle", [int(values["idle_status"]), ["nothing is due"]])
    yield "farewell", *compare(answers, "over", [values["farewell"]])


def _read_run(answer: object) -> object:
    """Return the result of a run of the tests as `check_tests` expects it."""
    match answer:
        case [0, [int(count)], [0]]:
            return [count, []]
        case [int(status), _, _] if status > 0:
            return [0, [f"exit status {status}"]]
    return answer


def _check_tests(answers: Mapping[str, Any]) -> ComparisonResult:
    """Check that the agent has written enough tests, that they pass, and that one fails whenever a function is wrong."""
    runs = {name: [*map(_read_run, answers[name])] for name in ("tests", "broken_tests") if name in answers}
    return check_tests({**answers, **runs}, MIN_TESTS)
