"""The task `long-march`: visit up to 10,000 places (posts) in order, and note numbers long after they were stated.

The number of steps, the tokens per step and all other settings of `World` can be chosen.

Kinds of information that the agent needs, and when:

| information | when it is stated and used | what the agent must remember |
| --- | --- | --- |
| current position | first step, and whenever no visible message shows it | nothing, since a tool prints the position |
| orders of the user | stated in the prompt, used at some time of the march | constraints, goals, preferences, decisions |
| numbers of cairns (marked places) | in a report, used `use_lag_steps` later | values, artifacts, decisions, errors, next steps |
| cairns on pages | read from a page, used as late | the same, but a forgotten number can be read again |
| corrections | half-way between statement and use | the newest number; the old number is wrong |

Every step walks to one post and prints the report of the post. Some reports state the numbers of one or more cairns. A note asks
for these numbers later; each note has one check. The number of facts to be remembered at a time and the tokens per step are on
average the same at step 200 and at step 9,000, apart from what the compaction policy removes. The number of notes grows with the
number of steps. Walking to a post twice fails a check and does not print the report again.

The settings (`harness.task.World`) change the number of steps, the mean number of tokens per step including the call, the spread
of report sizes, the share of facts on pages, the number of steps between statement and use, how often a fact is stated
before its use, and the share of facts that are corrected. The difficulty decides the bounds within which the seed draws the
settings that are not specified.

The seed also decides which orders the user gives and in which words; which cairns are on the way and in which order; the distance
between them; which numbers a note asks for, and which are never needed; how each number is stated (in a line of its own, after a
story, or before sentences without information); misleading sentences about other places; and the order of long and short reports.
"""

from collections.abc import Iterator
from functools import lru_cache

from harness.errors import format_count
from harness.task import Cell, Check, Grader, Submission, Task, World
from harness.tasks.kit.explanations import explain_statements
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.long_march.facts import draw_values, make_facts
from harness.tasks.long_march.steps import build_script
from harness.tasks.long_march.structure import Structure, draw_structure
from harness.tasks.long_march.workspace import build_workspace, render_prompt


def make_long_march(task_seed: int, world: World | None = None, *, structure_seed: int | None = None) -> Task:
    """Make the task `long-march` for a seed, and for settings such as the number of steps.

    Args:
        task_seed: Seed that decides the numbers to remember.
        world: Settings, e.g. the number of steps; a setting that is None is drawn, within bounds that the difficulty decides.
        structure_seed: Seed that decides the structure, e.g. which notes are due; None uses `task_seed`.

    Raises:
        UsageError: A setting is out of range, or settings contradict each other, e.g. `use_lag_steps` exceeds `steps`.
    """
    world = world or World()
    draws = StructureDraws("long-march", task_seed if structure_seed is None else structure_seed, world.difficulty)
    structure = draw_structure(draws, world)
    values = draw_values(structure.marks, task_seed)
    notes = {
        note.check_name: (note.path, [f"{mark.key}: {values.final[mark.key]}" for mark in note.marks])
        for note in structure.list_notes()
    }
    return Task(
        name="long-march",
        title="March from post to post, and write down late what was told early",
        tags=("constraints", "decisions", "artifacts", "errors", "changing requirements", "large outputs", "bookkeeping"),
        prompt=render_prompt(structure, values),
        workspace=build_workspace(structure, values, draws),
        checks=_build_checks(structure),
        grader=Grader(judge=judge, expected={"steps": structure.steps, "notes": notes}),
        facts=make_facts(structure.marks),
        script=build_script(structure),
        values={mark.name: values.final[mark.key] for mark in structure.marks if mark.use_step},
        cells=(Cell(difficulty="easy", window_tokens=32_768),),
    )


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    walked_cairns = submission.read_text("log/walked.txt").split()
    steps = submission.expected["steps"]
    detail = (
        f"log/walked.txt should have each of {steps:,} posts once, in order; it has {format_count(len(walked_cairns), 'entry')}"
    )
    detail += f", {len(set(walked_cairns)):,} of them different"
    yield "each_post_once", walked_cairns == [str(post) for post in range(steps)], detail
    for name, (path, lines) in submission.expected["notes"].items():
        noted_lines = [line for line in map(str.strip, submission.read_text(path).split("\n")) if line]
        expected, found = (dict(line.partition(": ")[::2] for line in stated) for stated in (lines, noted_lines))
        yield name, sorted(noted_lines) == sorted(lines), explain_statements(path, expected, found)


@lru_cache(maxsize=64)
def _build_checks(structure: Structure) -> tuple[Check, ...]:
    notes = (
        make_check(note.check_name, f"{note.path} tells the newest numbers", *(mark.name for mark in note.marks))
        for note in structure.list_notes()
    )
    return (make_check("each_post_once", "every post was walked to once, in order"), *notes)
