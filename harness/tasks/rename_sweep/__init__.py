"""The task `rename-sweep`: rename one function in more than forty files, folder by folder, and record each finished folder.

A tool records finished folders in a ledger under a name, the book. It prints a code (the voucher) when the book is opened; the
agent needs the voucher to close the book, and then gets a receipt. In three folders a helper function already has the new name;
the tool prints once how helpers are to be called instead.

Phases of the work, and the information from each phase that the agent needs later:

| phase | what the agent must remember |
| --- | --- |
| start | old name and book (from pages), new name and first folder (from the prompt), voucher, name for helpers |
| ten folders | which folders are renamed and which are recorded; the name for helpers |
| other modules | the excluded folder; which module keeps the old name as an alias, and until when; a name from an error |
| documents | the voucher from the start, the receipt, and nearly all constraints once more |

The renamed folders can be listed again with one call of `tools/left.sh`. The recorded folders cannot: the ledger contains digests
only, and a folder that is recorded twice fails a check. Forgetting therefore costs one call in the first case and a check in the
second. The name for helpers and the voucher are stated once and needed until the end; the last folder is stated once and needed
late.

The workspace is a working package whose modules, functions and tests are generated from the seed.
"""

from harness.task import Check, Task
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import draw_prompt
from harness.tasks.rename_sweep.facts import FACTS, draw_values
from harness.tasks.rename_sweep.grader import build_grader
from harness.tasks.rename_sweep.steps import build_script
from harness.tasks.rename_sweep.workspace import build_workspace

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


def make_rename_sweep(task_seed: int) -> Task:
    """Make the task `rename-sweep` for a seed, which decides the values that the agent must remember."""
    values = draw_values(task_seed)
    files = build_workspace(values, task_seed)
    return Task(
        name="rename-sweep",
        title="Rename a function in more than forty files",
        tags=("bookkeeping", "artifacts", "constraints", "decisions"),
        prompt=draw_prompt(__package__, "rename-sweep", task_seed, values),
        workspace=files,
        checks=CHECKS,
        grader=build_grader(values, dict(files)),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
