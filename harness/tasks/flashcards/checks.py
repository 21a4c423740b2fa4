"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.flashcards.facts import fill
from harness.tasks.kit import graders


def _check(name: str, title: str, *rests_on: str) -> Check:
    return Check(name=name, title=title, rests_on=rests_on)


CHECKS: tuple[Check, ...] = (
    _check("own_tests", "the suite that the agent wrote passes and has at least 80 tests"),
    _check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    _check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    _check("journal_mode", "every connection runs in the allowed journal mode", "journal_mode"),
    _check("backup", "a backup holds the cards", "cards_table"),
    _check("import_format", "decks are read as specified", "hint_column", "card_id_prefix", "initial_ease"),
    _check("sample_deck", "the sample deck is recognised and loaded", "deck_checksum"),
    _check("export_format", "decks are written as agreed", "export_delimiter", "hint_column"),
    _check("card_generator", "the offline generator makes tagged cloze cards", "cloze_marker", "draft_tag"),
    _check("drafts_hidden", "drafts are not reviewed", "draft_tag"),
    _check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    _check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    _check("leeches", "so many lapses make a leech", "leech_lapses"),
    _check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    _check("archive", "removed cards keep their row, and nothing is ever deleted", "removed_column", "cards_table"),
    _check("statistics", "mature and stuck cards are counted", "mature_days", "ease_floor", "cards_table"),
    _check("forecast", "new cards are forecast with the second interval", "second_interval_days"),
    _check("names_itself", "`about` and the usage line name program and release", "program_name", "release_id"),
    _check("idle_status", "an idle day has its own exit status", "idle_exit_code"),
    _check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "leech_lapses"),
    ),
    _check(
        *("papers", "README, manual and hand-over name what they must"),
        *("program_name", "idle_exit_code", "max_interval_days", "removed_column", "draft_tag", "cards_table"),
        *("ticket", "release_id", "journal_mode"),
    ),
    _check("changelog", "the change log has exactly one new entry, with release and ticket", "release_id", "ticket"),
    _check("one_release", "exactly one release was reserved"),
    _check("fed_once", "every row of the sample deck was fed to the catalogue once", "ingest_token"),
)


def grader(values: Mapping[str, str]) -> Grader:
    """The program that judges a workspace under these values."""
    filled = fill(values)
    return graders.grader(filled("grader/judge.py"), filled("grader/observe.py"))
