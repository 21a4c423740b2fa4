"""Functions that read the texts of a task from the folder `files` of its package, and compose the prompt from them.

A prompt states each constraint on the work (a sentence with a value to remember) either as a bullet or at the end of a short
story; the seed decides which. The sentence is always the same, so one pattern finds the value. The text around it differs, so a
summarizer keeps different lines.
"""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

from harness.tasks.kit.draws import make_rng

STORY_SHARE = 0.5
"""Default share, from 0 to 1, of the constraints that a prompt states after a short story rather than as a bullet point."""


class Constraint(NamedTuple):
    """Sentence with a value to remember, which constrains the work, and a story that may come before it."""

    sentence: str
    """Sentence of the prompt that states the constraint with its value, e.g. a name that the agent must use."""
    story: str
    """Short story that explains the constraint and may precede its sentence in the prompt."""


@cache
def load_text(package: str, name: str) -> str:
    """Return a text from the folder `files` of a package; placeholders such as `${port}` are left in place.

    Args:
        package: Python package that contains the folder `files`.
        name: Path of the text in this folder, without the ending `.tmpl`.
    """
    return files(package).joinpath(f"files/{name}.tmpl").read_text(encoding="utf-8")


def fill_text(package: str, name: str, values: Mapping[str, object]) -> str:
    """Return a text from the folder `files` of a package, with values in place of placeholders like `${port}`."""
    return Template(load_text(package, name)).substitute(values)


def draw_prompt(package: str, task: str, task_seed: int, values: Mapping[str, str], *, story_share: float = STORY_SHARE) -> str:
    """Return the prompt of a task, with its constraints in random order.

    The text and the constraints are the files `prompt.md` and `constraints.md` in the folder `files` of the package. Each
    paragraph of `constraints.md` is one constraint: the first line is the sentence, the second line is the story.

    Args:
        package: Python package of the task, which contains the folder `files`.
        task: Name of the task.
        task_seed: Seed of the task.
        values: Values of the placeholders in the texts, by name.
        story_share: Share of the constraints that are stated at the end of their story, 0 to 1.
    """
    paragraphs = load_text(package, "constraints.md").strip().split("\n\n")
    constraints = [Constraint(*paragraph.split("\n")) for paragraph in paragraphs]
    rng = make_rng(task, task_seed, "order")
    return render_prompt(load_text(package, "prompt.md"), constraints, rng, values, story_share)


def render_prompt(
    frame: str, constraints: Sequence[Constraint], rng: random.Random, values: Mapping[str, str], story_share: float
) -> str:
    """Return a prompt that states its constraints in random order, as bullets or at the end of short stories.

    Args:
        frame: Text of the prompt with placeholders; `${dry}` stands for the bullets and `${told}` for the stories.
        constraints: Constraints with their stories.
        rng: Random generator for the order and the forms.
        values: Values of all other placeholders, by name.
        story_share: Probability, from 0 to 1, that a constraint is stated at the end of its story.
    """
    shuffled_constraints = rng.sample(constraints, len(constraints))
    is_long = [rng.random() < story_share for _ in shuffled_constraints]
    bullets = [f"- {one.sentence}" for one, long in zip(shuffled_constraints, is_long, strict=True) if not long]
    stories = [f"{one.story} {one.sentence}" for one, long in zip(shuffled_constraints, is_long, strict=True) if long]
    filled_frame = Template(frame).safe_substitute(
        dry="\n".join(bullets) or "- (all of it is told below)", told="\n\n".join(stories)
    )
    return Template(filled_frame).substitute(values)
