"""The task `changing-requirements-skill`: `changing-requirements` with rules that a tool loads while the agent works.

After the first change of the rules, the agent loads the skill `papers` with the tool `skill`. The file states three rules: a
line that each timetable has from then on, and the first and the last line of each document. The documents are written at the
end, about fifty steps and two further messages of the user later. The checks `seal`, `register` and `imprint` hold the rules
against the files.

An agent that has forgotten a rule does not know that there was one, so the script never loads the skill again: the rules are
lost unless they stay in view, are in a summary, or are shown again, as `claude-code` does with results of tools named `skill`.
A user's request that survives says only that there is a skill.

Everything else, the structure of each seed included, is that of `changing-requirements`, so that sessions of both can be
paired.
"""

from harness.task import Difficulty, Task
from harness.tasks.changing_requirements import make_with_addition


def make_changing_requirements_skill(
    task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None
) -> Task:
    """Make the task `changing-requirements-skill` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the stops of the line; None uses `task_seed`.
    """
    return make_with_addition("skill", task_seed, difficulty, structure_seed)
