"""The task `long-march`: visit up to 10,000 places (posts) in order, and note numbers long after they were stated.

The number of steps, the tokens per step and all other settings of `World` can be chosen.

Kinds of information that the agent needs, and when:

| information | when it is stated and used | what the agent must remember |
| --- | --- | --- |
| current position | first step, and whenever no visible message shows it | nothing, since a tool prints the position |
| orders of the user | stated in the prompt, used `use_lag_steps` later | a constraint, a goal and a preference |
| numbers of cairns (marked places) | in a report, used `use_lag_steps` later | values, artifacts, decisions, errors, next steps |
| cairns on pages | read from a page, used as late | the same, but a forgotten number can be read again |
| corrections | half-way between statement and use | the newest number; the old number is wrong |

Every step walks to one post and prints the report of the post. Every sixth report states the number of a cairn. Each number is
used once, in a note, a fixed number of steps after its statement. The number of facts to be remembered and the tokens per step
are therefore the same at step 200 and at step 9,000, apart from the effect of the policy. The number of notes grows with the
number of steps; each note has one check. Walking to a post twice fails a check and does not print the report again.

The settings (`harness.task.World`) change the number of steps, the mean number of tokens per step including the call, the spread
of report sizes, the share of facts on pages, the number of steps between statement and use, how often a fact is stated
before its use, and the share of facts that are corrected. The seed decides all numbers, and the order of long and short reports.
"""

from collections.abc import Iterator
from functools import lru_cache

from harness.task import Check, Grader, Submission, Task, World
from harness.tasks.kit.graders import make_check
from harness.tasks.long_march.facts import draw_values, make_fact
from harness.tasks.long_march.schedule import complete_world, plan_marks
from harness.tasks.long_march.steps import build_script
from harness.tasks.long_march.workspace import build_workspace, render_prompt


def make_long_march(task_seed: int, world: World | None = None) -> Task:
    """Make the task `long-march` for a seed, with the number of steps and other demands on memory that `world` specifies.

    Args:
        task_seed: Seed that decides the numbers to remember, and the order of long and short reports.
        world: Settings, e.g. the number of steps; a setting that is None gets its value from `schedule.DEFAULT_WORLD`.

    Raises:
        UsageError: A setting is out of range, or settings contradict each other, e.g. `use_lag_steps` exceeds `steps`.
    """
    full_world = complete_world(world)
    all_marks = plan_marks(full_world)
    values = draw_values(all_marks, task_seed)
    notes = {f"note_{mark.key}": (mark.note_path, f"{mark.key}: {values.final[mark.key]}") for mark in all_marks}
    return Task(
        name="long-march",
        title="March from post to post, and write down late what was told early",
        tags=("constraints", "decisions", "artifacts", "errors", "changing requirements", "large outputs", "bookkeeping"),
        prompt=render_prompt(full_world, all_marks, values),
        workspace=build_workspace(full_world, all_marks, values, task_seed),
        checks=_build_checks(full_world),
        grader=Grader(judge=judge, expected={"steps": full_world.steps, "notes": notes}),
        facts=tuple(map(make_fact, all_marks)),
        script=build_script(full_world),
        values={mark.name: values.final[mark.key] for mark in all_marks},
    )


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    walked = submission.read_text("log/walked.txt").split()
    steps = submission.expected["steps"]
    detail = f"{len(walked)} entries, {len(set(walked))} different, of {steps}"
    yield "each_post_once", walked == [str(post) for post in range(steps)], detail
    for name, (path, line) in submission.expected["notes"].items():
        said = submission.read_text(path).strip()
        yield name, said == line, f"{path} says {said[:60]!r}"


@lru_cache(maxsize=32)
def _build_checks(world: World) -> tuple[Check, ...]:
    """Return the checks of the task: one for the order of the walk, and one for each note that the agent has to write."""
    notes = (
        make_check(f"note_{mark.key}", f"the note on {mark.key} tells the newest number", mark.name) for mark in plan_marks(world)
    )
    return (make_check("each_post_once", "every post was walked to once, in order"), *notes)
