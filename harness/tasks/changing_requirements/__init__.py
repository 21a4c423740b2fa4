"""The task `changing-requirements`: write the timetable of a bus line, stop by stop, while the user changes the rules twice.

For each bus stop the agent reads a survey (a description of the stop) and writes a sheet (the timetable of the stop).

Phases of the work, and the information from each phase that the agent needs later:

| phase | steps | what the agent must remember |
| --- | --- | --- |
| first sheets | surveys read, sheets written, a permit requested | rules of the prompt; the permit number, shown once |
| first change | all sheets revised, more written | new interval and first bus; a telephone number stated only here |
| second change | all sheets revised, the rest written | third interval, new zone; a day without buses stated only here |
| documents | overview, poster, letter, list of bays | constraints, goal, preference of the prompt; bays from early surveys |

A bay is the numbered place at a bus stop from which the buses leave. The seed decides the structure of the task: the stops and
their order; when the rules change and when the permit is requested; the order and the lengths of the lines in which the user
changes the rules; which stops have bays; and which information sheets are due. An information sheet is a small document that the
agent writes, apart from the timetables, and that states some values to remember; see `harness.tasks.kit.sheets`.

Most summaries keep the prompt, as instructed, and the prompt states the old rules. An agent that loses a later message
therefore does not guess: it applies the outdated rule to new and to revised sheets. The interval is stated three times with
three values, of which only the last is right. At the difficulty `easy`, the second message repeats what only the first one
stated, and all sheets are revised accordingly. A bay number can be read again, at the cost of reading a whole survey.
"""

from collections.abc import Mapping

from harness.task import Cell, Check, Difficulty, Grader, LaterMessage, Task, TaskTool
from harness.tasks.changing_requirements.facts import ADDED_FACTS, FACTS, draw_all_values, make_bay_fact
from harness.tasks.changing_requirements.grader import judge
from harness.tasks.changing_requirements.steps import build_script, find_change_steps
from harness.tasks.changing_requirements.structure import Addition, Change, draw_structure
from harness.tasks.changing_requirements.workspace import build_workspace, describe_line
from harness.tasks.kit.agreements import load_agreements
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.statements import NOTES, load_fact_texts, render_request
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import fill_text, load_text

_TAGS = ("changing requirements", "superseded values", "constraints", "decisions", "preferences", "bookkeeping")
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
)
"""Checks of the task for every seed."""


_ADDED_CHECKS: Mapping[Addition, tuple[Check, ...]] = {
    "none": (),
    "images": (),
    "skill": (
        make_check("seal", "each sheet that was written under the rules of the skill has the seal", "seal"),
        make_check("register", "each paper begins with the line that the skill asks for", "register"),
        make_check("imprint", "each paper ends with the line that the skill asks for", "imprint"),
    ),
    "delegation": (
        *(
            make_check(name, f"the paper on the road names the {name.replace('_', ' ')}", name)
            for name in ("assessment_number", "speed_limit", "axle_load")
        ),
        make_check("one_assessment", "one assessment was asked for, and no more"),
    ),
}
"""Checks of each variant besides those of the task."""
_ADDED_TOOLS: Mapping[Addition, tuple[TaskTool, ...]] = {
    "none": (),
    "images": ("view_image",),
    "skill": ("skill",),
    "delegation": ("explore",),
}
_ADDED_TAGS: Mapping[Addition, tuple[str, ...]] = {
    "none": (),
    "images": ("images",),
    "skill": ("late rules",),
    "delegation": ("delegated work",),
}


def make_changing_requirements(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `changing-requirements` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the stops of the line; None uses `task_seed`.
    """
    return make_with_addition("none", task_seed, difficulty, structure_seed)


def make_with_addition(addition: Addition, task_seed: int, difficulty: Difficulty, structure_seed: int | None) -> Task:
    """Make the task for a seed, with the part that a variant adds to the work."""
    draws = StructureDraws("changing-requirements", task_seed if structure_seed is None else structure_seed, difficulty)
    structure = draw_structure(draws, addition)
    sheets, values = structure.sheets, draw_all_values(task_seed, addition)
    words = values | describe_line(values, structure)
    bays = (make_bay_fact(stop, addition) for stop in structure.bays)
    facts = (*sheets.add_sources(FACTS), *bays, *sheets.facts, *ADDED_FACTS[addition])
    fact_texts = {**load_agreements(), **load_fact_texts(__package__, "constraints.md")}
    changes = zip(("first", "second"), structure.changes, find_change_steps(structure), strict=True)
    added = {"addition": addition, "sealed": structure.sealed_stops}
    request = load_text(__package__, "prompt.md") + (load_text(__package__, f"{addition}.md") if addition != "none" else "")
    return Task(
        name="changing-requirements" + (f"-{addition}" if addition != "none" else ""),
        title="Set a timetable whose rules change twice",
        tags=(*_TAGS, *_ADDED_TAGS[addition]),
        prompt=render_request(request, sheets.statements, fact_texts, words),
        workspace=build_workspace(words, structure, draws),
        checks=(
            *CHECKS,
            *(make_check(f"bay_{stop}", f"the bay of {stop} is named", f"bay_{stop}") for stop in structure.bays),
            *sheets.checks,
            *_ADDED_CHECKS[addition],
        ),
        grader=Grader(
            judge=judge,
            expected={**words, "sheets": sheets.expected, **({} if addition == "none" else added)},
        ),
        facts=facts,
        script=build_script(structure),
        later_messages=tuple(
            LaterMessage(step=step, text=_render_change(name, change, words, reminds=name == "second" and structure.reminds))
            for name, change, step in changes
        ),
        values={fact.name: values[fact.name] for fact in facts},
        cells=(Cell(difficulty="easy", window_tokens=32_768),) if addition == "none" else (),
        tools=_ADDED_TOOLS[addition],
    )


def _render_change(name: str, change: Change, words: Mapping[str, str], *, reminds: bool) -> str:
    opening, *lines = fill_text(__package__, f"{name}.md", words).splitlines()
    news = (" ".join([lines[index], *NOTES[:count]]) for index, count in zip(change.lines, change.notes, strict=True))
    reminder = fill_text(__package__, "reminder.md", words).splitlines() if reminds else ()
    return "\n".join([opening, *news, *reminder])
