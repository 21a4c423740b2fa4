"""Facts (numbers to remember) of the task `long-march`: the sentence that states each number, and the draw of the numbers."""

from collections.abc import Sequence
from typing import NamedTuple

from harness.task import Fact, FactKind
from harness.tasks.kit.calls import read
from harness.tasks.kit.draws import make_rng
from harness.tasks.long_march.schedule import Mark

PRIOR = "0000"
"""Number that a scripted model writes when it has forgotten the right number; no fact has this value."""
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
"""Forms of facts: kind, meaning of the number, and sentence that states it; three for orders, then five for cairns."""


class Values(NamedTuple):
    """Numbers to remember under a seed, by key of the fact."""

    first: dict[str, str]
    """Number of each fact as first stated, by key of the fact."""
    final: dict[str, str]
    """Number of each fact after all corrections, by key of the fact."""


def draw_values(marks: Sequence[Mark], task_seed: int) -> Values:
    """Draw the first and the final number of each fact in the schedule."""
    first, final = {}, {}
    for mark in marks:
        rng = make_rng("long-march", task_seed, mark.key)
        old, new = rng.sample(range(1_000, 10_000), 2)
        first[mark.key], final[mark.key] = str(old), str(new if mark.revised_step else old)
    return Values(first=first, final=final)


def render_sentence(mark: Mark, value: str) -> str:
    """Render the sentence that states the number `value` of a fact."""
    words = (mark.key, value) if mark.key.startswith("cairn") else (value,)
    return FACT_FORMS[mark.form_index][2] % words


def make_fact(mark: Mark) -> Fact:
    """Make a fact (a number to remember) from its schedule. A report always states the newest number of a corrected fact."""
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
