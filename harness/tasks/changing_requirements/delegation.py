"""The task `changing-requirements-delegation`: `changing-requirements` with an errand of a sub-agent, needed at the end.

Before the first timetable, the agent sends a sub-agent (tool `explore`, so the trial needs `explore = true`). The sub-agent
runs a tool that must not run twice and answers with three lines: a number, a speed and a load. They are needed only for the
last document, some eighty steps later. The checks `assessment_number`, `speed_limit`, `axle_load` and `one_assessment` ask
whether the answer survived, and whether nobody sent for it again.

The answer is a tool result of a few words among results of thousands of characters, which is what rules that clear old results
by age or size do not see. Some policies exempt answers of sub-agents, such as `three-tiers`.

Everything else, the structure of each seed included, is that of `changing-requirements`, so that sessions of both can be
paired.
"""

from harness.task import Difficulty, Task
from harness.tasks.changing_requirements import make_with_addition


def make_changing_requirements_delegation(
    task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None
) -> Task:
    """Make the task `changing-requirements-delegation` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the stops of the line; None uses `task_seed`.
    """
    return make_with_addition("delegation", task_seed, difficulty, structure_seed)
