"""What must be remembered: one sentence for each fact, by which it is told wherever it is told, and the values of a seed."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read
from harness.tasks.kit.draws import make_rng
from harness.tasks.long_march.schedule import Mark

PRIOR = "0000"
"""What is assumed of a number that was forgotten; never drawn."""
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
"""Kind, what the number is, and the sentence that tells it: first the three orders, then the cairns in turn."""


class Values(NamedTuple):
    """The numbers of a seed by the key of the mark."""

    first: dict[str, str]
    """As told at first."""
    final: dict[str, str]
    """After the revisions."""


def draw_values(marks: Sequence[Mark], task_seed: int) -> Values:
    """Draw the numbers of every mark under a seed."""
    first, final = {}, {}
    for mark in marks:
        rng = make_rng("long-march", task_seed, mark.key)
        old, new = rng.sample(range(1_000, 10_000), 2)
        first[mark.key], final[mark.key] = str(old), str(new if mark.revised_step else old)
    return Values(first=first, final=final)


def render_sentence(mark: Mark, value: str) -> str:
    """Render the sentence that tells a mark."""
    words = (mark.key, value) if mark.key.startswith("cairn") else (value,)
    return FACT_FORMS[mark.form_index][2] % words


def make_fact(mark: Mark) -> Fact:
    """Make the fact of a mark. A revised mark is told last by a report, whatever told it first."""
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
