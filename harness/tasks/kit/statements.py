"""Statements of facts: where and how an instance states each value, and misleading statements that only look like one.

A saying gives a fact's sentence, which is the same under every seed, so one pattern reads the value. The structure of an instance
decides the form of each statement: a short line, the end of a story or the row of a table in the request, a line of a page, or a
line that a command prints. It also decides the order, and which misleading statements stand among the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from string import Template
from typing import Literal, NamedTuple, TypeAlias

from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import load_text

Form: TypeAlias = Literal["line", "story", "row", "page", "output"]
"""Form of a statement: line, end of a story or row of a table in the request, line of a page, or line printed by a command."""
NOTES = (
    "This was settled with everybody who has to do with it, and it holds for the whole of the work and for each part of it.",
    "Whoever goes on with the work after us has to keep to it as well, and nobody may change it without asking all of them.",
)
"""Sentences that can follow any statement in the request. Since many statements share them, they say little about any of them."""
PROMPT_FORMS: tuple[Form, ...] = ("line", "story", "row")
"""Forms of the statements that stand in the request."""


class Saying(NamedTuple):
    """Sentence that states a fact with its value, a story that may precede it, and a sentence that only looks like it."""

    sentence: str
    """Sentence with the placeholder of the fact."""
    story: str
    """Story that may precede the sentence."""
    misleading: str = ""
    """Sentence about something else, in similar words, which no pattern of the fact matches; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement of one fact in an instance, or a misleading statement that looks like it."""

    fact: str
    """Name of the fact that is stated."""
    form: Form
    """Place and manner of the statement."""
    is_misleading: bool = False
    """Whether the statement is about something else and only looks like one of the fact."""
    notes: int = 0
    """Number of sentences of `NOTES` that follow the statement in the request, and make it longer without saying more."""


@cache
def load_sayings(package: str, name: str) -> Mapping[str, Saying]:
    """Return the sayings in a text of a task, by name of the fact.

    Each paragraph of the text is one saying: sentence, story and, if there is one, the misleading sentence, on a line each.
    """
    sayings = [Saying(*paragraph.split("\n")) for paragraph in load_text(package, name).strip().split("\n\n")]
    return {Template(one.sentence).get_identifiers()[0]: one for one in sayings}


def draw_statements(
    draws: StructureDraws, name: str, facts: Iterable[str], weights: Mapping[Form, float]
) -> tuple[Statement, ...]:
    """Draw the form of each fact's statement; forms with larger weights are drawn more often.

    Args:
        draws: Random draws of the instance's structure.
        name: Name of the draw.
        facts: Names of the facts to state.
        weights: Weight of each form that is possible.
    """
    rng = draws.make_rng(name)
    return tuple(Statement(fact, rng.choices([*weights], [*weights.values()])[0]) for fact in facts)


def add_notes(draws: StructureDraws, statements: Iterable[Statement], share: float) -> tuple[Statement, ...]:
    """Add notes to a share of the statements; half of these get one note, the others get all of `NOTES`."""
    rng = draws.make_rng("notes")
    return tuple(replace(one, notes=rng.randint(1, len(NOTES)) if rng.random() < share else 0) for one in statements)


def mislead(
    draws: StructureDraws, name: str, sayings: Mapping[str, Saying], count: int, weights: Mapping[Form, float]
) -> tuple[Statement, ...]:
    """Draw up to `count` misleading statements and the form of each; the facts need not be stated in the instance."""
    facts = draws.draw_subset(f"{name}/facts", [fact for fact, one in sayings.items() if one.misleading], count)
    return tuple(Statement(one.fact, one.form, True) for one in draw_statements(draws, name, facts, weights))


def render_request(
    frame: str, statements: Sequence[Statement], sayings: Mapping[str, Saying], values: Mapping[str, object]
) -> str:
    """Return a request that states facts in the order of `statements`; statements outside the request are left out.

    The placeholder `${dry}` in `frame` becomes the lines, `${rows}` the table and `${told}` the stories; others are filled from
    `values`.
    """
    by_form: dict[Form, list[str]] = {form: [] for form in PROMPT_FORMS}
    for one in statements:
        if one.form in by_form:
            by_form[one.form].append(_render(one, sayings[one.fact]))
    rows = ["| subject | what was settled |", "| --- | --- |", *by_form["row"]] if by_form["row"] else []
    filled_frame = Template(frame).safe_substitute(
        dry="\n".join(by_form["line"]) or "- (all of it is told below)",
        rows="\n".join(rows) or "(no table was made this time)",
        told="\n\n".join(by_form["story"]) or "(there is nothing more to tell)",
    )
    return Template(filled_frame).substitute(values)


def render_sentences(statements: Iterable[Statement], form: Form, sayings: Mapping[str, Saying]) -> list[str]:
    """Return the sentences of the statements with one form, with placeholders instead of values."""
    return [_select_sentence(one, sayings[one.fact]) for one in statements if one.form == form]


def _render(statement: Statement, saying: Saying) -> str:
    sentence = " ".join([_select_sentence(statement, saying), *NOTES[: statement.notes]])
    if statement.form == "row":
        return f"| {statement.fact.replace('_', ' ')} | {sentence} |"
    return f"{saying.story} {sentence}" if statement.form == "story" else f"- {sentence}"


def _select_sentence(statement: Statement, saying: Saying) -> str:
    return saying.misleading if statement.is_misleading else saying.sentence
