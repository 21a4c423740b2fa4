"""A march in turns: `long-march` under a user who speaks every few steps, with reports now and then that are far too long.

The posts, facts and notes are those of `long-march`. What is added loads nothing: messages of the user make turns of the steps,
and some steps also print an old archive, which says nothing that is needed. One turn prints many.
"""

import random
from dataclasses import replace
from itertools import groupby

from harness.task import LaterMessage, Script, Step, Task, World
from harness.tasks.kit.calls import run
from harness.tasks.long_march import make_long_march
from harness.tasks.long_march.prose import write_page

TURN_STEPS = 5
ARCHIVE_CHARACTERS = 160_000
"""Three times what 50 KB hold."""
ARCHIVE_EVERY_TURNS = 8
SPIKE_TURN = 75
SPIKE_ARCHIVES = 10


def turns(task_seed: int, world: World | None = None, *, structure_seed: int | None = None) -> Task:
    """The task under a seed; world and structure are those of the march."""
    march = make_long_march(task_seed, world, structure_seed=structure_seed)
    steps = len(march.script.steps)
    read = archives(steps)
    later = (
        LaterMessage(step=step + 1, text=f"Turn {step // TURN_STEPS + 1}. Go on with the next posts, as before.")
        for step in range(TURN_STEPS, steps, TURN_STEPS)
    )
    pages = (
        (
            f"archive/{number}.txt",
            write_page("Nothing here is needed.", ARCHIVE_CHARACTERS, random.Random(f"archive/{task_seed}/{number}")),
        )
        for _, number in read
    )
    return replace(
        march,
        name="march-in-turns",
        title="March from post to post, turn by turn",
        workspace=(*march.workspace, *pages),
        script=with_archives(march.script, read),
        later_messages=tuple(later),
    )


def archives(steps: int) -> list[tuple[int, int]]:
    """Step, counted from 0, and number of each archive that is read."""
    usual = [turn * TURN_STEPS for turn in range(ARCHIVE_EVERY_TURNS - 1, steps // TURN_STEPS, ARCHIVE_EVERY_TURNS)]
    spike = [(SPIKE_TURN - 1) * TURN_STEPS + at % TURN_STEPS for at in range(SPIKE_ARCHIVES)]
    every = sorted([*usual, *(step for step in spike if step < steps)])
    return [(step, number) for number, step in enumerate(every)]


def with_archives(script: Script, read: list[tuple[int, int]]) -> Script:
    """The script whose steps also print their archives."""
    of_step = {step: [number for _, number in pairs] for step, pairs in groupby(read, key=lambda one: one[0])}

    def told(at: int, step: Step) -> Step:
        more = (run(f"cat archive/{number}.txt") for number in of_step.get(at, ()))
        return replace(step, calls=(*step.calls, *more))

    return replace(script, steps=tuple(told(at, step) for at, step in enumerate(script.steps)))
