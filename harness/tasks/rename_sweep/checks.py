"""Checks of the task `rename-sweep`; the seed decides how many folders they examine and which facts the documents must state."""

from harness.task import Check
from harness.tasks.kit.graders import make_check
from harness.tasks.rename_sweep.structure import Structure


def build_checks(structure: Structure) -> tuple[Check, ...]:
    """Return the checks on modules, on documents, and on the ledger (the record of finished folders)."""
    numbers = range(1, len(structure.groups) + 1)
    return (
        make_check("tests", "all tests pass, unchanged, without the temporary line", "new_name", "old_name"),
        *(
            make_check(
                f"folders_{number}", f"the folders of group {number} are swept, and nothing else was done", "new_name", "old_name"
            )
            for number in numbers
        ),
        make_check(
            "ends", "the first and the last folder are swept and recorded once", "first_folder", "last_folder", "ledger_book"
        ),
        make_check("left_alone", "what was excluded is untouched, and nothing else was left out", "excluded_folder", "old_name"),
        make_check(
            "alias", "the old name lives on in one module, until its release", "alias_module", "removal_release", "new_name"
        ),
        make_check("helpers", "helpers in the way got the reserved name", "collision_name", "new_name"),
        make_check("registry", "the registry has the entry that the timetable knows", "registry_key", "new_name"),
        *(
            make_check(f"recorded_{number}", f"each folder of group {number} was recorded once", "ledger_book")
            for number in numbers
        ),
        make_check("order", "the folders were recorded in the prescribed order", "first_folder", "last_folder"),
        make_check("opened_once", "the book was opened once, and one name reserved in it", "ledger_book"),
        make_check("closed", "the book was closed once, with its voucher", "voucher", "ledger_book"),
        make_check(
            *("changelog", "the change log has exactly one new entry, as ordered", "verb", "ticket", "proposed_name", "new_name")
        ),
        make_check("handover_rules", "the hand-over states the rules that hold", *structure.rule_facts),
        make_check("handover_results", "the hand-over states what came out", *structure.result_facts),
        *structure.sheets.checks,
    )
