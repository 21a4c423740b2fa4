"""Initial workspace of the task `changing-requirements`: tools, a survey of each bus stop, and old notes."""

from collections.abc import Iterator, Mapping

from harness.tasks.changing_requirements.facts import BAYS, STOPS
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prose import Section, Writer
from harness.tasks.kit.texts import fill_text

NOUNS = (
    *("kerb", "shelter", "lamp post", "bench", "crossing", "driver", "passenger", "sign", "pavement", "hedge"),
    "ticket machine",
)
SURVEY_CHARACTERS = (3_500, 9_400, 6_000, 9_400)
"""Minimum lengths of the generated survey files in characters: the first file has the first length, and so on, in a cycle.

Each file fits into one tool output.
"""


def describe_line(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values for the placeholders in the task's texts that name the bus stops and their bays."""
    bays = " ".join(f"{stop}={values[f'bay_{stop}']}" for stop in BAYS)
    return {"stops": " ".join(STOPS), "count": str(len(STOPS)), "bays": bays}


def build_workspace(words: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file that the agent finds in the workspace at the start of the task."""
    return (
        *((f"tools/{name}.sh", fill_text(__package__, f"tools/{name}.sh", words)) for name in ("revise", "permit", "check")),
        ("sheets/README.md", "One sheet for each stop.\n"),
        ("plan/README.md", "The papers.\n"),
        ("log/README.md", "Fees.\n"),
        *_generate_surveys(words, task_seed),
    )


def _generate_surveys(values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    for number, stop in enumerate(STOPS):
        bay_facts = (f"The buses of {stop} leave from bay {values[f'bay_{stop}']} and no other.",) if stop in BAYS else ()
        writer = Writer(make_rng("changing-requirements", task_seed, f"survey/{stop}"), NOUNS)
        sections = [Section("The place"), Section("Getting on", facts=bay_facts), Section("Remarks")]
        size = SURVEY_CHARACTERS[number % len(SURVEY_CHARACTERS)]
        yield f"surveys/{stop}.md", writer.write_page(f"Survey of {stop}", sections, size)
    writer = Writer(make_rng("changing-requirements", task_seed, "archive"), NOUNS)
    yield "archive/notes.txt", writer.write_page("Notes on sheets", [Section("Notes")], 4_000)
