"""Orders as people write them: under each seed some constraints are dry bullets and others the end of a story.

The sentence that holds the value is always the same, so one pattern reads it; but the lines around it differ in length and
company, and with them what a summarizer keeps.
"""

import random
from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

STORY_SHARE = 0.5
"""Share of the constraints whose story is told too, unless a task says otherwise."""


class Constraint(NamedTuple):
    """A constraint in one sentence, which holds the value, and the story behind it."""

    sentence: str
    story: str


def render_prompt(
    frame: str,
    constraints: Sequence[Constraint],
    rng: random.Random,
    values: Mapping[str, str],
    *,
    story_share: float = STORY_SHARE,
) -> str:
    """The prompt: `frame` with the dry constraints for `${dry}` and the others for `${told}`, both in a drawn order."""
    shuffled_constraints = rng.sample(constraints, len(constraints))
    is_long = [rng.random() < story_share for _ in shuffled_constraints]
    bullets = [f"- {one.sentence}" for one, long in zip(shuffled_constraints, is_long, strict=True) if not long]
    stories = [f"{one.story} {one.sentence}" for one, long in zip(shuffled_constraints, is_long, strict=True) if long]
    filled_frame = Template(frame).safe_substitute(
        dry="\n".join(bullets) or "- (all of it is told below)", told="\n\n".join(stories)
    )
    return Template(filled_frame).substitute(values)
