"""Script of the task `changing-requirements`: the agent writes timetables and revises all of them after each change of rules."""

from collections.abc import Iterator
from functools import lru_cache

from harness.task import Script
from harness.tasks.changing_requirements.facts import find_photo
from harness.tasks.changing_requirements.structure import Structure
from harness.tasks.kit.calls import explore, list_directory, load_skill, read, run, view_image, write
from harness.tasks.kit.steps import StepSpec, do, do_once, look, make_script

_SHEET = "stop: {}\noperator: ${{operator}}\ninterval: ${{interval}}\nfirst: ${{first_bus}}\nzone: ${{zone}}\nset: by hand\n"
_POSTER = (
    "The new line, by ${operator}: from early to late every ${interval} minutes!\nNo service on ${rest_day}.\n"
    "Questions: call ${hotline}.\n"
)
_OVERVIEW = (
    "# The new line\n\nOpening: ${opening}. Ticket: ${ticket}.\n"
    "All sheets: zone ${zone}, from ${first_bus}, every ${interval} min.\n"
)
_SEAL = "seal: ${seal}\n"
_HEAD, _FOOT = "file: ${register}\n", "imprint: ${imprint}\n"
"""First and last line of each document under the rules of the skill."""
_ROAD = "# The road\n\nAssessment ${assessment_number}: at most ${speed_limit} km/h, and ${axle_load} kg on one axle.\n"
ASSESSMENT_QUESTION = (
    "Have the road assessed: run `sh tools/assess.sh` one single time, since every call costs a fee. "
    "Then quote its lines on the assessment number, the speed limit and the axle load."
)
"""Errand of the sub-agent in the variant with delegation."""
_LETTER = "${greeting},\n\na new line serves you, under permit ${permit}.\nFor all questions dial ${hotline}.\n"


def _revise_sheet(number: int, stop: str, fields: str) -> StepSpec:
    sheet, earlier = rf"^sheets/{stop}\.txt:set: by hand", rf"(?:, changed in round [1-{number - 1}])?" if number > 1 else ""
    return do(
        f"revise-{number}-{stop}",
        f"The sheet of {stop} follows change {number}.",
        run(f"sh tools/revise.sh {number} {stop} {fields}"),
        summary_pattern=f"{sheet}, changed in round {number}",
        required_text=f"sheets/{stop}.txt:set",
        missing_pattern=f"{sheet}{earlier}$",
    )


def _set_timetables(structure: Structure, first: int, last: int) -> Iterator[StepSpec]:
    """Yield the steps that write the timetables of the stops with the indexes from `first` to before `last`.

    The request for the permit and the information sheets follow the stops after which they are due.
    """
    for number, stop in enumerate(structure.stops[first:last], start=first + 1):
        photos = [view_image(find_photo(stop))] if structure.addition == "images" else []
        yield look(f"survey-{stop}", f"The survey of {stop} first.", read(f"surveys/{stop}.md"), *photos)
        sheet = _SHEET.format(stop) + (_SEAL if stop in structure.sealed_stops else "")
        yield do(f"sheet-{stop}", f"Now the sheet of {stop}.", write(f"sheets/{stop}.txt", sheet))
        if stop in structure.looks:
            yield look(f"check-{stop}", f"How does the sheet of {stop} look?", run(f"sh tools/check.sh {stop}"))
        if number == structure.permit_after:
            yield do_once(
                "permit", "The permit is asked for once.", "sh tools/permit.sh", r"has permit number P-\d{4}", "permit number"
            )
        yield from structure.sheets.write_sheets(stop)


def _delegate(structure: Structure) -> Iterator[StepSpec]:
    if structure.addition == "delegation":
        yield do("assess", "A helper has the road assessed; I need no more than the result.", explore(ASSESSMENT_QUESTION))


@lru_cache(maxsize=64)
def _build_sections(structure: Structure) -> tuple[tuple[StepSpec, ...], ...]:
    """Return the steps before the user's first change of the rules, up to the second change, and after it."""
    first, second = (change.sheet_count for change in structure.changes)
    folders = (".", "surveys", "sheets", "plan", *("photos",) * (structure.addition == "images"))
    begin = (
        look("orient", "Let me look around.", *map(list_directory, folders)),
        structure.sheets.read_index("Besides the timetables, information sheets are asked for; I look up which ones."),
        *_delegate(structure),
    )
    after_first = (_revise_sheet(1, stop, "interval ${interval} first ${first_bus}") for stop in structure.stops[:first])
    fields = "interval ${interval} zone ${zone}" + " first ${first_bus}" * structure.reminds
    after_second = (_revise_sheet(2, stop, fields) for stop in structure.stops[:second])
    bays = "".join(f"- {stop}=${{bay_{stop}}}\n" for stop in structure.bays)
    head, foot = (_HEAD, _FOOT) if structure.addition == "skill" else ("", "")
    papers = (
        do("overview", "The papers: first the overview.", write("plan/overview.md", f"{head}{_OVERVIEW}{foot}")),
        do("poster", "The poster.", write("plan/poster.txt", f"{head}{_POSTER}{foot}")),
        do("letter", "The letter to those who live there.", write("plan/letter.md", f"{head}{_LETTER}{foot}")),
        do("bays", "Which bay at which stop.", write("plan/bays.md", f"{head}{bays}{foot}")),
        *[do("road", "What the assessor said of the road.", write("plan/road.md", _ROAD))] * (structure.addition == "delegation"),
    )
    skill = [look("load-skill", "Now the house style counts; I load it.", load_skill("papers"))] * (structure.addition == "skill")
    return (
        (*begin, *_set_timetables(structure, 0, first)),
        (*skill, *after_first, *_set_timetables(structure, first, second)),
        (
            *after_second,
            *_set_timetables(structure, second, len(structure.stops)),
            *papers,
            *structure.sheets.write_sheets("papers"),
        ),
    )


def find_change_steps(structure: Structure) -> tuple[int, int]:
    """Return the numbers of the two steps right before which the user changes the rules for the timetable."""
    before_first, before_second, _ = map(len, _build_sections(structure))
    status = 1  # the agent first looks how far the work is
    return status + before_first + 1, status + before_first + before_second + 1


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    status_commands = ("grep -s ^set: sheets/*.txt /dev/null",)
    return make_script(
        "Sheets and papers are done.", ("sheets/", "plan/"), *_build_sections(structure), status_commands=status_commands
    )
