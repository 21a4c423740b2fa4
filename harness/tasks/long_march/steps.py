"""Script of the task `long-march`: the steps of a competent agent, which are the same whatever the numbers to remember are."""

import re
from collections.abc import Sequence
from functools import lru_cache

from harness.task import Evidence, Script, Step
from harness.tasks.kit.calls import read, run, write
from harness.tasks.long_march.facts import describe
from harness.tasks.long_march.schedule import Mark, Note
from harness.tasks.long_march.structure import Structure

REACHED_PATTERN = r"^Post (\d+) of \d+ is reached\."
"""Regular expression for the number of the post that the agent has reached; all steps up to this number are then done."""


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${cairn_17}` stand for the numbers to remember.
    """
    notes = {note.post: note for note in structure.list_notes()}
    pages: dict[int, list[Mark]] = {}
    for mark in structure.marks:
        if mark.on_page:
            pages.setdefault(mark.told_step, []).append(mark)
    steps = (_build_step(number, pages.get(number, ()), notes.get(number)) for number in range(1, structure.steps))
    final_text = "The march is over, and all notes are written."
    return Script(steps=tuple(steps), final_text=final_text, status_calls=(run("sh tools/where.sh"),))


def _build_step(number: int, pages: Sequence[Mark], note: Note | None) -> Step:
    walk, text = f"sh tools/walk.sh {number}", f"Walking to post {number}."
    calls = [run(walk), *(read(mark.page_path) for mark in pages)]
    marks = note.marks if note else ()
    if note:
        text = f"Walking to post {number}; a note is due here: {', '.join(map(describe, marks))}."
        calls.append(write(note.path, "".join(f"{mark.key}: ${{{mark.name}}}\n" for mark in marks)))
    evidence = Evidence(
        receipts=(("execute_command", f"^{re.escape(walk)}$"),), count_pattern=REACHED_PATTERN, minimum_count=number
    )
    return Step(
        name=f"post-{number}", text=text, calls=tuple(calls), required_facts=tuple(mark.name for mark in marks), done=evidence
    )
