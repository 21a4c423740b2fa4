"""Grader of the task `flashcards-bun`: checks the agent's documents, and what its modules answer when they are called."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.task import FunctionChange, Grader, Interview, Submission
from harness.tasks.flashcards_bun.facts import CHOICES
from harness.tasks.flashcards_bun.structure import Structure
from harness.tasks.kit.graders import ComparisonResult, check_tests, compare, compare_words, list_new_lines, read_json_object
from harness.tasks.kit.sheets import judge_sheets
from harness.tasks.kit.texts import load_text

MIN_TESTS = 50
"""Minimum number of tests that the agent has to write."""
QUESTIONS = (
    *("sm2", "schema", "journal", "ids", "read", "written", "generated", "hidden", "cap", "room", "order", "maturity", "stuck"),
    *("idle", "over", "about", "usage"),
)
"""Names of the questions that the grader asks the agent's modules, in order."""
CHANGES = (
    FunctionChange(path="src/scheduler.ts", function="eased", kind="number", wrong=("value + 0.3", "value * 1.5")),
    FunctionChange(
        path="src/scheduler.ts", function="answered", kind="object", wrong=("undefined", "({})"), attributes=("ease", "lapses")
    ),
    FunctionChange(
        path="src/storage.ts", function="Storage.get", kind="object", wrong=("undefined", "({})"), attributes=("front", "memory")
    ),
    FunctionChange(path="src/decks.ts", function="readDeck", kind="list", wrong=("value.slice(1)", "[]")),
    FunctionChange(path="src/decks.ts", function="asText", kind="text", wrong=("''", "value.toUpperCase()")),
    FunctionChange(path="src/generator.ts", function="drafts", kind="list", wrong=("value.slice(1)", "[]")),
    FunctionChange(path="src/session.ts", function="Session.queue", kind="list", wrong=("value.slice(1)", "[]")),
    FunctionChange(
        path="src/session.ts", function="Session.answer", kind="object", wrong=("undefined", "({})"), attributes=("due", "memory")
    ),
    FunctionChange(
        path="src/numbers.ts", function="numbers", kind="object", wrong=("undefined", "({})"), attributes=("mature", "stuck")
    ),
    FunctionChange(path="src/cli.ts", function="main", kind="number", wrong=("value + 1", "value + 2")),
)
"""Functions that are wrong in some runs of the agent's tests, of which one must then fail."""


def build_grader(values: Mapping[str, str], structure: Structure, initial_files: Mapping[str, str]) -> Grader:
    """Build the grader, with the right values and the programs that call the agent's code (interviews).

    Args:
        values: Values drawn from the seed, by name.
        structure: Choices that the seed makes, e.g. which documents the agent has to write.
        initial_files: Text of each file in the initial workspace, by path.
    """
    due = {"sheets": structure.work.sheets.expected, "feeds_deck": structure.work.has_option}
    initial = {"entries": initial_files["CHANGELOG.md"].splitlines(), "rows": initial_files["decks/flags.csv"].splitlines()[1:]}
    suite = load_text(__package__, "grader/suite.py")
    interviews = (
        Interview(source=load_text(__package__, "grader/observe.ts"), questions=QUESTIONS, runtime="bun"),
        Interview(source=suite, questions=("tests",), changes=CHANGES, tests="tests"),
    )
    return Grader(judge=judge, expected={**values, **initial, **due}, interviews=interviews)


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    yield from _judge_papers(submission)
    yield from judge_sheets(submission, submission.expected["sheets"])
    yield from _judge_answers(submission.ask(), submission.expected)


def _judge_papers(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    values = submission.expected
    expected: dict[str, Any] = {"program": values["program_name"], "farewell": values["farewell"]}
    expected |= {name: int(values[name]) for name in ("new_per_day", "max_interval_days", "mature_days")}
    settings = read_json_object(submission, "settings.example.json")
    yield "settings", settings == expected, f"settings are {settings!r:.187}"
    quoted = [f"`{values[name]}`" for name in ("max_interval_days", "new_per_day", "idle_status")]
    yield (
        "readme",
        *compare_words(submission, "README.md", values["program_name"], values["goal_version"], *quoted, choices=CHOICES),
    )
    names = ("hint_column", "draft_mark", "gap_mark", "id_prefix", "export_separator", "mature_days", "tie_break")
    quoted = [f"`{values[name]}`" for name in (*names, "initial_ease", "ease_floor", "second_interval_days")]
    yield "manual", *compare_words(submission, "docs/manual.md", values["cards_table"], *quoted, choices=CHOICES)
    words = [values[name] for name in ("ticket", "goal_version", "release_id", "next_audit")]
    schema, mode = f"schema {values['schema_version']}", f"`{values['journal_mode']}`"
    yield "handover", *compare_words(submission, "HANDOVER.md", *words, schema, mode, choices=CHOICES)
    entries = list_new_lines(submission, "CHANGELOG.md", values["entries"], "- version ")
    beginning = f"- version {values['goal_version']} (ticket {values['ticket']}): "
    yield "changelog", len(entries) == 1 and entries[0].startswith(beginning), f"{len(entries)} entries: {entries[:2]!r}"
    releases = submission.read_text("study/releases.log").split()
    yield "one_release", releases == [values["release_id"]], f"{len(releases)} releases were reserved"
    if values["feeds_deck"]:
        fed = submission.read_text("study/catalogue.csv").splitlines()
        detail = f"{len(fed)} rows fed, {len(set(fed))} different, {len(values['rows'])} expected"
        yield "fed_once", sorted(fed) == sorted(values["rows"]), detail
    audits = set(submission.read_text("study/audits.log").split())
    yield "audits", audits == {"first", values["next_audit"]}, "the audits were not made"


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
