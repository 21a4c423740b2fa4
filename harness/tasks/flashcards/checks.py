"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.kit import graders
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import fill_text

CHECKS: tuple[Check, ...] = (
    make_check("own_tests", "the suite that the agent wrote passes and has at least 80 tests"),
    make_check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    make_check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    make_check("journal_mode", "every connection runs in the allowed journal mode", "journal_mode"),
    make_check("backup", "a backup holds the cards", "cards_table"),
    make_check("import_format", "decks are read as specified", "hint_column", "card_id_prefix", "initial_ease"),
    make_check("sample_deck", "the sample deck is recognised and loaded", "deck_checksum"),
    make_check("export_format", "decks are written as agreed", "export_delimiter", "hint_column"),
    make_check("card_generator", "the offline generator makes tagged cloze cards", "cloze_marker", "draft_tag"),
    make_check("drafts_hidden", "drafts are not reviewed", "draft_tag"),
    make_check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    make_check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    make_check("leeches", "so many lapses make a leech", "leech_lapses"),
    make_check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    make_check("archive", "removed cards keep their row, and nothing is ever deleted", "removed_column", "cards_table"),
    make_check("statistics", "mature and stuck cards are counted", "mature_days", "ease_floor", "cards_table"),
    make_check("forecast", "new cards are forecast with the second interval", "second_interval_days"),
    make_check("names_itself", "`about` and the usage line name program and release", "program_name", "release_id"),
    make_check("idle_status", "an idle day has its own exit status", "idle_exit_code"),
    make_check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "leech_lapses"),
    ),
    make_check(
        *("papers", "README, manual and hand-over name what they must"),
        *("program_name", "idle_exit_code", "max_interval_days", "removed_column", "draft_tag", "cards_table"),
        *("ticket", "release_id", "journal_mode"),
    ),
    make_check("changelog", "the change log has exactly one new entry, with release and ticket", "release_id", "ticket"),
    make_check("one_release", "exactly one release was reserved"),
    make_check("fed_once", "every row of the sample deck was fed to the catalogue once", "ingest_token"),
)


def build_grader(values: Mapping[str, str]) -> Grader:
    """Build the program that judges a workspace under these values."""
    return graders.build_grader(*(fill_text(__package__, f"grader/{name}.py", values) for name in ("judge", "observe")))
