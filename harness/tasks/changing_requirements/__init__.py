"""The task `changing-requirements`: write the timetable of a bus line, stop by stop, while the user changes the rules twice.

For each bus stop the agent reads a survey (a description of the stop) and writes a sheet (the timetable of the stop).

Phases of the work, and the information from each phase that the agent needs later:

| phase | steps | what the agent must remember |
| --- | --- | --- |
| first sheets | nine surveys read, nine sheets written, a permit requested | rules of the prompt; the permit number, shown once |
| first change | nine sheets revised, eight more written | new interval and first bus; a telephone number stated only here |
| second change | seventeen sheets revised, seven more written | third interval, new zone; a day without buses stated only here |
| documents | overview, poster, letter, list of bays | constraints, goal, preference of the prompt; bays from early surveys |

Most summaries keep the prompt, as instructed, and the prompt states the old rules. An agent that loses a later message
therefore does not guess: it applies the outdated rule to new and to revised sheets. The interval is stated three times with
three values, of which only the last is right. A bay number can be read again, at the cost of reading a whole survey.
"""

from harness.task import Grader, LaterMessage, Task
from harness.tasks.changing_requirements.facts import BAYS, FACTS, draw_values
from harness.tasks.changing_requirements.grader import judge
from harness.tasks.changing_requirements.steps import build_script, find_change_steps
from harness.tasks.changing_requirements.workspace import build_workspace, describe_line
from harness.tasks.kit.graders import make_check
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
    """Make the task `changing-requirements` for a seed, which decides the values that the agent must remember."""
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
        grader=Grader(judge=judge, expected=words),
        facts=FACTS,
        script=build_script(),
        later_messages=tuple(LaterMessage(step=step, text=fill_text(__package__, f"{name}.md", words)) for name, step in changes),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
