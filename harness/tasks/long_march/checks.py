"""What must hold in the end, and the program that looks whether it does; functions of the world and the numbers of a seed."""

import json
from collections.abc import Sequence
from functools import lru_cache

from harness.task import Check, Grader, World
from harness.tasks.kit import graders
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import fill_text
from harness.tasks.long_march.facts import Values
from harness.tasks.long_march.schedule import Mark, plan_marks


@lru_cache(maxsize=32)
def build_checks(world: World) -> tuple[Check, ...]:
    """Build a check for the posts, and one for each note."""
    notes = (
        make_check(f"note_{mark.key}", f"the note on {mark.key} tells the newest number", mark.name) for mark in plan_marks(world)
    )
    return (make_check("each_post_once", "every post was walked to once, in order"), *notes)


def build_grader(world: World, marks: Sequence[Mark], values: Values) -> Grader:
    """Build the program that reads the notes and the log of posts; no code of the agent runs."""
    notes = {f"note_{mark.key}": (mark.note_path, f"{mark.key}: {values.final[mark.key]}") for mark in marks}
    return graders.build_grader(fill_text(__package__, "verdicts.py", {"steps": world.steps, "notes": json.dumps(notes)}))
