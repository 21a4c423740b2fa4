"""Prompts state every constraint once, as a bullet or at the end of its story."""

import random

from harness.tasks.kit.texts import Constraint, render_prompt

CONSTRAINTS = tuple(Constraint(f"Rule {number} says ${{value}}.", f"Story {number}.") for number in range(8))


def test_every_constraint_is_told_once_and_some_with_their_story():
    stories = set()
    for seed in range(30):
        text = render_prompt("${dry}\n\n${told}", CONSTRAINTS, random.Random(seed), {"value": "17"}, 0.5)
        for number in range(8):
            assert text.count(f"Rule {number} says 17.") == 1
            assert (f"- Rule {number}" in text) != (f"Story {number}. Rule {number}" in text)
        stories.add(text.count("Story"))
    assert len(stories) > 3


def test_an_order_without_dry_constraints_says_so():
    texts = [render_prompt("${dry}", CONSTRAINTS[:1], random.Random(seed), {"value": "1"}, 0.5) for seed in range(30)]
    assert {"- Rule 0 says 1.", "- (all of it is told below)"} == set(texts)
