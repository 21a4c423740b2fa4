"""Agreements: facts about the organisation in which a task takes place, such as the room for questions about the result.

Each task states some agreements, chosen by its seed, in the user's request, on a page or in the output of a command. The agent
needs them only for information sheets, small documents that it has to write (see `harness.tasks.kit.sheets`). The sentences that
state the agreements are in `files/agreements.md.tmpl` of this package.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from harness.task import Fact
from harness.tasks.kit.draws import draw_values
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact
from harness.tasks.kit.statements import FactText, Statement, load_fact_texts

PAGE_PATH = "sheets/agreements.md"
"""Path of the page in the workspace that states facts about the organisation, if a task has such a page."""
ANSWERS_PATH = "sheets/answers.sh"
"""Path of the script in the workspace that prints facts about the organisation, if a task has such a script."""
ANSWERS_COMMAND = f"sh {ANSWERS_PATH}"

_FACTS: tuple[Fact, ...] = (
    make_prompt_fact("contact_room", "value", "A-101", r"about the result go to room `([A-Z]-\d{3})`"),
    make_prompt_fact("support_line", "value", "1000", r"support line under the extension `(\d{4})`"),
    make_prompt_fact("launch_day", "goal", "1", r"result is announced on day (\d+) of the quarter"),
    make_prompt_fact("budget_code", "artifact", "B-0000", r"booked on the budget code `(B-\d{4})`"),
    replace(
        make_prompt_fact("reviewer", "decision", "Smith", r"person who signs the work is called (\w+)\b"),
        value_pattern=r"[A-Z][a-z]+",
    ),
    make_prompt_fact("mail_list", "value", "all", r"sent to the mailing list `([a-z-]+)`"),
    make_prompt_fact("retention_years", "constraint", "10", r"written here is kept for (\d+) years"),
    make_prompt_fact("licence", "constraint", "MIT", r"handed on under the licence `([\w.-]+)`"),
    make_prompt_fact("paper_size", "preference", "A4", r"copies have the format ([A-C]\d)\b"),
    make_prompt_fact("copies", "value", "100", r"printing office makes (\d+) copies"),
    make_prompt_fact("answer_hours", "constraint", "24", r"fault has to be answered within (\d+) hours"),
    make_prompt_fact("archive_shelf", "artifact", "S-01", r"signed copy is filed on the shelf `([A-Z]-\d\d)`"),
    make_prompt_fact("mirror_host", "artifact", "localhost", r"mirrored on the host `([a-z-]+)`"),
    make_prompt_fact("freeze_week", "constraint", "52", r"[Aa]fter week (\d+) nothing may be changed"),
)
CHOICES: Mapping[str, Sequence[object]] = MappingProxyType(
    {
        "contact_room": tuple(f"{wing}-{number}" for wing in "BDEFG" for number in range(203, 240, 4)),
        "support_line": range(2011, 3990, 17),
        "launch_day": range(12, 60),
        "budget_code": tuple(f"B-{number}" for number in range(3107, 9900, 61)),
        "reviewer": ("Oyelaran", "Brandt", "Kovacs", "Lindqvist", "Moreau", "Tanaka", "Ferrante", "Novak", "Rahimi"),
        "mail_list": ("north-desk", "open-door", "night-shift", "blue-room", "first-floor", "long-table", "west-wing"),
        "retention_years": (6, 7, 8, 9, 11, 12, 13, 14, 15),
        "licence": ("Apache-2.0", "MPL-2.0", "EUPL-1.2", "BSD-2-Clause", "ISC", "Zlib", "AFL-3.0"),
        "paper_size": ("A3", "A5", "A6", "B3", "B4", "B5", "C3", "C4", "C5"),
        "copies": range(120, 490, 10),
        "answer_hours": (2, 3, 4, 5, 8, 9, 12, 16, 36, 48, 72),
        "archive_shelf": tuple(f"{row}-{number}" for row in "KLMNP" for number in range(11, 60, 6)),
        "mirror_host": ("harbour", "lantern", "quarry", "orchard", "beacon", "meadow", "bridge", "chapel"),
        "freeze_week": range(18, 50),
    }
)
"""Possible values of each agreement (fact about the organisation), by name of the agreement."""
NAMES: tuple[str, ...] = tuple(CHOICES)
"""Names of all agreements (facts about the organisation around a task)."""


def load_agreements() -> Mapping[str, FactText]:
    """Return the sentences that state each fact about the organisation, by name of the fact."""
    return load_fact_texts(__package__, "agreements.md")


def load_all_fact_texts(package: str) -> dict[str, FactText]:
    """Return the sentences for all facts that a task with agreements can state, by name of the fact.

    Args:
        package: Python package of the task, which has a file `constraints.md` in its folder `files`.
    """
    return {**load_agreements(), **load_fact_texts(package, "constraints.md")}


def make_agreements(statements: Iterable[Statement]) -> tuple[Fact, ...]:
    """Return the facts about the organisation that the texts of a task state.

    Each fact names the place where the agent can look up a forgotten value.

    Args:
        statements: Sentences in the texts of the task; those about other facts and misleading ones are left out.
    """
    facts = {fact.name: fact for fact in _FACTS}
    return tuple(
        _make_page_fact(facts[statement.fact], statement)
        for statement in statements
        if not statement.is_misleading and statement.fact in facts
    )


def _make_page_fact(fact: Fact, statement: Statement) -> Fact:
    if statement.placement == "page":
        file_fact = make_file_fact(fact.name, fact.kind, PAGE_PATH, fact.prior, *fact.patterns)
    elif statement.placement == "output":
        file_fact = make_output_fact(fact.name, fact.kind, ANSWERS_COMMAND, fact.prior, *fact.patterns, source=ANSWERS_PATH)
    else:
        file_fact = fact
    return replace(file_fact, kind=fact.kind)


def draw_agreements(task: str, task_seed: int) -> dict[str, str]:
    """Draw a value for every fact about the organisation, even if the task does not state it."""
    return draw_values(task, task_seed, _FACTS, CHOICES)
