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

from string import Template

from harness.task import Check, LaterMessage, Task
from harness.tasks.changing_requirements.bus_line import BAYS, STOPS, SURVEY_CHARACTERS
from harness.tasks.changing_requirements.facts import FACTS, draw_values
from harness.tasks.changing_requirements.steps import build_script, find_change_steps
from harness.tasks.facts import make_rng
from harness.tasks.kit import load_text
from harness.tasks.kit.graders import build_grader
from harness.tasks.kit.prompts import Constraint, render_prompt
from harness.tasks.kit.prose import Section, Writer

NOUNS = (
    "kerb",
    "shelter",
    "lamp post",
    "bench",
    "crossing",
    "driver",
    "passenger",
    "sign",
    "pavement",
    "hedge",
    "ticket machine",
)
CONSTRAINTS = (
    Constraint("A bus runs every ${interval_1} minutes.", "The ferry used to come as it liked, and people gave up on it."),
    Constraint("In the morning the first one leaves at ${first_bus_1}.", "The early shift of the harbour walked for years."),
    Constraint("All sheets show zone ${zone_1}.", "Fares were the longest part of every meeting about the line."),
    Constraint("The operator is called `${operator}`, in small letters.", "Two companies bid, and the smaller one won."),
    Constraint("The line opens on ${opening}.", "The mayor wants to ride the first bus, and her calendar is full."),
    Constraint("Our ticket is ${ticket}.", "The office files everything that has a number and loses the rest."),
    Constraint("We would like the letter to greet with `${greeting}`.", "The last letter began stiffly, and it was laughed at."),
)
CHECKS = (
    *(Check(name=name, title=f"every sheet has the {name.replace('_', ' ')} that holds in the end", required_facts=(name,))
      for name in ("operator", "interval", "first_bus", "zone")),
    *(Check(name=name, title=f"the papers name the {name.replace('_', ' ')}", required_facts=(name,))
      for name in ("opening", "ticket", "hotline", "rest_day", "greeting")),
    Check(name="poster_interval", title="the poster names the interval that holds in the end", required_facts=("interval",)),
    Check(name="permit", title="the letter names the permit", required_facts=("permit",)),
    Check(name="one_permit", title="one permit was asked for, and no more"),
    *(Check(name=f"bay_{stop}", title=f"the bay of {stop} is named", required_facts=(f"bay_{stop}",)) for stop in BAYS),
)  # fmt: skip


def make_changing_requirements(task_seed: int) -> Task:
    """The task under a seed, which gives every fact its values."""
    values = draw_values(task_seed)
    words = {
        "stops": " ".join(STOPS),
        "count": str(len(STOPS)),
        "bays": " ".join(f"{stop}={values[f'bay_{stop}']}" for stop in BAYS),
    }

    def fill_template(name: str) -> str:
        return Template(load_text(__package__, f"files/{name}")).substitute({**values, **words})

    first, second = find_change_steps()
    tools = tuple((f"tools/{name}.sh", fill_template(f"tools/{name}.sh")) for name in ("revise", "permit", "check"))
    empty = (
        ("sheets/README.md", "One sheet for each stop.\n"),
        ("plan/README.md", "The papers.\n"),
        ("log/README.md", "Fees.\n"),
    )
    frame = load_text(__package__, "files/prompt.md")
    return Task(
        name="changing-requirements",
        title="Set a timetable whose rules change twice",
        tags=("changing requirements", "superseded values", "constraints", "decisions", "preferences", "bookkeeping"),
        prompt=render_prompt(frame, CONSTRAINTS, make_rng("changing-requirements", task_seed, "order"), {**values, **words}),
        workspace=(*tools, *empty, *_generate_surveys(values, task_seed)),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(fill_template("verdicts.py")),
        facts=FACTS,
        script=build_script(),
        later_messages=(
            LaterMessage(step=first, text=fill_template("first.md")),
            LaterMessage(step=second, text=fill_template("second.md")),
        ),
        values={fact.name: values[fact.name] for fact in FACTS},
    )


def _generate_surveys(values: dict[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """What was found at each stop, and the archive's notes on sheets."""
    pages = []
    for number, stop in enumerate(STOPS):
        bay_facts = (f"The buses of {stop} leave from bay {values[f'bay_{stop}']} and no other.",) if stop in BAYS else ()
        writer = Writer(make_rng("changing-requirements", task_seed, f"survey/{stop}"), NOUNS)
        sections = [Section("The place"), Section("Getting on", facts=bay_facts), Section("Remarks")]
        size = SURVEY_CHARACTERS[number % len(SURVEY_CHARACTERS)]
        pages.append((f"surveys/{stop}.md", writer.write_page(f"Survey of {stop}", sections, size)))
    writer = Writer(make_rng("changing-requirements", task_seed, "archive"), NOUNS)
    notes = writer.write_page("Notes on sheets", [Section("Notes")], 4_000)
    return (*pages, ("archive/notes.txt", notes))
