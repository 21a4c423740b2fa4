"""Agreements are read wherever an instance states them, and no misleading sentence is read as one."""

import re

import pytest

from harness.tasks.kit.agreements import (
    ANSWERS_PATH,
    CHOICES,
    NAMES,
    PAGE_PATH,
    draw_agreements,
    load_agreements,
    make_agreements,
)
from harness.tasks.kit.statements import Placement, Statement, render_request

FRAME = "${lines}\n\n${rows}\n\n${stories}"


def read(text: str) -> dict[str, list[str]]:
    facts = make_agreements(Statement(name, "line") for name in NAMES)
    return {fact.name: re.findall(fact.patterns[0], text, re.MULTILINE) for fact in facts}


@pytest.mark.parametrize("placement", ["line", "story", "row"])
def test_each_agreement_is_read_in_every_form_and_only_its_own(placement: Placement) -> None:
    for seed in range(20):
        values = draw_agreements("march", seed)
        text = render_request(FRAME, [Statement(name, placement) for name in NAMES], load_agreements(), values)
        assert read(text) == {name: [values[name]] for name in NAMES}


def test_no_misleading_sentence_is_read_as_an_agreement() -> None:
    text = render_request(FRAME, [Statement(name, "story", True) for name in NAMES], load_agreements(), {})
    assert read(text) == {name: [] for name in NAMES}


def test_the_place_of_the_statement_decides_how_it_is_looked_up_and_not_how_it_is_read() -> None:
    facts = make_agreements(Statement("copies", placement) for placement in ("line", "page", "output"))
    assert [fact.said_in for fact in facts] == ["prompt", "file", "output"]
    assert [fact.source for fact in facts] == ["", PAGE_PATH, ANSWERS_PATH]
    assert len({(fact.patterns, fact.prior, fact.kind) for fact in facts}) == 1


def test_every_agreement_has_a_sentence_and_values_other_than_its_prior() -> None:
    assert set(load_agreements()) == set(CHOICES) == set(draw_agreements("march", 1))
    for fact in make_agreements(Statement(name, "line") for name in NAMES):
        assert fact.prior not in map(str, CHOICES[fact.name])
