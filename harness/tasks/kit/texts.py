"""Texts of a task, which stand in the folder `files` of its package; among them the prompt, an order as people write it.

Under each seed some constraints of the prompt are dry bullets and others the end of a story. The sentence that holds the value is
always the same, so one pattern reads it; but the lines around it differ in length and company, and with them what a summarizer
keeps.
"""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

from harness.tasks.kit.draws import make_rng

STORY_SHARE = 0.5
"""Share of the constraints whose story is told too, unless a task says otherwise."""


class Constraint(NamedTuple):
    """A constraint in one sentence, which holds the value, and the story behind it."""

    sentence: str
    story: str


@cache
def load_text(package: str, name: str) -> str:
    """Return the text of `name` (a path below `files`, without `.tmpl`), placeholders unfilled."""
    return files(package).joinpath(f"files/{name}.tmpl").read_text(encoding="utf-8")


def fill_text(package: str, name: str, values: Mapping[str, object]) -> str:
    """Return the text of `name` with values in its placeholders."""
    return Template(load_text(package, name)).substitute(values)


def draw_prompt(package: str, task: str, task_seed: int, values: Mapping[str, str], *, story_share: float = STORY_SHARE) -> str:
    """Render the prompt of a task under a seed from its texts `prompt.md` and `constraints.md`.

    A paragraph of `constraints.md` is a constraint: its first line is the sentence, its second line the story.
    """
    paragraphs = load_text(package, "constraints.md").strip().split("\n\n")
    constraints = [Constraint(*paragraph.split("\n")) for paragraph in paragraphs]
    rng = make_rng(task, task_seed, "order")
    return render_prompt(load_text(package, "prompt.md"), constraints, rng, values, story_share)


def render_prompt(
    frame: str, constraints: Sequence[Constraint], rng: random.Random, values: Mapping[str, str], story_share: float
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
