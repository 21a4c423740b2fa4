"""Script of the task `changing-requirements`: the agent writes timetables and revises all of them after each change of rules."""

from collections.abc import Iterator
from functools import lru_cache

from harness.task import Script
from harness.tasks.changing_requirements.structure import Structure
from harness.tasks.kit.calls import list_directory, read, run, write
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
        yield look(f"survey-{stop}", f"The survey of {stop} first.", read(f"surveys/{stop}.md"))
        yield do(f"sheet-{stop}", f"Now the sheet of {stop}.", write(f"sheets/{stop}.txt", _SHEET.format(stop)))
        if stop in structure.looks:
            yield look(f"check-{stop}", f"How does the sheet of {stop} look?", run(f"sh tools/check.sh {stop}"))
        if number == structure.permit_after:
            yield do_once(
                "permit", "The permit is asked for once.", "sh tools/permit.sh", r"has permit number P-\d{4}", "permit number"
            )
        yield from structure.sheets.write_sheets(stop)


@lru_cache(maxsize=64)
def _build_sections(structure: Structure) -> tuple[tuple[StepSpec, ...], ...]:
    """Return the steps before the user's first change of the rules, up to the second change, and after it."""
    first, second = (change.sheet_count for change in structure.changes)
    begin = (
        look("orient", "Let me look around.", *(list_directory(folder) for folder in (".", "surveys", "sheets", "plan"))),
        structure.sheets.read_index("Besides the timetables, information sheets are asked for; I look up which ones."),
    )
    after_first = (_revise_sheet(1, stop, "interval ${interval} first ${first_bus}") for stop in structure.stops[:first])
    fields = "interval ${interval} zone ${zone}" + " first ${first_bus}" * structure.reminds
    after_second = (_revise_sheet(2, stop, fields) for stop in structure.stops[:second])
    bays = "".join(f"- {stop}=${{bay_{stop}}}\n" for stop in structure.bays)
    papers = (
        do("overview", "The papers: first the overview.", write("plan/overview.md", _OVERVIEW)),
        do("poster", "The poster.", write("plan/poster.txt", _POSTER)),
        do("letter", "The letter to those who live there.", write("plan/letter.md", _LETTER)),
        do("bays", "Which bay at which stop.", write("plan/bays.md", bays)),
    )
    return (
        (*begin, *_set_timetables(structure, 0, first)),
        (*after_first, *_set_timetables(structure, first, second)),
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
