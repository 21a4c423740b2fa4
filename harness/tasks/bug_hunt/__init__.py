"""The task `bug-hunt`: invoices drift by some cents; find the stage with stale figures among twelve and close the case.

Which memory it loads, and why:

| part of the work | what it looks at | what must be remembered |
| --- | --- | --- |
| symptom | failing tests, three long logs | the day of the first drift, the operator's suspicion |
| map | ten modules and their tests, the decree | a figure of a page, used twice and long after |
| suspects | probes and a comparison | what is ruled out; which stage it is |
| first fix | the figure on the stage's page | that it was refused, and the figure in force, told once by the refusal |
| others | the other stages, read for what they have in common | that the first patch must not be tried again |
| second fix | all figures together | tier, rate, mode and a tag of the prompt; the number of the attempt |
| papers | regression test, change log, announcement, report, hand-over | nearly all of it once more |

The first fix is plausible and wrong: the page of the stage has a provisional rate. The refusal is the only place that tells
the one in force. Who forgets it tries the first patch again, which the bench registers and bills, and which helps once
more. What the agent noted down in its own files can be read again; what it did not note is gone.

The workspace is a real package of forty modules. The seed draws which stage of six has the bug, the figures, and the names.
"""

from harness.task import Task
from harness.tasks.bug_hunt.checks import CHECKS, build_grader
from harness.tasks.bug_hunt.facts import FACTS, draw_values
from harness.tasks.bug_hunt.steps import build_script
from harness.tasks.bug_hunt.workspace import build_workspace
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt


def make_bug_hunt(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    files = build_workspace(values, task_seed)
    return Task(
        name="bug-hunt",
        title="Find the stage whose figures are stale, and close the case",
        tags=("errors", "artifacts", "decisions", "constraints", "large outputs"),
        prompt=draw_prompt(__package__, make_rng("bug-hunt", task_seed, "order"), values),
        workspace=files,
        runtime="python",
        checks=CHECKS,
        grader=build_grader(values, dict(files), task_seed),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
