"""Facts of the task `long-march`: the sentence that states each number, and the draw of the numbers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from string import Template
from typing import NamedTuple

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.statements import FactText, load_fact_texts
from harness.tasks.kit.texts import load_text
from harness.tasks.long_march.schedule import Mark

PRIOR = "0000"
"""Wrong number that a scripted model writes in place of a forgotten number; it is never a correct answer."""
ORDER_KINDS: Mapping[str, FactKind] = {
    "seal": "constraint",
    "camp": "goal",
    "lamp": "preference",
    "tariff": "constraint",
    "signal": "decision",
    "banner": "preference",
    "purse": "artifact",
    "gate": "decision",
}
"""Kind of fact, e.g. `goal`, that each order of the user is, by key of the order."""
CAIRN_FORMS: tuple[tuple[FactKind, str], ...] = (
    ("value", "height"),
    ("artifact", "crate"),
    ("decision", "trail"),
    ("error", "ford"),
    ("next-step", "station"),
)
"""Kind of fact and word for the number, for each form of a statement about a cairn (a marked place on the way)."""


class Values(NamedTuple):
    """Numbers to remember that were drawn for one seed, before and after corrections."""

    first: dict[str, str]
    """Number that the task states first, by key of the fact."""
    final: dict[str, str]
    """Right number at the end, which differs from the first one if the task corrects the fact, by key of the fact."""


@cache
def load_cairn_texts() -> tuple[FactText, ...]:
    """Return the sentences for each form of a statement about a cairn (a marked place).

    They are in the order of `CAIRN_FORMS`.
    """
    return tuple(FactText(*paragraph.split("\n")) for paragraph in load_text(__package__, "cairns.md").strip().split("\n\n"))


def load_orders() -> Mapping[str, FactText]:
    """Return the sentences that state each order of the user, by key of the order."""
    return load_fact_texts(__package__, "orders.md")


def draw_values(marks: Iterable[Mark], task_seed: int) -> Values:
    """Draw at random the number of each fact, and another one if the task corrects the fact later."""
    first, final = {}, {}
    for mark in marks:
        old, new = make_rng("long-march", task_seed, mark.key).sample(range(1_000, 10_000), 2)
        first[mark.key], final[mark.key] = str(old), str(new if mark.revised_step else old)
    return Values(first=first, final=final)


def find_form(key: str) -> int:
    """Return the index in `CAIRN_FORMS` of the form in which the task states the number of a cairn.

    Args:
        key: Key of the cairn, e.g. `cairn17`, which alone decides the form.
    """
    return int(key.removeprefix("cairn")) % len(CAIRN_FORMS)


def describe(mark: Mark) -> str:
    """Return the words that name a fact in a request for a note, e.g. `height of cairn17`, or `lamp`."""
    return mark.key if mark.is_order else f"{CAIRN_FORMS[find_form(mark.key)][1]} of {mark.key}"


def find_fact_text(mark: Mark) -> FactText:
    """Return the sentences that state a fact, with placeholders for the number and the cairn (marked place)."""
    return load_orders()[mark.key] if mark.is_order else load_cairn_texts()[find_form(mark.key)]


def render_sentence(mark: Mark, value: str) -> str:
    """Return the sentence in which the task states a fact, with `value` as its number."""
    sentence = find_fact_text(mark).sentence
    return Template(sentence).substitute({mark.key: value} if mark.is_order else {"cairn": mark.key, "number": value})


def make_facts(marks: Sequence[Mark]) -> tuple[Fact, ...]:
    """Make the facts of a task from their schedules.

    Numbers for which no note asks are left out.
    """
    return tuple(_make_fact(mark) for mark in marks if mark.use_step)


def _make_fact(mark: Mark) -> Fact:
    said_in = "output" if mark.revised_step else "file" if mark.on_page else "prompt" if mark.is_order else "output"
    return Fact(
        name=mark.name,
        kind=ORDER_KINDS[mark.key] if mark.is_order else CAIRN_FORMS[find_form(mark.key)][0],
        said_in=said_in,  # type: ignore[arg-type]
        patterns=(render_sentence(mark, r"(\d{4})").replace(".", r"\."),),
        prior=PRIOR,
        recover=read(mark.page_path) if mark.on_page else None,
        revised=bool(mark.revised_step),
        required_word=mark.key,
    )
