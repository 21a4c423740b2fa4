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
from harness.tasks.changing_requirements.facts import BAYS, FACTS, draw_values
from harness.tasks.changing_requirements.steps import build_script, find_change_steps
from harness.tasks.changing_requirements.workspace import build_workspace, describe_line
from harness.tasks.kit.graders import build_grader, make_check
from harness.tasks.kit.texts import draw_prompt, fill_text

CHECKS = (
    *(
        make_check(name, f"every sheet has the {name.replace('_', ' ')} that holds in the end", name)
        for name in ("operator", "interval", "first_bus", "zone")
    ),
    *(
        make_check(name, f"the papers name the {name.replace('_', ' ')}", name)
        for name in ("opening", "ticket", "hotline", "rest_day", "greeting")
    ),
    make_check("poster_interval", "the poster names the interval that holds in the end", "interval"),
    make_check("permit", "the letter names the permit", "permit"),
    make_check("one_permit", "one permit was asked for, and no more"),
    *(make_check(f"bay_{stop}", f"the bay of {stop} is named", f"bay_{stop}") for stop in BAYS),
)


def make_changing_requirements(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its values."""
    values = draw_values(task_seed)
    words = values | describe_line(values)
    changes = zip(("first", "second"), find_change_steps(), strict=True)
    return Task(
        name="changing-requirements",
        title="Set a timetable whose rules change twice",
        tags=("changing requirements", "superseded values", "constraints", "decisions", "preferences", "bookkeeping"),
        prompt=draw_prompt(__package__, "changing-requirements", task_seed, words),
        workspace=build_workspace(words, task_seed),
        checks=CHECKS,
        grader=build_grader(fill_text(__package__, "verdicts.py", words)),
        facts=FACTS,
        script=build_script(),
        later_messages=tuple(LaterMessage(step=step, text=fill_text(__package__, f"{name}.md", words)) for name, step in changes),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
