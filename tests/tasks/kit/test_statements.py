"""A request states each fact once, in the placement that the structure gives, among statements that only look like it."""

import pytest

from harness.tasks.kit.statements import (
    NOTES,
    FactText,
    Placement,
    Statement,
    add_notes,
    draw_statements,
    mislead,
    render_request,
    render_sentences,
)
from harness.tasks.kit.structure import StructureDraws

FACT_TEXTS = {
    f"rule{number}": FactText(f"Rule {number} says `${{rule{number}}}`.", f"Story {number}.", f"Hall {number} says `no`.")
    for number in range(8)
}
VALUES = {name: f"value-{name}" for name in FACT_TEXTS}
FRAME = "${lines}\n\n${rows}\n\n${stories}"


def test_every_form_has_its_place() -> None:
    placements: tuple[Placement, ...] = ("line", "story", "row", "page", "output")
    statements = [Statement(f"rule{number}", placement) for number, placement in enumerate(placements)]
    text = render_request(FRAME, statements, FACT_TEXTS, VALUES)
    assert "- Rule 0 says `value-rule0`." in text
    assert "Story 1. Rule 1 says `value-rule1`." in text
    assert "| rule2 | Rule 2 says `value-rule2`. |" in text
    assert "Rule 3" not in text
    assert render_sentences(statements, "page", FACT_TEXTS) == ["Rule 3 says `${rule3}`."]
    assert render_sentences(statements, "output", FACT_TEXTS) == ["Rule 4 says `${rule4}`."]


def test_a_misleading_statement_never_states_the_fact() -> None:
    text = render_request(FRAME, [Statement("rule1", "line", True), Statement("rule2", "story", True)], FACT_TEXTS, VALUES)
    assert "- Hall 1 says `no`." in text
    assert "Story 2. Hall 2 says `no`." in text
    assert "value-" not in text


def test_a_request_without_some_form_says_so() -> None:
    assert "all of it is told below" in render_request(FRAME, [Statement("rule0", "story")], FACT_TEXTS, VALUES)
    assert "nothing more to tell" in render_request(FRAME, [Statement("rule0", "line")], FACT_TEXTS, VALUES)


def test_notes_follow_the_sentence_and_a_share_of_the_statements_has_them() -> None:
    stated = draw_statements(StructureDraws("march", 1), "forms", FACT_TEXTS, {"line": 1.0})
    assert add_notes(StructureDraws("march", 1), stated, 0.0) == stated
    noted = add_notes(StructureDraws("march", 1), stated, 1.0)
    assert {one.notes for one in noted} == {1, 2}
    text = render_request(FRAME, noted, FACT_TEXTS, VALUES)
    for number, one in enumerate(noted):
        assert " ".join([f"- Rule {number} says `value-rule{number}`.", *NOTES[: one.notes]]) in text


@pytest.mark.parametrize("seed", range(5))
def test_each_fact_is_stated_once_and_forms_follow_their_weights(seed: int) -> None:
    draws = StructureDraws("march", seed)
    stated = draw_statements(draws, "forms", FACT_TEXTS, {"line": 0.5, "story": 0.5, "page": 0.0})
    assert [one.fact for one in stated] == list(FACT_TEXTS)
    assert {one.placement for one in stated} <= {"line", "story"}


def test_misleading_statements_need_a_sentence_of_their_own() -> None:
    fact_texts = {**FACT_TEXTS, "rule0": FactText("Rule 0 says `${rule0}`.", "Story 0.")}
    misleading = mislead(StructureDraws("march", 1), "misleading", fact_texts, 20, {"line": 1.0})
    assert {one.fact for one in misleading} == {*FACT_TEXTS} - {"rule0"}
    assert all(one.is_misleading for one in misleading)
