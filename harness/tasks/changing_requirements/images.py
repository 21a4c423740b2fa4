"""The task `changing-requirements-images`: `changing-requirements` with a photo of each bus stop, of which some show the bay.

The agent looks at the photo of a stop with the tool `view_image`, together with the survey. Each photo is an image part of
1,605 tokens in the result of the tool, so the photos of 18 to 24 stops fill a window of 32,768 tokens by themselves. The bays
that `plan/bays.md` names at the end stand only on the photos. What a policy does with images therefore counts twice: a policy
that does not count their tokens compacts too late, and one that drops them early costs one more look for each bay, again of
1,605 tokens.

Everything else, the structure of each seed included, is that of `changing-requirements`, so that sessions of both can be
paired. A photo is an SVG file. Scripted models and summarizers read what is written on it; a real model that can see is sent
its pixels.
"""

from harness.task import Difficulty, Task
from harness.tasks.changing_requirements import make_with_addition


def make_changing_requirements_images(
    task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None
) -> Task:
    """Make the task `changing-requirements-images` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the stops of the line; None uses `task_seed`.
    """
    return make_with_addition("images", task_seed, difficulty, structure_seed)
