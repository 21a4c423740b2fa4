"""Facts (numbers to remember) of the task `long-march`: the sentence that states each number, and the draw of the numbers."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read
from harness.tasks.kit.draws import make_rng
from harness.tasks.long_march.schedule import Mark

PRIOR = "0000"
"""Wrong number that a scripted model writes in place of a forgotten number; it is never a correct answer."""
FACT_FORMS: tuple[tuple[FactKind, str, str], ...] = (
    ("constraint", "seal", "Every parcel of the march must bear seal %s."),
    ("goal", "camp", "The march is to end at camp %s."),
    ("preference", "lamp", "The council would rather see lamp %s lit than any other."),
    ("value", "height", "The height of %s is %s feet."),
    ("artifact", "crate", "The crate left at %s is filed under number %s."),
    ("decision", "trail", "It is settled that the party of %s takes trail %s."),
    ("error", "ford", "The bridge below %s does not hold, so ford %s must be used."),
    ("next-step", "station", "Whoever passes %s is to signal station %s next."),
)
"""Forms of facts (numbers to remember): kind of the fact, word for its number, and sentence with `%s` in place of the number.

The first three forms are orders of the user.
"""


class Values(NamedTuple):
    """Numbers that the agent must remember, as drawn for one seed of the task."""

    first: dict[str, str]
    """Number that the task first states for each fact, before any correction, by key of the fact."""
    final: dict[str, str]
    """Correct number of each fact after its correction, if there is one, by key of the fact."""


def draw_values(marks: Sequence[Mark], task_seed: int) -> Values:
    """Draw at random the number that each fact has first, and the number after its correction if the schedule has one."""
    first, final = {}, {}
    for mark in marks:
        rng = make_rng("long-march", task_seed, mark.key)
        old, new = rng.sample(range(1_000, 10_000), 2)
        first[mark.key], final[mark.key] = str(old), str(new if mark.revised_step else old)
    return Values(first=first, final=final)


def render_sentence(mark: Mark, value: str) -> str:
    """Return the sentence in which the task states a fact, with `value` as its number, e.g. for a prompt or a report."""
    words = (mark.key, value) if mark.key.startswith("cairn") else (value,)
    return FACT_FORMS[mark.form_index][2] % words


def make_fact(mark: Mark) -> Fact:
    """Make a fact (a number to remember) from its schedule, which lists the steps that state, correct and use the number."""
    said_in = "output" if mark.revised_step else "file" if mark.on_page else "output" if mark.told_step else "prompt"
    return Fact(
        name=mark.name,
        kind=FACT_FORMS[mark.form_index][0],
        said_in=said_in,  # type: ignore[arg-type]
        patterns=(render_sentence(mark, r"(\d{4})").replace(".", r"\."),),
        prior=PRIOR,
        recover=read(mark.page_path) if mark.on_page else None,
        revised=bool(mark.revised_step),
        required_word=mark.key,
    )
