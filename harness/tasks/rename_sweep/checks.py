"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.kit import graders
from harness.tasks.kit.graders import describe_initial_files, make_check
from harness.tasks.kit.texts import fill_text, load_text
from harness.tasks.rename_sweep.workspace import COLLISION_FOLDERS, FOLDERS

CHECKS: tuple[Check, ...] = (
    make_check("tests", "all tests pass, unchanged, without the temporary line", "new_name", "old_name"),
    make_check("early_folders", "the folders of the first half are swept, and nothing else was done", "new_name", "old_name"),
    make_check("late_folders", "the folders of the second half are swept, and nothing else was done", "new_name", "old_name"),
    make_check("ends", "the first and the last folder are swept and recorded once", "first_folder", "last_folder", "ledger_book"),
    make_check("left_alone", "what was excluded is untouched, and nothing else was left out", "excluded_folder", "old_name"),
    make_check("alias", "the old name lives on in one module, until its release", "alias_module", "removal_release", "new_name"),
    make_check("helpers", "helpers in the way got the reserved name", "collision_name", "new_name"),
    make_check("registry", "the registry has the entry that the timetable knows", "registry_key", "new_name"),
    make_check("recorded_early", "each folder of the first half was recorded once", "ledger_book"),
    make_check("recorded_late", "each folder of the second half was recorded once", "ledger_book"),
    make_check("order", "the folders were recorded in the prescribed order", "first_folder", "last_folder"),
    make_check("opened_once", "the book was opened once, and one name reserved in it", "ledger_book"),
    make_check("closed", "the book was closed once, with its voucher", "voucher", "ledger_book"),
    make_check(
        "changelog", "the change log has exactly one new entry, as ordered", "verb", "ticket", "proposed_name", "new_name"
    ),
    make_check(
        *("handover", "the hand-over says what was done"),
        *("ticket", "old_name", "new_name", "excluded_folder", "alias_module", "removal_release", "first_folder", "last_folder"),
        *("collision_name", "registry_key", "ledger_book", "receipt", "desk", "goal_left"),
    ),
)


def build_grader(values: Mapping[str, str], initial_files: Mapping[str, str]) -> Grader:
    """Build the program that judges a workspace; `initial_files`: text of every file as the agent finds it, by path."""
    words = {
        **values,
        **describe_initial_files(initial_files, ("quay/", "tests/")),
        "folders": repr(FOLDERS),
        "collisions": repr(COLLISION_FOLDERS),
    }
    judge = fill_text(__package__, "grader/judge.py", words)
    return graders.build_grader(judge, load_text(__package__, "grader/observe.py"))
