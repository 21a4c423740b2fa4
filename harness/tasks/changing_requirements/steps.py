"""Script of the task `changing-requirements`: the agent writes timetables and revises all of them after each change of rules."""

from functools import cache

from harness.task import Script
from harness.tasks.changing_requirements.facts import BAYS, STOPS
from harness.tasks.kit.calls import list_directory, read, run, write
from harness.tasks.kit.steps import StepSpec, do, do_once, look, make_script

SHEETS_BEFORE_FIRST_CHANGE, SHEETS_BEFORE_SECOND_CHANGE = 9, 17
"""Numbers of timetable sheets that the agent has written when the user changes the rules for the first and second time."""
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


def _write_sheet(stop: str) -> tuple[StepSpec, StepSpec]:
    reading = do(f"survey-{stop}", f"The survey of {stop} first.", read(f"surveys/{stop}.md"))
    writing = write(f"sheets/{stop}.txt", _SHEET.format(stop))
    return reading, do(f"sheet-{stop}", f"Now the sheet of {stop}.", writing)


def _revise_sheet(number: int, stop: str, fields: str) -> StepSpec:
    command = f"sh tools/revise.sh {number} {stop} {fields}"
    return do(f"revise-{number}-{stop}", f"The sheet of {stop} follows change {number}.", run(command))


def _check_sheet(stop: str) -> StepSpec:
    return look(f"check-{stop}", f"How does the sheet of {stop} look?", run(f"sh tools/check.sh {stop}"))


STEPS_BEFORE_FIRST_CHANGE = (
    look("orient", "Let me look around.", *(list_directory(folder) for folder in (".", "surveys", "sheets", "plan"))),
    *(row for stop in STOPS[:SHEETS_BEFORE_FIRST_CHANGE] for row in _write_sheet(stop)),
    do_once("permit", "The permit is asked for once.", "sh tools/permit.sh", r"has permit number P-\d{4}", "permit number"),
    *map(_check_sheet, ("abbey", "bridge", "cinema")),
)
"""Steps that the agent takes before the user changes the rules of the timetable for the first time."""
STEPS_BEFORE_SECOND_CHANGE = (
    *(_revise_sheet(1, stop, "interval ${interval} first ${first_bus}") for stop in STOPS[:SHEETS_BEFORE_FIRST_CHANGE]),
    *(row for stop in STOPS[SHEETS_BEFORE_FIRST_CHANGE:SHEETS_BEFORE_SECOND_CHANGE] for row in _write_sheet(stop)),
    *map(_check_sheet, ("bakery", "castle", "forge", "mill")),
)
"""Steps that the agent takes between the user's first and second change of the timetable's rules."""
FINAL_STEPS = (
    *(_revise_sheet(2, stop, "interval ${interval} zone ${zone}") for stop in STOPS[:SHEETS_BEFORE_SECOND_CHANGE]),
    *(row for stop in STOPS[SHEETS_BEFORE_SECOND_CHANGE:] for row in _write_sheet(stop)),
    *map(_check_sheet, ("harbour", "market", "school", "theatre", "vineyard")),
    do("overview", "The papers: first the overview.", write("plan/overview.md", _OVERVIEW)),
    do("poster", "The poster.", write("plan/poster.txt", _POSTER)),
    do("letter", "The letter to those who live there.", write("plan/letter.md", _LETTER)),
    do("bays", "Which bay at which stop.", write("plan/bays.md", "".join(f"- {stop}=${{bay_{stop}}}\n" for stop in BAYS))),
)


def find_change_steps() -> tuple[int, int]:
    """Return two step numbers: the user changes the rules for the timetable right before each of these steps."""
    return len(STEPS_BEFORE_FIRST_CHANGE) + 1, len(STEPS_BEFORE_FIRST_CHANGE) + len(STEPS_BEFORE_SECOND_CHANGE) + 1


@cache
def build_script() -> Script:
    """Build the script that a scripted model follows: an agent's steps, with placeholders such as `${rate}` for values."""
    sections = (STEPS_BEFORE_FIRST_CHANGE, STEPS_BEFORE_SECOND_CHANGE, FINAL_STEPS)
    return make_script("Sheets and papers are done.", ("sheets/", "plan/"), *sections)
