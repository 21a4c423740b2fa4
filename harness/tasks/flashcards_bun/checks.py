"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping
from string import Template

from harness.task import Check, Grader
from harness.tasks.kit import graders, text

FILES = "harness.tasks.flashcards_bun.files"


def _check(name: str, title: str, *rests_on: str) -> Check:
    return Check(name=name, title=title, rests_on=rests_on)


CHECKS: tuple[Check, ...] = (
    _check("own_tests", "the suite that the agent wrote passes and has at least 50 tests"),
    _check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    _check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    _check("journal_mode", "connections run in the allowed journal mode", "journal_mode"),
    _check("ids", "ids begin as agreed", "id_prefix"),
    _check("deck_format", "decks are read as specified", "hint_column", "initial_ease"),
    _check("export_format", "decks are written as agreed", "export_separator", "hint_column"),
    _check("card_generator", "the offline generator makes cards with a gap", "gap_mark"),
    _check("drafts", "drafts are tagged and not shown", "draft_mark"),
    _check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    _check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    _check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    _check("maturity", "cards are mature from the newest day on", "mature_days"),
    _check("stuck", "cards at the floor are counted", "ease_floor"),
    _check("about", "`about` names program, version and release", "program_name", "goal_version", "release_id"),
    _check("usage", "the usage line names the program", "program_name"),
    _check("idle_status", "an idle day has its own exit status", "idle_status"),
    _check("farewell", "a session that is over says what was voted", "farewell"),
    _check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "mature_days", "farewell"),
    ),
    _check(
        *("readme", "the README says how to use it"),
        *("program_name", "goal_version", "max_interval_days", "new_per_day", "idle_status"),
    ),
    _check(
        *("manual", "the manual lists what the stations look for", "cards_table", "hint_column", "draft_mark", "gap_mark"),
        *("id_prefix", "export_separator", "mature_days", "tie_break", "initial_ease", "ease_floor", "second_interval_days"),
    ),
    _check(
        *("handover", "the hand-over tells the next team what it needs"),
        *("ticket", "goal_version", "release_id", "schema_version", "next_audit", "journal_mode"),
    ),
    _check("changelog", "the change log has exactly one new entry, with version and ticket", "goal_version", "ticket"),
    _check("one_release", "exactly one release was reserved"),
    _check("fed_once", "every row of the sample deck was fed to the catalogue once", "feed_mark"),
    _check("audits", "the first audit and the next one were made", "next_audit"),
)


def grader(values: Mapping[str, str]) -> Grader:
    """The program that judges a workspace under these values."""
    return graders.grader(
        Template(text(FILES, "grader/judge.py")).substitute(values), text(FILES, "grader/observe.ts"), in_python=False
    )
