"""The task `bug-hunt`: an invoice program computes wrong amounts; find the modules with outdated prices, repair them, and report.

The program computes electricity invoices in twelve stages: one module for each item on an invoice. A fix is submitted with a tool
that accepts or refuses it and counts the attempts.

Parts of the work, and the information from each part that the agent needs later:

| part | what the agent looks at | what the agent must remember |
| --- | --- | --- |
| symptom | failing tests and three long logs | the day of the first error |
| code | modules, tests, and pages on prices | limit and rounding mode, which every patch needs |
| suspects | stages that somebody blames without reason | which stages are ruled out |
| stages | a comparison with audited invoices, and pages of stages | which stages have a bug, and the rates on their pages |
| fixes | the bench (a tool), which accepts or refuses a patch | refused patches, the rates in the refusals, the ids of attempts |
| papers | regression test, change log, announcement, report, hand-over, reply | nearly all of the above once more |

A first patch that is refused is plausible and wrong, because the page of the stage states a provisional rate. Only the refusal
states the correct rate. An agent that forgets the refusal submits the patch again; the attempt is counted, and the refusal shows
the rate once more. Facts in files and in the agent's own notes can be read again; other forgotten facts are lost.

The seed decides the structure: how many stages have a bug, which first patches are refused, who blames which stages without
reason, which pages state the correct tier and rounding mode, the order of the work, at which irrelevant files the agent looks,
and which documents must state which facts. The seed also decides the values: stages with a bug, prices, and names.
"""

from harness.task import Cell, Difficulty, Task
from harness.tasks.bug_hunt.facts import draw_values, make_facts
from harness.tasks.bug_hunt.grader import build_checks, build_grader
from harness.tasks.bug_hunt.looks import LOOKS
from harness.tasks.bug_hunt.steps import build_script
from harness.tasks.bug_hunt.structure import draw_structure
from harness.tasks.bug_hunt.workspace import build_workspace, render_prompt
from harness.tasks.kit.structure import StructureDraws


def make_bug_hunt(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `bug-hunt` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the number of bugs; None uses `task_seed`.
    """
    seed = task_seed if structure_seed is None else structure_seed
    structure = draw_structure(StructureDraws("bug-hunt", seed, difficulty), tuple(LOOKS))
    facts, values = make_facts(structure), draw_values(structure, task_seed)
    files = build_workspace(structure, values, task_seed)
    return Task(
        name="bug-hunt",
        title="Find the stages whose figures are stale, and close the case",
        tags=("errors", "artifacts", "decisions", "constraints", "large outputs"),
        prompt=render_prompt(structure, values),
        workspace=files,
        checks=build_checks(structure),
        grader=build_grader(structure, values, dict(files), task_seed),
        facts=facts,
        script=build_script(structure),
        values={fact.name: values[fact.name] for fact in facts},
        cells=(Cell(difficulty="easy", window_tokens=32_768),),
    )
