"""Script of the task `long-march`: the steps of a competent agent, which depend on the settings and not on the seed."""

import re
from functools import lru_cache

from harness.task import CallTemplate, Evidence, Script, Step, World
from harness.tasks.kit.calls import read, run, write
from harness.tasks.long_march.facts import FACT_FORMS
from harness.tasks.long_march.schedule import Mark, plan_marks

REACHED_PATTERN = r"^Post (\d+) of \d+ is reached\."
"""Pattern for the number of the post that the agent has reached; all steps up to this number are then done."""


@lru_cache(maxsize=32)
def build_script(world: World) -> Script:
    """Build the script that a scripted model follows: the steps of a competent agent; no setting in `world` may be None."""
    all_marks = plan_marks(world)
    reads = {mark.told_step: mark for mark in all_marks if mark.on_page}
    uses = {mark.use_step: mark for mark in all_marks}
    numbers = range(int(world.overrides["steps"]))
    steps = tuple(_build_step(number, reads.get(number), uses.get(number)) for number in numbers)
    return Script(steps=steps, final_text="The march is over, and all notes are written.")


def _build_step(number: int, page: Mark | None, due: Mark | None) -> Step:
    walk = f"sh tools/walk.sh {number}" if number else "sh tools/where.sh"
    text = f"Walking to post {number}." if number else "Let me see where the march stands."
    calls: list[CallTemplate] = [run(walk)]
    if page:
        calls.append(read(page.page_path))
    if due:
        text = f"Walking to post {number}; the {FACT_FORMS[due.form_index][1]} of {due.key} is due here."
        calls.append(write(due.note_path, f"{due.key}: ${{{due.name}}}\n"))
    done = Evidence(receipts=(("execute_command", f"^{re.escape(walk)}$"),), count_pattern=REACHED_PATTERN, minimum_count=number)
    return Step(name=f"post-{number}", text=text, calls=tuple(calls), required_facts=(due.name,) if due else (), done=done)
