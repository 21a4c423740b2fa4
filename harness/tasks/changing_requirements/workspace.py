"""Initial workspace of the task `changing-requirements`: tools, a survey of each bus stop, and old notes."""

from collections.abc import Iterator, Mapping

from harness.tasks.changing_requirements.structure import Structure
from harness.tasks.kit.agreements import load_agreements
from harness.tasks.kit.prose import Section, Writer
from harness.tasks.kit.statements import load_sayings
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import fill_text

NOUNS = (
    *("kerb", "shelter", "lamp post", "bench", "crossing", "driver", "passenger", "sign", "pavement", "hedge"),
    "ticket machine",
)


def describe_line(values: Mapping[str, str], structure: Structure) -> dict[str, str]:
    """Return the values for the placeholders in the task's texts that name the bus stops and their bays."""
    bays = " ".join(f"{stop}={values[f'bay_{stop}']}" for stop in structure.bays)
    stops = structure.stops
    return {
        "stops": " ".join(stops),
        "line": ", ".join(stops),
        "count": str(len(stops)),
        "bays": bays,
        "bay_count": str(len(structure.bays)),
    }


def build_workspace(words: Mapping[str, str], structure: Structure, draws: StructureDraws) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file that the agent finds in the workspace at the start of the task."""
    titles = {stop: f"after the timetable of {stop}" for stop in structure.stops} | {"papers": "after the papers"}
    sayings = {**load_agreements(), **load_sayings(__package__, "constraints.md")}
    return (
        *((f"tools/{name}.sh", fill_text(__package__, f"tools/{name}.sh", words)) for name in ("revise", "permit", "check")),
        ("plan/README.md", "The papers.\n"),
        ("log/README.md", "Fees.\n"),
        *_generate_surveys(words, structure, draws),
        *structure.sheets.render_files(titles, sayings, words),
    )


def _generate_surveys(values: Mapping[str, str], structure: Structure, draws: StructureDraws) -> Iterator[tuple[str, str]]:
    for stop, size in zip(structure.stops, structure.survey_characters, strict=True):
        bay_facts = (f"The buses of {stop} leave from bay {values[f'bay_{stop}']} and no other.",) * (stop in structure.bays)
        writer = Writer(draws.make_rng(f"survey/{stop}"), NOUNS)
        sections = [Section("The place"), Section("Getting on", facts=bay_facts), Section("Remarks")]
        yield f"surveys/{stop}.md", writer.write_page(f"Survey of {stop}", sections, size)
    writer = Writer(draws.make_rng("archive"), NOUNS)
    yield "archive/notes.txt", writer.write_page("Notes on sheets", [Section("Notes")], 4_000)
