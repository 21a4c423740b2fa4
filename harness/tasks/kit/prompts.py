"""Orders as people write them: under each seed some constraints are dry bullets and others the end of a story.

The sentence that holds the value is always the same, so one pattern reads it; but the lines around it differ in length and
company, and with them what a summarizer keeps.
"""

import random
from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

from harness.tasks.kit.texts import load_text

STORY_SHARE = 0.5
"""Share of the constraints whose story is told too, unless a task says otherwise."""


class Constraint(NamedTuple):
    """A constraint in one sentence, which holds the value, and the story behind it."""

    sentence: str
    story: str


def draw_prompt(package: str, rng: random.Random, values: Mapping[str, str], *, story_share: float = STORY_SHARE) -> str:
    """Render the prompt of a task from its texts `prompt.md` and `constraints.md`.

    A paragraph of `constraints.md` is a constraint: its first line is the sentence, its second line the story.
    """
    paragraphs = load_text(package, "constraints.md").strip().split("\n\n")
    constraints = [Constraint(*paragraph.split("\n")) for paragraph in paragraphs]
    return render_prompt(load_text(package, "prompt.md"), constraints, rng, values, story_share=story_share)


def render_prompt(
    frame: str,
    constraints: Sequence[Constraint],
    rng: random.Random,
    values: Mapping[str, str],
    *,
    story_share: float = STORY_SHARE,
) -> str:
    """Render the prompt: `frame` with the dry constraints for `${dry}` and the others for `${told}`, both in a drawn order."""
    shuffled_constraints = rng.sample(constraints, len(constraints))
    is_long = [rng.random() < story_share for _ in shuffled_constraints]
    bullets = [f"- {one.sentence}" for one, long in zip(shuffled_constraints, is_long, strict=True) if not long]
    stories = [f"{one.story} {one.sentence}" for one, long in zip(shuffled_constraints, is_long, strict=True) if long]
    filled_frame = Template(frame).safe_substitute(
        dry="\n".join(bullets) or "- (all of it is told below)", told="\n\n".join(stories)
    )
    return Template(filled_frame).substitute(values)
