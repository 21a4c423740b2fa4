"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping
from string import Template

from harness.task import Check, Grader
from harness.tasks.kit import graders, load_text

FILES_PACKAGE = "harness.tasks.flashcards_bun.files"


def _make_check(name: str, title: str, *rests_on: str) -> Check:
    return Check(name=name, title=title, required_facts=rests_on)


CHECKS: tuple[Check, ...] = (
    _make_check("own_tests", "the suite that the agent wrote passes and has at least 50 tests"),
    _make_check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    _make_check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    _make_check("journal_mode", "connections run in the allowed journal mode", "journal_mode"),
    _make_check("ids", "ids begin as agreed", "id_prefix"),
    _make_check("deck_format", "decks are read as specified", "hint_column", "initial_ease"),
    _make_check("export_format", "decks are written as agreed", "export_separator", "hint_column"),
    _make_check("card_generator", "the offline generator makes cards with a gap", "gap_mark"),
    _make_check("drafts", "drafts are tagged and not shown", "draft_mark"),
    _make_check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    _make_check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    _make_check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    _make_check("maturity", "cards are mature from the newest day on", "mature_days"),
    _make_check("stuck", "cards at the floor are counted", "ease_floor"),
    _make_check("about", "`about` names program, version and release", "program_name", "goal_version", "release_id"),
    _make_check("usage", "the usage line names the program", "program_name"),
    _make_check("idle_status", "an idle day has its own exit status", "idle_status"),
    _make_check("farewell", "a session that is over says what was voted", "farewell"),
    _make_check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "mature_days", "farewell"),
    ),
    _make_check(
        *("readme", "the README says how to use it"),
        *("program_name", "goal_version", "max_interval_days", "new_per_day", "idle_status"),
    ),
    _make_check(
        *("manual", "the manual lists what the stations look for", "cards_table", "hint_column", "draft_mark", "gap_mark"),
        *("id_prefix", "export_separator", "mature_days", "tie_break", "initial_ease", "ease_floor", "second_interval_days"),
    ),
    _make_check(
        *("handover", "the hand-over tells the next team what it needs"),
        *("ticket", "goal_version", "release_id", "schema_version", "next_audit", "journal_mode"),
    ),
    _make_check("changelog", "the change log has exactly one new entry, with version and ticket", "goal_version", "ticket"),
    _make_check("one_release", "exactly one release was reserved"),
    _make_check("fed_once", "every row of the sample deck was fed to the catalogue once", "feed_mark"),
    _make_check("audits", "the first audit and the next one were made", "next_audit"),
)


def build_grader(values: Mapping[str, str]) -> Grader:
    """The program that judges a workspace under these values."""
    return graders.build_grader(
        Template(load_text(FILES_PACKAGE, "grader/judge.py")).substitute(values),
        load_text(FILES_PACKAGE, "grader/observe.ts"),
        in_python=False,
    )
