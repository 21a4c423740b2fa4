"""Statements of facts in the texts of a task, and misleading sentences that look like statements.

The sentence that states a fact (see `FactText`) is the same for every seed, so one pattern finds the value. The seed decides the
placement in which it appears: as a short line, at the end of a story or in a row of a table in the request, as a line of a page,
or as a line that a command prints. The seed also decides the order of the statements, and which misleading sentences are mixed
in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from string import Template
from typing import Literal, NamedTuple, TypeAlias

from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import load_text

Placement: TypeAlias = Literal["line", "story", "row", "page", "output"]
"""Place and wording in which a task states a fact.

`line`, `story` (at the end of a story) and `row` (in a table) are placements in the user's request, `page` is a line of a page in
the workspace, and `output` is a line that a command prints.
"""
NOTES = (
    "This was settled with everybody who has to do with it, and it holds for the whole of the work and for each part of it.",
    "Whoever goes on with the work after us has to keep to it as well, and nobody may change it without asking all of them.",
)
"""Sentences without information that can follow any statement of a fact in the user's request, to make it longer."""
PROMPT_PLACEMENTS: tuple[Placement, ...] = ("line", "story", "row")
"""Placements in which the user's request states facts; pages or commands of the workspace state facts in other placements."""


class FactText(NamedTuple):
    """Sentence that states the value of a fact, with a story before it and a similar but misleading sentence."""

    sentence: str
    """Sentence that states the fact, with a placeholder such as `${rate}` for the value."""
    story: str
    """Story that precedes the sentence if the fact is stated at the end of a story."""
    misleading: str = ""
    """Sentence about something else, in similar words, which no pattern of the fact matches; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Placement in which a task states one fact, or a sentence that seems to state it."""

    fact: str
    """Name of the fact that the sentence states or, if misleading, seems to state."""
    placement: Placement
    """Placement of the sentence, e.g. `row` for a row of the table in the request."""
    is_misleading: bool = False
    """Whether the sentence is about something else and only looks like a statement of the fact."""
    notes: int = 0
    """Number of sentences of `NOTES` (without information) that follow the statement in the request and make it longer."""


@cache
def load_fact_texts(package: str, name: str) -> Mapping[str, FactText]:
    """Return the sentences that state each fact of a task, by name of the fact.

    They are read from a file with one paragraph for each fact. Its lines are the sentence that states the fact, a story that may
    precede the sentence, and, in some paragraphs, a misleading sentence.

    Args:
        package: Python package that has the file in its folder `files`.
        name: Path of the file in this folder, without the ending `.tmpl`.
    """
    fact_texts = [FactText(*paragraph.split("\n")) for paragraph in load_text(package, name).strip().split("\n\n")]
    return {Template(fact_text.sentence).get_identifiers()[0]: fact_text for fact_text in fact_texts}


def draw_statements(
    draws: StructureDraws, name: str, facts: Iterable[str], weights: Mapping[Placement, float]
) -> tuple[Statement, ...]:
    """Draw at random in which placement each fact is stated, e.g. as a short line or in a table.

    Args:
        draws: Source of the random choices for the structure of the task.
        name: Name of this random choice, which selects its random generator.
        facts: Names of the facts to state.
        weights: Weight of each possible placement in the random choice; a placement with twice the weight is drawn twice as
            often.
    """
    rng = draws.make_rng(name)
    return tuple(Statement(fact, rng.choices([*weights], [*weights.values()])[0]) for fact in facts)


def add_notes(draws: StructureDraws, statements: Iterable[Statement], share: float) -> tuple[Statement, ...]:
    """Return the statements, some of them made longer by sentences without information (`NOTES`).

    Args:
        draws: Source of the random choices for the structure of the task.
        statements: Statements of facts in the texts of the task.
        share: Probability of such sentences after a statement, from 0 to 1.
    """
    rng = draws.make_rng("notes")
    return tuple(replace(statement, notes=rng.randint(1, len(NOTES)) if rng.random() < share else 0) for statement in statements)


def mislead(
    draws: StructureDraws, name: str, fact_texts: Mapping[str, FactText], count: int, weights: Mapping[Placement, float]
) -> tuple[Statement, ...]:
    """Draw misleading sentences at random, and the placement of each, e.g. a short line.

    The sentences may look like facts that the task never states.

    Args:
        draws: Source of the random choices for the structure of the task.
        name: Name of this random choice, which selects its random generator.
        fact_texts: Texts for each fact, by name of the fact; facts without a misleading sentence are not selected.
        count: Maximum number of misleading sentences.
        weights: Weight of each possible placement in the random choice; a placement with twice the weight is drawn twice as
            often.
    """
    facts = draws.draw_subset(f"{name}/facts", [fact for fact, fact_text in fact_texts.items() if fact_text.misleading], count)
    return tuple(
        Statement(statement.fact, statement.placement, True) for statement in draw_statements(draws, name, facts, weights)
    )


def render_request(
    frame: str, statements: Sequence[Statement], fact_texts: Mapping[str, FactText], values: Mapping[str, object]
) -> str:
    """Return the text of the user's request, with the statements of facts and other values filled in.

    Args:
        frame: Text of the request with placeholders. `${lines}` stands for the statements in lines, `${rows}` for the table with
            statements in rows, and `${stories}` for the stories.
        statements: Statements in order. Those on a page or in a command's output are left out.
        fact_texts: Sentences that state each fact, by name of the fact.
        values: Values of all other placeholders, by name.
    """
    by_placement: dict[Placement, list[str]] = {placement: [] for placement in PROMPT_PLACEMENTS}
    for statement in statements:
        if statement.placement in by_placement:
            by_placement[statement.placement].append(_render(statement, fact_texts[statement.fact]))
    rows = ["| subject | what was settled |", "| --- | --- |", *by_placement["row"]] if by_placement["row"] else []
    filled_frame = Template(frame).safe_substitute(
        lines="\n".join(by_placement["line"]) or "- (all of it is told below)",
        rows="\n".join(rows) or "(no table was made this time)",
        stories="\n\n".join(by_placement["story"]) or "(there is nothing more to tell)",
    )
    return Template(filled_frame).substitute(values)


def render_sentences(statements: Iterable[Statement], placement: Placement, fact_texts: Mapping[str, FactText]) -> list[str]:
    """Return the sentences that a task states in one placement, e.g. on a page.

    Placeholders such as `${rate}` stand for values.
    """
    return [
        _select_sentence(statement, fact_texts[statement.fact]) for statement in statements if statement.placement == placement
    ]


def _render(statement: Statement, fact_text: FactText) -> str:
    sentence = " ".join([_select_sentence(statement, fact_text), *NOTES[: statement.notes]])
    if statement.placement == "row":
        return f"| {statement.fact.replace('_', ' ')} | {sentence} |"
    return f"{fact_text.story} {sentence}" if statement.placement == "story" else f"- {sentence}"


def _select_sentence(statement: Statement, fact_text: FactText) -> str:
    return fact_text.misleading if statement.is_misleading else fact_text.sentence
