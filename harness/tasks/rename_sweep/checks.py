"""What must hold in the end, and the program that looks whether it does."""

import hashlib
from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.kit import graders
from harness.tasks.rename_sweep.workspace import COLLISION_FOLDERS, FOLDERS, fill_template, load_template


def _make_check(name: str, title: str, *rests_on: str) -> Check:
    return Check(name=name, title=title, required_facts=rests_on)


CHECKS: tuple[Check, ...] = (
    _make_check("tests", "all tests pass, unchanged, without the temporary line", "new_name", "old_name"),
    _make_check("early_folders", "the folders of the first half are swept, and nothing else was done", "new_name", "old_name"),
    _make_check("late_folders", "the folders of the second half are swept, and nothing else was done", "new_name", "old_name"),
    _make_check(
        "ends", "the first and the last folder are swept and recorded once", "first_folder", "last_folder", "ledger_book"
    ),
    _make_check("left_alone", "what was excluded is untouched, and nothing else was left out", "excluded_folder", "old_name"),
    _make_check("alias", "the old name lives on in one module, until its release", "alias_module", "removal_release", "new_name"),
    _make_check("helpers", "helpers in the way got the reserved name", "collision_name", "new_name"),
    _make_check("registry", "the registry has the entry that the timetable knows", "registry_key", "new_name"),
    _make_check("recorded_early", "each folder of the first half was recorded once", "ledger_book"),
    _make_check("recorded_late", "each folder of the second half was recorded once", "ledger_book"),
    _make_check("order", "the folders were recorded in the prescribed order", "first_folder", "last_folder"),
    _make_check("opened_once", "the book was opened once, and one name reserved in it", "ledger_book"),
    _make_check("closed", "the book was closed once, with its voucher", "voucher", "ledger_book"),
    _make_check(
        "changelog", "the change log has exactly one new entry, as ordered", "verb", "ticket", "proposed_name", "new_name"
    ),
    _make_check(
        *("handover", "the hand-over says what was done"),
        *("ticket", "old_name", "new_name", "excluded_folder", "alias_module", "removal_release", "first_folder", "last_folder"),
        *("collision_name", "registry_key", "ledger_book", "receipt", "desk", "goal_left"),
    ),
)


def build_grader(values: Mapping[str, str], initial_files: Mapping[str, str]) -> Grader:
    """The program that judges a workspace under these values; `found`: text of every file as the agent finds it, by path."""
    checked_files = {path: text for path, text in initial_files.items() if path.startswith(("quay/", "tests/"))}
    words = {
        **values,
        "hashes": repr({path: hashlib.sha256(text.encode()).hexdigest()[:16] for path, text in checked_files.items()}),
        "tests": str(sum(text.count("def test_") for text in checked_files.values())),
        "folders": repr(FOLDERS),
        "collisions": repr(COLLISION_FOLDERS),
        "entries": str(len(initial_files["CHANGELOG.md"].splitlines())),
    }
    return graders.build_grader(fill_template("grader/judge.py", words), load_template("grader/observe.py"))
