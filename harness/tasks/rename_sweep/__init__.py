"""The task `rename-sweep`: one function gets another name in more than forty files, folder by folder: which are done?

Which memory it loads, and why:

| part of the work | what must be remembered |
| --- | --- |
| beginning | the old name and the book (pages), the new name and the first folder (prompt); a voucher and a name for helpers |
| ten batches | which are renamed, which are recorded; in three of them the name for helpers |
| strays | the excluded folder, the module with the alias and its release; the entry that an error teaches |
| papers | the voucher of the beginning, the receipt, and nearly all constraints once more |

What is renamed can be seen again: `tools/left.sh` tells it for all folders, at the cost of one call. What is recorded cannot:
the ledger holds seals, and a batch that is recorded twice is paid twice. So the same forgetting costs a look here and a check
there. The helpers' name and the voucher are told once and needed until the end; the last folder is told once and needed late.

The package is a real one; its modules, figures and tests are generated from the seed.
"""

from harness.task import Task
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt
from harness.tasks.rename_sweep.checks import CHECKS, build_grader
from harness.tasks.rename_sweep.facts import FACTS, draw_values
from harness.tasks.rename_sweep.steps import build_script
from harness.tasks.rename_sweep.workspace import build_workspace


def make_rename_sweep(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    files = build_workspace(values, task_seed)
    return Task(
        name="rename-sweep",
        title="Rename a function in more than forty files",
        tags=("bookkeeping", "artifacts", "constraints", "decisions"),
        prompt=draw_prompt(__package__, make_rng("rename-sweep", task_seed, "order"), values),
        workspace=files,
        runtime="python",
        checks=CHECKS,
        grader=build_grader(values, dict(files)),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
