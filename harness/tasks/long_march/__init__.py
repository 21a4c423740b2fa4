"""The task `long-march`: a march of up to 10,000 steps at a chosen token rate, in a world whose knobs can all be turned.

Which memory it loads, and why:

| part of the work | steps | what must be remembered |
| --- | --- | --- |
| where the march stands | the first, and whenever nothing shows it | nothing: the log of posts tells |
| orders | told by the prompt, used `use_lag_steps` later | a constraint, a goal and a preference |
| cairns said once | told by a report, used `use_lag_steps` later | values, artifacts, decisions, errors, next steps |
| cairns on pages | read from a page, used as late | the same, at the cost of a read if forgotten |
| corrections | half way between telling and use | the newest number: who keeps the old line alone is wrong |

Every step walks to one post and hears its report. Every sixth tells of a cairn; each number is used once, in a note, a fixed
lag after it was told. So what is in flight, what a step brings and what a summary must hold are the same at step 200 and at step
9,000: a steady state, apart from what a policy does to it. The number of notes grows with the march, one check each. Walking a
post twice is harm that a check notices, and the report is not read out again.

The knobs (`harness.task.World`) turn: the steps of the script; the mean of what a step brings into view, calls included; the
tail of the reports; which share of the facts stands on pages; the lag; how often a fact is told before it is used; the share of
facts that a correction replaces. The order of the sizes and all numbers come from the seed, everything else from the world.
"""

import json
from functools import lru_cache

from harness.task import Check, Task, World
from harness.tasks.kit.graders import build_grader, make_check
from harness.tasks.kit.texts import fill_text
from harness.tasks.long_march.facts import draw_values, make_fact
from harness.tasks.long_march.schedule import complete_world, plan_marks
from harness.tasks.long_march.steps import build_script
from harness.tasks.long_march.workspace import build_workspace, render_prompt


def make_long_march(task_seed: int, world: World | None = None) -> Task:
    """Make the task under a seed, in a world; knobs that are left alone are those of `schedule.DEFAULT_WORLD`.

    Raises:
        UsageError: knobs that do not go together, e.g. a lag longer than the march.
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
        grader=build_grader(fill_text(__package__, "verdicts.py", {"steps": full_world.steps, "notes": json.dumps(notes)})),
        facts=tuple(map(make_fact, all_marks)),
        script=build_script(full_world),
        values={mark.name: values.final[mark.key] for mark in all_marks},
    )


@lru_cache(maxsize=32)
def _build_checks(world: World) -> tuple[Check, ...]:
    """Build a check for the posts, and one for each note."""
    notes = (
        make_check(f"note_{mark.key}", f"the note on {mark.key} tells the newest number", mark.name) for mark in plan_marks(world)
    )
    return (make_check("each_post_once", "every post was walked to once, in order"), *notes)
