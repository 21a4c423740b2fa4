"""Orders as people write them: under each seed some constraints are dry bullets and others the end of a story.

The sentence that holds the value is always the same, so one pattern reads it; but the lines around it differ in length and
company, and with them what a summarizer keeps.
"""

import random
from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

TOLD_AT_LENGTH = 0.5
"""Share of the constraints whose story is told too, unless a task says otherwise."""


class Constraint(NamedTuple):
    """A constraint in one sentence, which holds the value, and the story behind it."""

    sentence: str
    story: str


def order(
    frame: str,
    constraints: Sequence[Constraint],
    draw: random.Random,
    values: Mapping[str, str],
    *,
    told_at_length: float = TOLD_AT_LENGTH,
) -> str:
    """The prompt: `frame` with the dry constraints for `${dry}` and the others for `${told}`, both in a drawn order."""
    chosen = draw.sample(constraints, len(constraints))
    at_length = [draw.random() < told_at_length for _ in chosen]
    dry = [f"- {one.sentence}" for one, long in zip(chosen, at_length, strict=True) if not long]
    told = [f"{one.story} {one.sentence}" for one, long in zip(chosen, at_length, strict=True) if long]
    whole = Template(frame).safe_substitute(dry="\n".join(dry) or "- (all of it is told below)", told="\n\n".join(told))
    return Template(whole).substitute(values)
