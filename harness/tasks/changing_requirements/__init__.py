"""The task `changing-requirements`: the timetable of a bus line, whose rules the user changes twice while it is made.

Which memory it loads, and why:

| part of the work | steps | what must be remembered |
| --- | --- | --- |
| nine sheets | survey and sheet, stop by stop; a permit | rules of the prompt; a number that is given once |
| first change | nine sheets anew, eight more | a new interval and first bus; a hotline that only this message names |
| second change | seventeen sheets anew, seven more | the interval once more, a new zone; a day that only this message names |
| papers | overview, poster, letter, bays | constraints, goal and wish of the prompt; bays that were read long ago |

The prompt survives most summaries, as they are asked to keep it, and it tells the old rules. So who loses a later message does
not guess: it uses the stale value and is confidently wrong, on new sheets and on those that it sets anew. The interval is told
three times with three values, and only the last one is right. Bays can be read again, at the price of a survey.
"""

from harness.task import LaterMessage, Task
from harness.tasks.changing_requirements.checks import CHECKS, build_grader
from harness.tasks.changing_requirements.facts import FACTS, draw_values
from harness.tasks.changing_requirements.steps import build_script, find_change_steps
from harness.tasks.changing_requirements.workspace import build_workspace, describe_line
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt
from harness.tasks.kit.texts import fill_text


def make_changing_requirements(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its values."""
    values = draw_values(task_seed)
    words = values | describe_line(values)
    return Task(
        name="changing-requirements",
        title="Set a timetable whose rules change twice",
        tags=("changing requirements", "superseded values", "constraints", "decisions", "preferences", "bookkeeping"),
        prompt=draw_prompt(__package__, make_rng("changing-requirements", task_seed, "order"), words),
        workspace=build_workspace(words, task_seed),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(words),
        facts=FACTS,
        script=build_script(),
        later_messages=tuple(
            LaterMessage(step=step, text=fill_text(__package__, f"{change}.md", words))
            for change, step in zip(("first", "second"), find_change_steps(), strict=True)
        ),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
