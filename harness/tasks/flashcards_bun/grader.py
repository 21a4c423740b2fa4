"""Grader of the task `flashcards-bun`: checks the agent's documents, and what its modules answer when they are called."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.task import Submission
from harness.tasks.flashcards_bun.program import PROGRAM
from harness.tasks.kit.explanations import explain_difference
from harness.tasks.kit.graders import ComparisonResult, check_tests, compare

MIN_TESTS = 50
"""Minimum number of tests that the agent has to write."""
SM2_PARTS = (
    *("ease of a new card", "intervals in days of two answers", "lowest ease"),
    "interval, repetitions and lapses after a lapse",
)
"""Words for the parts of the answer about the constants of SM-2."""
SCHEMA_PARTS = ("tables of the database", "its version", "a stored card is read back as it was")
"""Words for the parts of the answer about the database."""
DECK_PARTS = ("column of the hint", "tags of the card", "ease of a new card")
"""Words for the parts of the answer about a deck that is read."""
DRAFT_PARTS = ("tags of a draft", "cards shown beside a draft", "cards shown once the draft is approved")
"""Words for the parts of the answer about drafts."""
ROOM_PARTS = ("new cards on a day", "new cards left after one was answered")
"""Words for the parts of the answer about the limit on new cards."""
RUN_PARTS = ("exit status", "output")
"""Words for the parts of the answer about a run of the program."""


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
    yield "sm2_numbers", *compare(answers, "sm2", [ease, [1, second], floor, [1, 0, 2]], about=SM2_PARTS)
    tables = sorted(("answers", values["cards_table"]))
    yield "storage_schema", *compare(answers, "schema", [tables, int(values["schema_version"]), True], about=SCHEMA_PARTS)
    yield "journal_mode", *compare(answers, "journal", values["journal_mode"], about="journal mode of the database")
    identifier = answers.get("ids")
    has_form = re.fullmatch(re.escape(values["id_prefix"]) + "[0-9a-f]{10}", str(identifier)) is not None
    yield "ids", has_form, explain_difference(f"{values['id_prefix']} with 10 hexadecimal digits", identifier, "id of a card")
    yield "deck_format", *compare(answers, "read", [values["hint_column"], ["x", "y"], ease], about=DECK_PARTS)
    written = [values["export_separator"].join(line) for line in (columns, row)]
    yield "export_format", *compare(answers, "written", written, about=("header of a written deck", "line of a card"))
    generated = [f"A {values['gap_mark']} never slips.", "bowline"]
    yield "card_generator", *compare(answers, "generated", generated, about=("front of a generated card", "its back"))
    yield "drafts", *compare(answers, "hidden", [[draft], ["b"], ["a", "b"]], about=DRAFT_PARTS)
    yield "interval_cap", *compare(answers, "cap", int(values["max_interval_days"]), about="longest interval in days")
    yield "new_card_limit", *compare(answers, "room", [limit, limit - 1], about=ROOM_PARTS)
    yield "queue_order", *compare(answers, "order", [values["tie_break"]], about="cards of a day are in the order of")
    yield "maturity", *compare(answers, "maturity", int(values["mature_days"]), about="days from which a card is mature")
    yield "stuck", *compare(answers, "stuck", round(100 * floor), about="stuck cards of 200 with an ease of 0.01 to 2")
    yield "about", *compare(answers, "about", [0, [about]], about=RUN_PARTS)
    usage, beginning = str(answers.get("usage")), f"usage: {program} "
    yield "usage", usage.startswith(beginning), explain_difference(beginning, usage, "beginning of the usage line")
    yield "idle_status", *compare(answers, "idle", [int(values["idle_status"]), ["nothing is due"]], about=RUN_PARTS)
    yield "farewell", *compare(answers, "over", [values["farewell"]], about="output at the end of a session")


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
