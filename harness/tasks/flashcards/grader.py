"""Grader of the task `flashcards`: checks the agent's documents, and what its modules answer when they are called."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.errors import format_count
from harness.task import Submission
from harness.tasks.flashcards.program import PROGRAM
from harness.tasks.kit.explanations import explain_difference, explain_parts
from harness.tasks.kit.graders import check_tests, combine, compare

MIN_TESTS = 80
"""Minimum number of tests that the agent has to write."""
SM2_PARTS = (
    *("ease of a new card", "intervals in days of two answers", "lowest ease"),
    *("interval after a lapse", "repetitions after a lapse", "lapses after a lapse"),
)
"""Words for the parts of the answer about the constants of SM-2."""
SCHEMA_PARTS = ("tables of the database", "its version", "a stored card is read back as it was")
"""Words for the parts of the answer about the database."""
GENERATED_PARTS = ("front of a generated card", "its back", "its tags", "its tags once it is approved")
"""Words for the parts of the answer about the card generator."""
ALLOWANCE_PARTS = ("new cards on a day", "new cards left after one was answered")
"""Words for the parts of the answer about the limit on new cards."""
EXPORT_PARTS = ("header of a written deck", "line of a card")
"""Words for the lines of a written deck."""


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    yield from PROGRAM.judge_papers(submission)
    names = [name for name in submission.list_files("flashcards") if name.endswith(".py")]
    code = [submission.read_text(f"flashcards/{name}") for name in names]
    yield from _judge_answers(submission.ask(), submission.expected, code)


def _judge_answers(answers: Mapping[str, Any], values: Mapping[str, Any], code: list[str]) -> Iterator[tuple[str, bool, str]]:
    ease, second, floor = float(values["initial_ease"]), int(values["second_interval_days"]), float(values["ease_floor"])
    table, version, limit = values["cards_table"], int(values["schema_version"]), int(values["new_per_day"])
    yield "own_tests", *check_tests(answers, MIN_TESTS)
    yield "sm2_numbers", *compare(answers, "sm2", [ease, [1, second], floor, 1, 0, 2], about=SM2_PARTS)
    yield "storage_schema", *compare(answers, "schema", [sorted(("answers", table)), version, True], about=SCHEMA_PARTS)
    modes = ("journal mode of the database", "journal mode of a backup")
    yield "journal_mode", *compare(answers, "journal", [values["journal_mode"]] * 2, about=modes)
    copied = explain_difference({"answers": 0, table: 1}, answers.get("copied"), "rows of each table in a backup of one card")
    yield "backup", _read(answers, "copied", table) == 1, copied
    yield "import_format", *_compare_import(answers.get("imported"), values)
    knows_checksum = any(values["deck_checksum"] in module.lower() for module in code)
    loads_sample = _compare_sample(answers.get("sample"), values)
    no_checksum = f"no module has the checksum of the sample deck, {values['deck_checksum']!r}"
    yield "sample_deck", *combine(loads_sample, (knows_checksum, no_checksum))
    yield "export_format", *_compare_export(answers, values)
    generated = [f"{values['cloze_marker']} assemble it.", "Ribosomes", [values["draft_tag"]], []]
    yield "card_generator", *compare(answers, "generated", generated, about=GENERATED_PARTS)
    yield "drafts_hidden", *compare(answers, "hidden", [values["draft_tag"]], about="tags whose cards are not shown")
    yield "interval_cap", *compare(answers, "cap", int(values["max_interval_days"]), about="longest interval in days")
    yield "new_card_limit", *compare(answers, "allowance", [limit, limit - 1], about=ALLOWANCE_PARTS)
    yield "leeches", *compare(answers, "leech", int(values["leech_lapses"]), about="lapses that make a card a leech")
    yield "queue_order", *compare(answers, "order", [values["tie_break"]], about="cards of a day are in the order of")
    deletes = any(re.search(r"DELETE\s+FROM", module, re.IGNORECASE) for module in code)
    complaint = "a module deletes rows" if deletes else f"the package has only {format_count(len(code), 'module')}"
    never_deletes = (len(code) > 10 and not deletes, complaint)
    yield "archive", *combine(_compare_archive(answers.get("archived"), values), never_deletes)
    yield "statistics", *_compare_statistics(answers.get("statistics"), values)
    yield "forecast", *compare(answers, "forecast", [0, 1, 1 + second], about="days from today with a review of a new card")
    yield "names_itself", *_compare_names(answers.get("named"), values)
    yield (
        "idle_status",
        *compare(answers, "idle", [int(values["idle_exit_code"]), "nothing is due\n"], about=("exit status", "output")),
    )


def _read(part: object, *keys: str | int) -> object:
    """Return the part of a nested answer at the given keys and indexes; None if there is no such part."""
    for key in keys:
        if isinstance(part, dict | Mapping):
            part = part.get(key)
        elif isinstance(part, list) and isinstance(key, int) and key < len(part):
            part = part[key]
        else:
            return None
    return part


def _compare_sample(cards: object, values: Mapping[str, Any]) -> tuple[bool, str]:
    expected = sorted(row[:2] for row in csv.reader(values["rows"]))
    if not isinstance(cards, list):
        return False, explain_difference(len(expected), cards, "cards of the sample deck")
    right = sum(card in expected for card in cards)
    words = f"cards of the sample deck: expected {len(expected)}, found {len(cards)}, of which {right} have the right sides"
    return cards == expected, words


def _compare_import(imported: object, values: Mapping[str, str]) -> tuple[bool, str]:
    """Check the card that the agent's code read from a test deck.

    Each column of the deck that could be the hint column contains its own name, so the hint shows which column the code reads.
    """
    expected = [values["hint_column"], ["cell", "basic"], float(values["initial_ease"])]
    has_id = re.fullmatch(re.escape(values["card_id_prefix"]) + "[0-9a-f]{10}", str(_read(imported, 3))) is not None
    is_right = isinstance(imported, list) and len(imported) == 4 and imported[:3] == expected and has_id
    form = _read(imported, 3) if has_id else f"{values['card_id_prefix']} with 10 hexadecimal digits"
    return is_right, explain_parts(
        [*expected, form], imported, ("column of the hint", "tags", "ease of a new card", "id of the card")
    )


def _compare_export(answers: Mapping[str, Any], values: Mapping[str, str]) -> tuple[bool, str]:
    # A field that contains the delimiter may be quoted.
    delimiter = values["export_delimiter"]
    columns = ("card_id", "front", "back", values["hint_column"], "tags", "deck", "ease", "interval_days", "due_on")
    row = delimiter.join(("a", "x, y; z", "back", "", "", "bio", "2.00", "0", "2024-03-01"))
    header = delimiter.join(columns)
    return compare(answers, "exported", [header, row], [header, row.replace("x, y; z", '"x, y; z"')], about=EXPORT_PARTS)


def _compare_archive(archived: object, values: Mapping[str, str]) -> tuple[bool, str]:
    """Check that a removed card keeps its row in the database but is no longer in the day's queue."""
    row = _read(archived, 0, values["cards_table"], 0)
    contents = [_read(row, values["removed_column"]), _read(row, "front"), _read(archived, 1)]
    expected = ["2024-03-01", "front of a", 0]
    labels = (f"day in the column {values['removed_column']!r} of a removed card", "its front", "its places in the day's queue")
    return contents == expected, explain_parts(expected, contents if isinstance(archived, list) else archived, labels)


def _compare_statistics(statistics: object, values: Mapping[str, str]) -> tuple[bool, str]:
    # the test deck has one card for each interval from 1 to 60 days, and one for each ease from 1.01 to 1.99
    counts = [61 - int(values["mature_days"]), round(100 * float(values["ease_floor"])) - 100]
    total, stored = _read(statistics, 2), _read(statistics, 3, values["cards_table"])
    good = [_read(statistics, 0), _read(statistics, 1)] == counts and total is not None and total == stored
    labels = ("mature cards", "stuck cards", "cards in all, as in the database")
    return good, explain_parts(
        [*counts, "all" if stored is None else stored], statistics[:3] if isinstance(statistics, list) else statistics, labels
    )


def _compare_names(named: object, values: Mapping[str, str]) -> tuple[bool, str]:
    lines = [*map(str, named if isinstance(named, list) else []), "", ""]
    program = values["program_name"]
    about, usage = f"{program}, release {values['release_id']}", f"usage: {program} "
    good = lines[0] == about and lines[1].startswith(usage)
    found = [lines[0], usage if lines[1].startswith(usage) else lines[1]] if isinstance(named, list) else named
    return good, explain_parts([about, usage], found, ("output of `about`", "beginning of the usage line"))
