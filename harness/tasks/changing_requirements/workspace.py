"""Initial workspace of the task `changing-requirements`: tools, a survey (description) of each bus stop, and old notes."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from string import Template

from harness.tasks.changing_requirements.facts import find_photo
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

NOTICES = ("No parking.", "Mind the step.", "Tickets on the bus.", "Dogs on a lead.", "Closed in winter.", "Wet paint.")
"""Notices without information; each photo shows one of them."""
PHOTO_BEGIN = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="1280" height="940">\n'
    '<rect x="100" y="120" width="1080" height="640" fill="#1f4e79"/>'
)
"""Beginning of each photo: a sign, in a picture that costs 1,605 tokens."""
SKILL_PATH = "skills/papers/SKILL.md"
"""Path of the rules that the agent loads while it works."""
ASSESSMENT_TOOL = "tools/assess.sh"
"""Path of the tool that a sub-agent runs, and that must not run twice."""
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
        *_add_files(words, structure, draws),
        *structure.sheets.render_files(titles, fact_texts, words),
    )


def _generate_surveys(values: Mapping[str, str], structure: Structure, draws: StructureDraws) -> Iterator[tuple[str, str]]:
    for stop, size in zip(structure.stops, structure.survey_characters, strict=True):
        text = _write_survey(draws, stop, size, has_bay=stop in structure.bays and structure.addition != "images")
        yield f"surveys/{stop}.md", Template(text).substitute(values)
    writer = Writer(draws.make_rng("archive"), NOUNS)
    yield "archive/notes.txt", writer.write_page("Notes on sheets", [Section("Notes")], 4_000)


def _add_files(words: Mapping[str, str], structure: Structure, draws: StructureDraws) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file that a variant of the task adds."""
    match structure.addition:
        case "images":
            for stop in structure.stops:
                lines = (f"The buses of {stop} leave from bay {words[f'bay_{stop}']} and no other.",) * (stop in structure.bays)
                texts = (f"Stop {stop}", *lines, _draw_notice(draws, stop))
                yield find_photo(stop), "\n".join((PHOTO_BEGIN, *map(_draw_text, range(len(texts)), texts), "</svg>", ""))
        case "skill":
            yield SKILL_PATH, fill_text(__package__, "skills/papers.md", words)
        case "delegation":
            yield ASSESSMENT_TOOL, fill_text(__package__, ASSESSMENT_TOOL, words)


def _draw_text(row: int, text: str) -> str:
    return f'<text x="150" y="{260 + 90 * row}" font-size="44" fill="#ffffff">{text}</text>'


def _draw_notice(draws: StructureDraws, stop: str) -> str:
    return draws.make_rng(f"photo/{stop}").choice(NOTICES)


@lru_cache(maxsize=1_000)
def _write_survey(draws: StructureDraws, stop: str, size: int, *, has_bay: bool) -> str:
    """Return the description of a bus stop, in which a placeholder stands for the number of the bay.

    The description has at least `size` characters. It is cached, because it is the same for all tasks with the same structure.
    """
    facts = (f"The buses of {stop} leave from bay ${{bay_{stop}}} and no other.",) * has_bay
    sections = [Section("The place"), Section("Getting on", facts=facts), Section("Remarks")]
    return Writer(draws.make_rng(f"survey/{stop}"), NOUNS).write_page(f"Survey of {stop}", sections, size)
