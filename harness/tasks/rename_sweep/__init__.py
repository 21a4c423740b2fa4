"""The task `rename-sweep`: rename one function in forty to sixty files, folder by folder, and record each finished folder.

A tool keeps a ledger, the record of finished folders. The agent opens a book in the ledger, records each folder in it, and closes
the book at the end. The tool prints a code (the voucher) when the book is opened; the agent needs the voucher to close the book,
and then gets a receipt. In some folders a helper function already has the new name; the tool prints once how helpers are to be
called instead.

Phases of the work, and the information from each phase that the agent needs later:

| phase | what the agent must remember |
| --- | --- |
| start | old name and book (from pages), new name and first folder (from the prompt), voucher, name for helpers |
| all folders | which folders are renamed and which are recorded; the name for helpers |
| other modules | the excluded folder; which module keeps the old name as an alias, and until when; a name from an error |
| documents | the voucher from the start, the receipt, and nearly all constraints once more |

An agent that forgets which folders are renamed can list them again with one call of `tools/left.sh`. An agent that forgets which
folders are recorded cannot: the ledger contains digests only, and a folder that is recorded twice fails a check. The name for
helpers and the voucher are stated once and needed until the end; the last folder is stated once and needed late.

The seed decides in which folders the function is renamed, and in which order; which of them have a helper with the new name; what
the agent reads; when the name for helpers is reserved; the order of the work after the folders; and which facts the hand-over and
other documents state. The workspace is a working package whose modules, functions and tests are generated from the seed.
"""

from harness.task import Cell, Difficulty, Task
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.rename_sweep.checks import build_checks
from harness.tasks.rename_sweep.facts import draw_values, make_facts
from harness.tasks.rename_sweep.grader import build_grader
from harness.tasks.rename_sweep.steps import build_script
from harness.tasks.rename_sweep.structure import draw_structure
from harness.tasks.rename_sweep.workspace import build_workspace, render_prompt


def make_rename_sweep(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `rename-sweep` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the folders and their order; None uses `task_seed`.
    """
    seed = task_seed if structure_seed is None else structure_seed
    structure = draw_structure(StructureDraws("rename-sweep", seed, difficulty))
    facts, values = make_facts(structure), draw_values(task_seed)
    files = build_workspace(structure, values, task_seed)
    return Task(
        name="rename-sweep",
        title="Rename a function in many files",
        tags=("bookkeeping", "artifacts", "constraints", "decisions"),
        prompt=render_prompt(structure, values),
        workspace=files,
        checks=build_checks(structure),
        grader=build_grader(structure, values, dict(files)),
        facts=facts,
        script=build_script(structure),
        values={fact.name: values[fact.name] for fact in facts},
        cells=(Cell(difficulty="easy", window_tokens=32_768),),
    )
