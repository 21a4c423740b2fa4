"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.kit import graders
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import fill_text, load_text

CHECKS: tuple[Check, ...] = (
    make_check("own_tests", "the suite that the agent wrote passes and has at least 50 tests"),
    make_check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    make_check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    make_check("journal_mode", "connections run in the allowed journal mode", "journal_mode"),
    make_check("ids", "ids begin as agreed", "id_prefix"),
    make_check("deck_format", "decks are read as specified", "hint_column", "initial_ease"),
    make_check("export_format", "decks are written as agreed", "export_separator", "hint_column"),
    make_check("card_generator", "the offline generator makes cards with a gap", "gap_mark"),
    make_check("drafts", "drafts are tagged and not shown", "draft_mark"),
    make_check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    make_check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    make_check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    make_check("maturity", "cards are mature from the newest day on", "mature_days"),
    make_check("stuck", "cards at the floor are counted", "ease_floor"),
    make_check("about", "`about` names program, version and release", "program_name", "goal_version", "release_id"),
    make_check("usage", "the usage line names the program", "program_name"),
    make_check("idle_status", "an idle day has its own exit status", "idle_status"),
    make_check("farewell", "a session that is over says what was voted", "farewell"),
    make_check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "mature_days", "farewell"),
    ),
    make_check(
        *("readme", "the README says how to use it"),
        *("program_name", "goal_version", "max_interval_days", "new_per_day", "idle_status"),
    ),
    make_check(
        *("manual", "the manual lists what the stations look for", "cards_table", "hint_column", "draft_mark", "gap_mark"),
        *("id_prefix", "export_separator", "mature_days", "tie_break", "initial_ease", "ease_floor", "second_interval_days"),
    ),
    make_check(
        *("handover", "the hand-over tells the next team what it needs"),
        *("ticket", "goal_version", "release_id", "schema_version", "next_audit", "journal_mode"),
    ),
    make_check("changelog", "the change log has exactly one new entry, with version and ticket", "goal_version", "ticket"),
    make_check("one_release", "exactly one release was reserved"),
    make_check("fed_once", "every row of the sample deck was fed to the catalogue once", "feed_mark"),
    make_check("audits", "the first audit and the next one were made", "next_audit"),
)


def build_grader(values: Mapping[str, str]) -> Grader:
    """Build the program that judges a workspace under these values."""
    judge = fill_text(__package__, "grader/judge.py", values)
    return graders.build_grader(judge, load_text(__package__, "grader/observe.ts"), in_python=False)
