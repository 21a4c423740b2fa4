"""Initial workspace of the task `changing-requirements`: tools, a survey (description) of each bus stop, and old notes."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from string import Template

from harness.tasks.changing_requirements.structure import Structure
from harness.tasks.kit.agreements import load_agreements
from harness.tasks.kit.prose import Section, Writer
from harness.tasks.kit.statements import load_fact_texts
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import fill_text

NOUNS = (
    *("kerb", "shelter", "lamp post", "bench", "crossing", "driver", "passenger", "sign", "pavement", "hedge"),
    "ticket machine",
)

PERMIT_TOOL = "tools/permit.sh"
"""Path of the tool that must not run twice."""


def describe_line(values: Mapping[str, str], structure: Structure) -> dict[str, str]:
    """Return the names of the bus stops and their bays for the texts of the task, by placeholder."""
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
    """Return the path and the text of each file in the workspace at the start of the task."""
    titles = {stop: f"after the timetable of {stop}" for stop in structure.stops} | {"papers": "after the papers"}
    fact_texts = {**load_agreements(), **load_fact_texts(__package__, "constraints.md")}
    return (
        ("tools/revise.sh", fill_text(__package__, "tools/revise.sh", words)),
        (PERMIT_TOOL, structure.sheets.keep_output(PERMIT_TOOL, fill_text(__package__, PERMIT_TOOL, words))),
        ("tools/check.sh", fill_text(__package__, "tools/check.sh", words)),
        ("plan/README.md", "The papers.\n"),
        ("log/README.md", "Fees.\n"),
        *_generate_surveys(words, structure, draws),
        *structure.sheets.render_files(titles, fact_texts, words),
    )


def _generate_surveys(values: Mapping[str, str], structure: Structure, draws: StructureDraws) -> Iterator[tuple[str, str]]:
    for stop, size in zip(structure.stops, structure.survey_characters, strict=True):
        text = _write_survey(draws, stop, size, has_bay=stop in structure.bays)
        yield f"surveys/{stop}.md", Template(text).substitute(values)
    writer = Writer(draws.make_rng("archive"), NOUNS)
    yield "archive/notes.txt", writer.write_page("Notes on sheets", [Section("Notes")], 4_000)


@lru_cache(maxsize=1_000)
def _write_survey(draws: StructureDraws, stop: str, size: int, *, has_bay: bool) -> str:
    """Return the description of a bus stop, in which a placeholder stands for the number of the bay.

    The description has at least `size` characters. It is cached, because it is the same for all tasks with the same structure.
    """
    facts = (f"The buses of {stop} leave from bay ${{bay_{stop}}} and no other.",) * has_bay
    sections = [Section("The place"), Section("Getting on", facts=facts), Section("Remarks")]
    return Writer(draws.make_rng(f"survey/{stop}"), NOUNS).write_page(f"Survey of {stop}", sections, size)
